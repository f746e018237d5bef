//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// besieged is one process's shared value, so that it listens.
var besieged atomic.Pointer[fiber.Shared[int]]

var (
	listenToo = fiber.Register("listenToo", func(ctx context.Context, n int) (fibertest.None, error) {
		s, err := fiber.Share(ctx, n)
		besieged.Store(s)
		return fibertest.None{}, err
	})

	// plus adds a shared number, slowly.
	plus = fiber.Register("plus", func(ctx context.Context, p addition) (int, error) {
		n, err := p.To.Get(ctx)
		time.Sleep(p.Nap)
		return n + p.N, err
	})
)

type addition struct {
	To  *fiber.Shared[int]
	N   int
	Nap time.Duration
}

// A map that goes on until a file is there.
var _ = fibertest.MainProgram("besieged", func(ctx context.Context) error {
	s, err := fiber.Share(ctx, 1000)
	if err != nil {
		return err
	}
	defer s.Close()
	pool, err := fiber.NewPool(3, fiber.WithInitializer(listenToo, 7))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	if _, err := fiber.Map(ctx, pool, plus, fibertest.SlicesOf(addition{s, 0, 10 * time.Millisecond}, 12), fiber.ChunkSize(1)); err != nil {
		return err
	}
	fmt.Println("started")
	rounds := 0
	for over := false; !over; rounds++ {
		_, err := os.Stat(os.Getenv(fibertest.ArgKey))
		over = err == nil // one more round
		ins := make([]addition, 500)
		for i := range ins {
			ins[i] = addition{s, i, 200 * time.Microsecond}
		}
		outs, err := fiber.Map(ctx, pool, plus, ins)
		if err != nil {
			return err
		}
		for i, out := range outs {
			if out != 1000+i {
				return fmt.Errorf("%d for %d", out, i)
			}
		}
	}
	st := pool.Stats()
	fmt.Println("right, lost", st.WorkersLost, "retried", st.Retried)
	return nil
})

// greeting and ready are how a ZMTP peer begins.
func zmtpGreeting() []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return b
}

func zmtpReady() []byte {
	body := "\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
	return append([]byte{4, byte(len(body))}, body...)
}

func zmtpMessage(parts ...[]byte) (b []byte) {
	for i, p := range parts {
		flag := byte(0)
		if i < len(parts)-1 {
			flag = 1
		}
		b = append(append(b, flag, byte(len(p))), p...)
	}
	return b
}

// siege is a connection that does not belong to the run: what it sends.
func siege(r *rand.Rand, i int) []byte {
	hello := append(zmtpGreeting(), zmtpReady()...)
	random := make([]byte, 1+r.IntN(4000))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	switch i % 8 {
	case 0:
		return nil // silence
	case 1:
		return zmtpGreeting()[:10]
	case 2:
		return zmtpGreeting()
	case 3:
		return hello
	case 4:
		return random
	case 5: // a frame of an exabyte
		return append(hello, 2, 0x3f, 0, 0, 0, 0, 0, 0, 0)
	case 6: // without the secret
		proof := random[:min(32, len(random))]
		return append(hello, append(zmtpMessage(make([]byte, 32)), zmtpMessage(proof)...)...)
	}
	return append(hello, random...)
}

func residentMiB(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var all, resident int
	fmt.Sscan(string(b), &all, &resident)
	return resident * os.Getpagesize() >> 20
}

// At every socket that processes of a run listen on, nobody gets in that does
// not belong to it, and what the run does is right all the same.
func TestGarbageAtEverySocket(t *testing.T) {
	t.Parallel()
	const connections = 1000
	dir, err := os.MkdirTemp("", "siege")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	gate := fibertest.TempFile(t)
	x := fibertest.Start(t, "besieged", fibertest.ArgKey+"="+gate, "FIBER_RUNTIME_DIR="+dir)
	x.Says("started")
	var sockets []string
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type() == os.ModeSocket {
			sockets = append(sockets, path)
		}
		return nil
	})
	require.Len(t, sockets, 4, "the root and three workers listen")
	before := 0
	for _, pid := range x.Processes() {
		before += residentMiB(pid)
	}

	var all sync.WaitGroup
	var refused, answered atomic.Int64
	peak := before
	for _, socket := range sockets {
		r := rand.New(rand.NewPCG(1, uint64(len(socket))))
		for i := range connections {
			says := siege(r, i)
			nc, err := net.Dial("unix", socket)
			require.NoError(t, err)
			all.Go(func() {
				defer nc.Close()
				nc.SetDeadline(time.Now().Add(fibertest.Patience))
				nc.Write(says)
				heard, err := io.ReadAll(nc)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					return
				}
				refused.Add(1)
				if strings.Contains(string(heard), "fiber/2") { // what it tells those it lets in
					answered.Add(1)
				}
			})
		}
	}
	now := 0
	for _, pid := range x.Processes() {
		now += residentMiB(pid)
	}
	peak = max(peak, now)
	// The race detector has everything take several times the memory.
	require.Less(t, peak-before, 2*before, "MiB that strangers cost")
	if !testing.Short() {
		all.Wait()
		require.EqualValues(t, connections*len(sockets), refused.Load(), "some were left hanging")
		require.Zero(t, answered.Load(), "a stranger got in")
	}
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "started\nright, lost 0 retried 0\n", x.Out.String())
	all.Wait()
	require.Zero(t, answered.Load(), "a stranger got in")
	x.NobodyLeft()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "sockets are left")
}
