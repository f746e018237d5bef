//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// bookcase is an object that holds proxies of others.
type bookcase struct {
	journals map[string]*fiber.Proxy[*journal]
}

type placing struct {
	Name    string
	Journal *fiber.Proxy[*journal]
}

var (
	bookcases = fiber.RegisterType("bookcase", func(context.Context, fibertest.None) (*bookcase, error) {
		return &bookcase{map[string]*fiber.Proxy[*journal]{}}, nil
	})
	place = fiber.RegisterMethod("Place", func(s *bookcase, _ context.Context, p placing) (fibertest.None, error) {
		s.journals[p.Name] = p.Journal
		return fibertest.None{}, nil
	})
	fetch = fiber.RegisterMethod("Fetch", func(s *bookcase, _ context.Context, name string) (*fiber.Proxy[*journal], error) {
		return s.journals[name], nil
	})
	discard = fiber.RegisterMethod("Discard", func(s *bookcase, _ context.Context, name string) (fibertest.None, error) {
		delete(s.journals, name)
		return fibertest.None{}, nil
	})
	// writeAll writes a line into all journals of a bookcase.
	writeAll = fiber.RegisterMethod("WriteAll", func(s *bookcase, ctx context.Context, line int) (int, error) {
		for _, j := range s.journals {
			if _, err := fiber.Call(ctx, j, writeEntry, entry{Line: line}); err != nil {
				return 0, err
			}
		}
		return len(s.journals), nil
	})
	// publish makes a journal in another manager and gives it away.
	publish = fiber.RegisterMethod("Publish", func(_ *bookcase, ctx context.Context, p publishing) (*fiber.Proxy[*journal], error) {
		return fiber.NewObject(ctx, p.Manager, journals, p.File)
	})
	// collect has the garbage of an object's process collected.
	collect = fiber.RegisterMethod("Collect", func(*bookcase, context.Context, fibertest.None) (fibertest.None, error) {
		runtime.GC()
		return fibertest.None{}, nil
	})
)

type publishing struct {
	Manager *fiber.Manager
	File    string
}

// Objects hold others, of their own manager and of another one.
func TestProxiesInsideManagedObjects(t *testing.T) {
	t.Parallel()
	one, two := fibertest.NewManager(t), fibertest.NewManager(t)
	s := manage(t, one, bookcases, fibertest.None{})
	same, other := manage(t, one, journals, ""), manage(t, two, journals, "")
	must(t, s, place, placing{"same", same})
	must(t, s, place, placing{"other", other})
	must(t, s, place, placing{"again", other})
	require.Equal(t, 3, must(t, s, writeAll, 5))
	require.Equal(t, []int{5}, must(t, same, readLines, fibertest.None{}))
	require.Equal(t, []int{5, 5}, must(t, other, readLines, fibertest.None{}))

	back := must(t, s, fetch, "other")
	require.Equal(t, 6, must(t, back, writeEntry, entry{Line: 6}))
	require.Equal(t, two.PID(), must(t, back, journalIn, fibertest.None{}))
	require.Equal(t, []int{5, 5, 6}, must(t, other, readLines, fibertest.None{}))
	require.Nil(t, must(t, s, fetch, "none"), "nil is a result")

	for _, m := range []*fiber.Manager{one, two} {
		made := must(t, s, publish, publishing{Manager: m})
		require.Equal(t, m.PID(), must(t, made, journalIn, fibertest.None{}))
	}
}

// writeBelow has a process of its own, two below the root, and its pool write.
var writeBelow = fiber.Register("writeBelow", func(ctx context.Context, w writing) (*fiber.Proxy[*journal], error) {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := fiber.Map(ctx, pool, writeHere, []writing{w, w, w, w}, fiber.ChunkSize(1)); err != nil {
		return nil, err
	}
	p := fiber.NewProcess(writeHere, w)
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return w.Journal, p.Join(ctx)
})

