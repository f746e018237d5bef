//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Chaos: producers and consumers of one queue are killed at random. A producer
// notes what Put has acknowledged, and a consumer what it has got, right after.
const (
	chaosItems = 50_000
	chaosParts = 3 // producers, and consumers
	chaosBatch = 3 // items at a time, at most
)

type chaosPart struct {
	Queue *fiber.SimpleQueue[chaosItem]
	Dir   string
	Part  int // of a producer: it has the items Part, Part+chaosParts and so on
	From  int // the first of them that is not noted
}

// chaosItem says which process has put it.
type chaosItem struct{ From, N int }

// note appends what was done with items to a file.
func note(f *os.File, items []chaosItem) error {
	var b []byte
	for _, item := range items {
		b = fmt.Appendf(b, "%d/%d\n", item.From, item.N)
	}
	_, err := f.Write(b)
	return err
}

func (c chaosPart) file(kind string) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("%s/%s-%d-%d", c.Dir, kind, c.Part, os.Getpid()), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}

// chaosEnd is behind all items; a consumer ends with it.
var chaosEnd = chaosItem{From: -1}

var (
	chaosProducer = fiber.Register("chaosProducer", func(ctx context.Context, c chaosPart) (fibertest.None, error) {
		f, err := c.file("put")
		if err != nil {
			return fibertest.None{}, err
		}
		r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
		for n := c.From; n < chaosItems; {
			var batch []chaosItem
			for range 1 + r.IntN(chaosBatch) {
				if n < chaosItems {
					batch = append(batch, chaosItem{os.Getpid(), n})
					n += chaosParts
				}
			}
			if err := c.Queue.PutMany(ctx, batch); err != nil {
				return fibertest.None{}, err
			}
			if err := note(f, batch); err != nil {
				return fibertest.None{}, err
			}
		}
		return fibertest.None{}, nil
	})

	chaosConsumer = fiber.Register("chaosConsumer", func(ctx context.Context, c chaosPart) (fibertest.None, error) {
		f, err := c.file("got")
		if err != nil {
			return fibertest.None{}, err
		}
		for n := 0; ; n++ {
			items, err := c.Queue.GetMany(ctx, 1+n%chaosBatch)
			if err != nil {
				return fibertest.None{}, err
			}
			ends := slices.Index(items, chaosEnd)
			if ends >= 0 { // all behind it are ends, too
				if err := c.Queue.PutMany(ctx, items[ends+1:]); err != nil {
					return fibertest.None{}, err
				}
				items = items[:ends]
			}
			if err := note(f, items); err != nil || ends >= 0 {
				return fibertest.None{}, err
			}
		}
	})
)

// noted reads what was noted, and by whom: the files' names end in a process.
func noted(t testing.TB, dir, kind string) map[int][]chaosItem {
	files, err := filepath.Glob(dir + "/" + kind + "-*")
	require.NoError(t, err)
	all := map[int][]chaosItem{}
	for _, file := range files {
		pid, err := strconv.Atoi(file[strings.LastIndexByte(file, '-')+1:])
		require.NoError(t, err)
		for _, line := range fibertest.Lines(t, file) {
			var p chaosItem
			_, err := fmt.Sscanf(line, "%d/%d", &p.From, &p.N)
			require.NoError(t, err, line)
			all[pid] = append(all[pid], p)
		}
	}
	return all
}

func TestChaosOfAQueue(t *testing.T) {
	t.Parallel()
	q, dir := fibertest.NewQueue[chaosItem](t), t.TempDir()
	ctx := fibertest.Within(t, 2*fibertest.Patience)
	next := func(part int) int { // what its producers have not noted
		n := part
		for _, items := range noted(t, dir, fmt.Sprintf("put-%d", part)) {
			n = max(n, items[len(items)-1].N+chaosParts)
		}
		return n
	}
	var producers, consumers [chaosParts]*fiber.Process
	startProducer := func(part int) {
		producers[part] = fiber.NewProcess(chaosProducer, chaosPart{q, dir, part, next(part)})
		fibertest.Begin(t, producers[part])
	}
	startConsumer := func(part int) {
		consumers[part] = fiber.NewProcess(chaosConsumer, chaosPart{q, dir, part, 0})
		fibertest.Begin(t, consumers[part])
	}
	for i := range chaosParts {
		startProducer(i)
		startConsumer(i)
	}
	killed := map[int]bool{} // consumers
	kills := 0
	kill := func(p *fiber.Process) {
		syscall.Kill(p.PID(), syscall.SIGSTOP) // a consumer is handed something now
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, p.Kill())
		kills++
		var exit *fiber.ExitError
		if err := p.Join(ctx); err != nil {
			require.ErrorAs(t, err, &exit)
		}
	}
	for r, busy := rand.New(rand.NewPCG(rand.Uint64(), 2)), true; busy; {
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		if part := r.IntN(chaosParts); r.IntN(2) == 0 {
			kill(producers[part])
			if next(part) < chaosItems {
				startProducer(part)
			}
		} else {
			killed[consumers[part].PID()] = true
			kill(consumers[part])
			startConsumer(part)
		}
		busy = false
		for part, p := range producers {
			if code, exited := p.ExitCode(); !exited || code != 0 {
				busy = busy || next(part) < chaosItems
			}
		}
	}
	for _, p := range producers {
		p.Join(ctx)
	}
	for range chaosParts {
		require.NoError(t, q.Put(ctx, chaosEnd))
	}
	for _, p := range consumers {
		require.NoError(t, p.Join(ctx))
	}

	got := noted(t, dir, "got")
	var rest []chaosItem // what came back late from a dead consumer
	lost := func() (lost []chaosItem) {
		for n, err := q.Len(ctx); n > 0; n, err = q.Len(ctx) {
			require.NoError(t, err)
			items, err := q.GetMany(ctx, n)
			require.NoError(t, err)
			rest = append(rest, slices.DeleteFunc(items, func(p chaosItem) bool { return p == chaosEnd })...)
		}
		seen := map[chaosItem]bool{}
		for _, p := range rest {
			seen[p] = true
		}
		for _, items := range got {
			for _, p := range items {
				seen[p] = true
			}
		}
		for _, items := range noted(t, dir, "put") {
			for _, p := range items {
				if !seen[p] {
					lost = append(lost, p)
				}
			}
		}
		return lost
	}
	// A consumer may die when Get has returned and it has not noted what, which
	// is seldom. If what it was handed were lost, that would be twice as much.
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(lost()) <= len(killed) }, "items are lost")
	t.Logf("%d killed, %d of them consumers; %d came back late; %d got and not noted by one that died", kills, len(killed), len(rest), len(lost()))
	require.Greater(t, kills, 5)
	times, live := map[chaosItem]int{}, map[chaosItem]bool{}
	got[os.Getpid()] = rest
	total := 0
	for pid, items := range got {
		total += len(items)
		for _, p := range items {
			times[p]++
			live[p] = live[p] || !killed[pid]
		}
	}
	for p, n := range times {
		require.True(t, n == 1 || !live[p], "%v was got %d times", p, n)
	}
	require.GreaterOrEqual(t, total, chaosItems-len(killed)*chaosBatch)
}