// manageBelow is a process that has a manager of its own, and gives away what
// is in it as long as it lives.
var manageBelow = fiber.Register("manageBelow", func(ctx context.Context, b *fiber.Proxy[*bell]) (lines []int, err error) {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s, err := fiber.NewObject(ctx, m, bookcases, fibertest.None{})
	if err != nil {
		return nil, err
	}
	j, err := fiber.Call(ctx, s, publish, publishing{Manager: m})
	if err != nil {
		return nil, err
	}
	pool, err := fiber.NewPool(2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := fiber.Map(ctx, pool, writeHere, fibertest.SlicesOf(writing{Journal: j, Entry: entry{Line: 4}}, 10), fiber.ChunkSize(1)); err != nil {
		return nil, err
	}
	if _, err := fiber.Call(ctx, b, ringBell, "done"); err != nil {
		return nil, err
	}
	return fiber.Call(ctx, j, readLines, fibertest.None{})
})

func TestProxiesInOtherProcesses(t *testing.T) {
	t.Parallel()
	m, pool := fibertest.NewManager(t), fibertest.NewPool(t, 2)
	j, b := manage(t, m, journals, ""), manage(t, m, bells, fibertest.None{})
	ws := make([]writing, 200)
	for i := range ws {
		ws[i] = writing{Journal: j, Entry: entry{Line: i}}
	}
	outs, err := fiber.Map(fibertest.Soon(t), pool, writeHere, ws, fiber.ChunkSize(1))
	require.NoError(t, err)
	require.Equal(t, fibertest.Numbers(200), outs)
	require.ElementsMatch(t, fibertest.Numbers(200), must(t, j, readLines, fibertest.None{}))

	back, err := fiber.Apply(fibertest.Soon(t), pool, writeBelow, writing{Journal: j, Entry: entry{Line: 7}})
	require.NoError(t, err)
	require.Equal(t, []int{7, 7, 7, 7, 7}, must(t, back, readLines, fibertest.None{})[200:])

	below, err := fiber.Apply(fibertest.Soon(t), pool, manageBelow, b)
	require.NoError(t, err)
	require.Equal(t, fibertest.SlicesOf(4, 10), below)
	must(t, b, awaitBell, "done")

	// Concurrent calls of many processes get their own answers.
	futures := make([]*fiber.Future[fibertest.None], 50)
	for i := range futures {
		futures[i] = fiber.ApplyAsync(fibertest.Soon(t), pool, waitHere, waiting{b, fmt.Sprint(i / 25)})
	}
	for range futures {
		must(t, b, ringBell, "0")
		must(t, b, ringBell, "1")
	}
	for _, f := range futures {
		_, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
	}
}

type waiting struct {
	Bell *fiber.Proxy[*bell]
	Name string
}

var waitHere = fiber.Register("waitHere", func(ctx context.Context, w waiting) (fibertest.None, error) {
	return fiber.Call(ctx, w.Bell, awaitBell, w.Name)
})

// A method of an object calls another one of the same manager, which is the
// same process: what it gives and what it gets is its own all the same.
type pair struct{ One, Two *fiber.Proxy[*noteKeeper] }

var exchange = fiber.RegisterMethod("Exchange", func(_ *bookcase, ctx context.Context, p pair) (float64, error) {
	notes := make([]float64, 100_000)
	for i := range notes {
		notes[i] = 1
	}
	if _, err := fiber.Call(ctx, p.One, keepNotes, notes); err != nil {
		return 0, err
	}
	clear(notes)
	got, err := fiber.Call(ctx, p.Two, reuse, 2)
	if err != nil {
		return 0, err
	}
	if _, err := fiber.CallAsync(ctx, p.Two, reuse, 3).Get(ctx); err != nil {
		return 0, err
	}
	sum, err := fiber.Call(ctx, p.One, sumNotes, fibertest.None{})
	for _, x := range got {
		sum += x
	}
	over, cancel := context.WithCancel(ctx)
	b, err2 := fiber.NewObject(ctx, p.Manager(), bells, fibertest.None{})
	if err2 != nil {
		cancel()
		return 0, err2
	}
	waits := fiber.CallAsync(over, b, awaitBell, "never")
	cancel()
	if _, err := waits.Get(ctx); !errors.Is(err, context.Canceled) {
		return 0, fmt.Errorf("a call that was given up gave %v", err)
	}
	return sum, err
})

// managersHere are those that a process was given.
var managersHere sync.Map

func (pair) Manager() *fiber.Manager {
	m, _ := managersHere.Load("one")
	return m.(*fiber.Manager)
}

var bringManager = fiber.RegisterMethod("BringManager", func(_ *bookcase, _ context.Context, m *fiber.Manager) (fibertest.None, error) {
	managersHere.Store("one", m)
	return fibertest.None{}, nil
})

func TestCallsWithinOneManager(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	s := manage(t, m, bookcases, fibertest.None{})
	must(t, s, bringManager, m)
	p := pair{manage(t, m, noteKeepers, 0), manage(t, m, noteKeepers, 100_000)}
	require.Equal(t, 300_000.0, must(t, s, exchange, p))
}

// Proxies and methods that are taken for those of another type, which does not
// compile, but may come over the wire.
func TestProxyOfAnotherType(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	j := manage(t, m, journals, "")
	name, err := j.MarshalBinary()
	require.NoError(t, err)
	var mismatch *fiber.MismatchError
	err = new(fiber.Proxy[*bell]).UnmarshalBinary(name)
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "journal, not of a *github.com/fiber-go/fiber/test/objects_test.bell")
	require.Error(t, new(fiber.Proxy[*bell]).UnmarshalBinary([]byte("nonsense")))
	require.Error(t, new(fiber.Manager).UnmarshalBinary([]byte{0xff}))

	same := new(fiber.Proxy[*journal])
	require.NoError(t, same.UnmarshalBinary(name))
	require.Equal(t, m.PID(), must(t, same, journalIn, fibertest.None{}))

	_, err = fiber.Call(fibertest.Soon(t), (*fiber.Proxy[*bell])(j), ringBell, "x")
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "bell.Ring belongs to ")
	_, err = fiber.CallAsync(fibertest.Soon(t), j, (*fiber.ObjectMethod[*journal, string, fibertest.None])(ringBell), "x").Get(fibertest.Soon(t))
	require.ErrorAs(t, err, &mismatch)
	_, err = fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), waitHere, waiting{Bell: (*fiber.Proxy[*bell])(j)})
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, 1, must(t, j, writeEntry, entry{Line: 1}), "the object goes on")
}

// How many objects are left in files where they say that they are closed.
func closedIn(t testing.TB, file string) func(n int) func() bool {
	return func(n int) func() bool {
		return func() bool {
			runtime.GC()
			return len(fibertest.Lines(t, file)) == n
		}
	}
}

// An object lives while somebody has a proxy of it, and no longer.
func TestObjectsLiveWhileTheyAreHeld(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	t.Run("here", func(t *testing.T) {
		t.Parallel()
		file := fibertest.TempFile(t)
		closed := closedIn(t, file)
		one, two := manage(t, m, journals, file), manage(t, m, journals, file)
		copied := *one
		must(t, two, writeEntry, entry{Line: 1})
		runtime.KeepAlive(two)
		fibertest.Eventually(t, fibertest.Patience, closed(1), "the one that nobody holds")
		require.Equal(t, 2, must(t, &copied, writeEntry, entry{Line: 2}), "the other one lives")
		require.Len(t, fibertest.Lines(t, file), 1)
		runtime.KeepAlive(&copied)
		fibertest.Eventually(t, fibertest.Patience, closed(2), "now both")
	})
	t.Run("in another object", func(t *testing.T) {
		t.Parallel()
		file := fibertest.TempFile(t)
		closed := closedIn(t, file)
		other := fibertest.NewManager(t)
		s := manage(t, other, bookcases, fibertest.None{})
		// It is made there, and its name does not come here.
		must(t, s, makeFor, publishing{m, file})
		must(t, s, makeFor, publishing{m, file})
		must(t, s, collect, fibertest.None{})
		fibertest.Eventually(t, fibertest.Patience, closed(1), "the one that was replaced")
		time.Sleep(fibertest.Lapse + fibertest.Lapse/2) // longer than it would live
		require.Equal(t, 1, must(t, s, writeAll, 3))
		require.Len(t, fibertest.Lines(t, file), 1)
		must(t, s, discard, "it")
		fibertest.Eventually(t, fibertest.Patience, func() bool {
			must(t, s, collect, fibertest.None{})
			return closed(2)()
		}, "the one that was discarded")
	})
	t.Run("in a process that is killed", func(t *testing.T) {
		t.Parallel()
		file := fibertest.TempFile(t)
		pool := fibertest.NewPool(t, 1)
		pid, err := fiber.Apply(fibertest.Soon(t), pool, holdHere, publishing{m, file})
		require.NoError(t, err)
		time.Sleep(fibertest.Lapse + fibertest.Lapse/2)
		require.Empty(t, fibertest.Lines(t, file), "it is held")
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		fibertest.Eventually(t, fibertest.Patience, closedIn(t, file)(1), "its holder is dead")
	})
	t.Run("not by a result", func(t *testing.T) {
		t.Parallel()
		file := fibertest.TempFile(t)
		f := fiber.CallAsync(fibertest.Soon(t), manage(t, m, journals, file), writeEntry, entry{Line: 1})
		_, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		fibertest.Eventually(t, fibertest.Patience, closedIn(t, file)(1), "only the result is held")
		runtime.KeepAlive(f)
	})
	t.Run("as long as it is called", func(t *testing.T) {
		t.Parallel()
		file := fibertest.TempFile(t)
		b := manage(t, m, bells, fibertest.None{})
		futures := make([]*fiber.Future[int], 2)
		for i := range futures {
			futures[i] = fiber.CallAsync(fibertest.Soon(t), manage(t, m, journals, file), writeEntry, entry{1, b})
		}
		sync := make(chan error, 1)
		go func() {
			_, err := fiber.Call(fibertest.Soon(t), manage(t, m, journals, file), writeEntry, entry{2, b})
			sync <- err
		}()
		for range 3 {
			must(t, b, awaitBell, "begun")
		}
		for deadline := time.Now().Add(fibertest.Lapse + fibertest.Lapse/2); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			runtime.GC()
		}
		require.Empty(t, fibertest.Lines(t, file))
		for _, f := range futures {
			require.False(t, f.Ready())
		}
		for range 3 {
			must(t, b, ringBell, "go on")
		}
		require.NoError(t, <-sync)
		for _, f := range futures {
			_, err := f.Get(fibertest.Soon(t))
			require.NoError(t, err)
		}
		fibertest.Eventually(t, fibertest.Patience, closedIn(t, file)(3), "nobody calls them any more")
	})
}

// makeFor makes a journal and keeps it.
var makeFor = fiber.RegisterMethod("MakeFor", func(s *bookcase, ctx context.Context, p publishing) (fibertest.None, error) {
	j, err := fiber.NewObject(ctx, p.Manager, journals, p.File)
	s.journals["it"] = j
	return fibertest.None{}, err
})

var heldHere atomic.Pointer[fiber.Proxy[*journal]]

// holdHere makes a journal that lives as long as its process.
var holdHere = fiber.Register("holdHere", func(ctx context.Context, p publishing) (int, error) {
	j, err := fiber.NewObject(ctx, p.Manager, journals, p.File)
	heldHere.Store(j)
	return os.Getpid(), err
})

// What a program uses, as it is told by its process.
type usage struct{ goroutines, files, children, heap int }

func used() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), len(fibertest.OpenFiles()), len(fibertest.ChildrenOf(os.Getpid())), int(m.HeapAlloc >> 10)}
}

// slack is what more may be used for other reasons: goroutines, KiB.
var slack = usage{goroutines: 8, heap: 2048}

// slackThere is that of a manager, in KiB: the runtime keeps the descriptors of
// as many goroutines as there ever were, and 10,000 objects may be closed at the
// same moment.
const slackThere = 8 << 10

// returns waits until no more is used than before.
func (before usage) returns(ctx context.Context) error {
	for {
		now := used()
		if now.goroutines <= before.goroutines+slack.goroutines && now.files <= before.files && now.children <= before.children && now.heap <= before.heap+slack.heap {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("used %+v before and %+v now", before, now)
		}
	}
}

var _ = fibertest.MainProgram("managers come and go", func(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fibertest.Patience)
	defer cancel()
	round := func(managers, proxies int) error {
		var all sync.WaitGroup
		failed := make(chan error, managers)
		for range managers {
			all.Go(func() {
				m, err := fiber.NewManager(ctx)
				if err != nil {
					failed <- err
					return
				}
				for i := range proxies {
					j, err := fiber.NewObject(ctx, m, journals, "")
					if err == nil {
						_, err = fiber.Call(ctx, j, writeEntry, entry{Line: i})
					}
					if err != nil {
						failed <- err
						return
					}
				}
				failed <- m.Close()
			})
		}
		all.Wait()
		close(failed)
		var errs error
		for err := range failed {
			errs = errors.Join(errs, err)
		}
		return errs
	}
	if err := round(10, 10); err != nil {
		return err
	}
	before := used()
	for range 10 {
		if err := round(10, 100); err != nil {
			return err
		}
	}
	if err := before.returns(ctx); err != nil {
		return err
	}
	fmt.Println("right")
	return nil
})

var _ = fibertest.MainProgram("proxies come and go", func(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fibertest.Patience)
	defer cancel()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	round := func(n int) error {
		held := make([]*fiber.Proxy[*noteKeeper], n)
		for i := range held {
			var err error
			if held[i], err = fiber.NewObject(ctx, m, noteKeepers, 100); err != nil {
				return err
			}
		}
		for _, k := range held {
			if _, err := fiber.Call(ctx, k, sumNotes, fibertest.None{}); err != nil {
				return err
			}
		}
		return nil
	}
	r, err := fiber.NewObject(ctx, m, reporters, fibertest.None{})
	if err != nil {
		return err
	}
	there := func() ([3]int, error) { return fiber.Call(ctx, r, report, fibertest.None{}) }
	// Maps keep the room that they once needed.
	if err := round(10_000); err != nil {
		return err
	}
	for gone := false; !gone; time.Sleep(20 * time.Millisecond) {
		runtime.GC()
		now, err := there()
		if err != nil {
			return err
		}
		gone = now[2] == 0
	}
	before := used()
	beforeThere, err := there()
	if err != nil {
		return err
	}
	if err := round(10_000); err != nil {
		return err
	}
	if err := before.returns(ctx); err != nil {
		return err
	}
	for last := beforeThere; ; {
		now, err := there()
		if err != nil {
			return fmt.Errorf("in the manager %v before and %v now: %w", beforeThere, last, err)
		}
		last = now
		if now[2] == 0 && now[0] <= beforeThere[0]+slackThere && now[1] <= beforeThere[1]+slack.goroutines {
			fmt.Println("right")
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
})

// reporter tells what its process uses.
type reporter struct{}

var (
	reporters = fiber.RegisterType("reporter", func(context.Context, fibertest.None) (reporter, error) { return reporter{}, nil })
	report    = fiber.RegisterMethod("Report", func(reporter, context.Context, fibertest.None) ([3]int, error) {
		u := used()
		return [3]int{u.heap, u.goroutines, int(keepersHere.Load())}, nil
	})
)

func TestManagersAndProxiesLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"managers come and go", "proxies come and go"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := fibertest.Start(t, name)
			require.Zero(t, x.Wait(2*fibertest.Patience))
			require.Equal(t, "right\n", x.Out.String())
			x.NobodyLeft()
		})
	}
}
