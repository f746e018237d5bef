//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// manage makes an object in a manager.
func manage[T, In any](t testing.TB, m *fiber.Manager, typ *fiber.ObjectType[T, In], in In) *fiber.Proxy[T] {
	t.Helper()
	p, err := fiber.NewObject(fibertest.Soon(t), m, typ, in)
	require.NoError(t, err)
	return p
}

// must calls a method that does not fail.
func must[T, In, Out any](t testing.TB, p *fiber.Proxy[T], method *fiber.ObjectMethod[T, In, Out], in In) Out {
	t.Helper()
	out, err := fiber.Call(fibertest.Soon(t), p, method, in)
	require.NoError(t, err)
	return out
}

// bell is where methods, which run in another process, and tests wait for
// each other.
type bell struct {
	mu    sync.Mutex
	rings map[string]chan struct{}
}

func (b *bell) named(name string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.rings[name]
	if c == nil {
		c = make(chan struct{}, 10_000)
		b.rings[name] = c
	}
	return c
}

// Ring lets one Wait for the same name go on, now or later.
func (b *bell) Ring(_ context.Context, name string) (fibertest.None, error) {
	b.named(name) <- struct{}{}
	return fibertest.None{}, nil
}

func (b *bell) Wait(ctx context.Context, name string) (fibertest.None, error) {
	select {
	case <-b.named(name):
		return fibertest.None{}, nil
	case <-ctx.Done():
		return fibertest.None{}, ctx.Err()
	}
}

var (
	bells = fiber.RegisterType("bell", func(context.Context, fibertest.None) (*bell, error) {
		return &bell{rings: map[string]chan struct{}{}}, nil
	}, fiber.WithConcurrentCalls())
	ringBell  = fiber.RegisterMethod("Ring", (*bell).Ring)
	awaitBell = fiber.RegisterMethod("Wait", (*bell).Wait)
)

// journal is an object whose methods must not run at the same time.
type journal struct {
	lines []int
	busy  atomic.Bool
	file  string
}

// entry is a line for a journal. While it is written the journal waits for a
// bell, if there is one.
type entry struct {
	Line int
	Bell *fiber.Proxy[*bell] // rung "begun", then waited for as "go on"
}

func (j *journal) Write(ctx context.Context, e entry) (int, error) {
	if !j.busy.CompareAndSwap(false, true) {
		return 0, errors.New("two methods run at the same time")
	}
	defer j.busy.Store(false)
	j.lines = append(j.lines, e.Line)
	if e.Bell == nil {
		return e.Line, nil
	}
	if _, err := fiber.Call(context.WithoutCancel(ctx), e.Bell, ringBell, "begun"); err != nil {
		return 0, err
	}
	_, err := fiber.Call(ctx, e.Bell, awaitBell, "go on")
	if ctx.Err() != nil {
		fiber.Call(context.WithoutCancel(ctx), e.Bell, ringBell, "ended")
	}
	return e.Line, err
}

func (j *journal) Read(context.Context, fibertest.None) ([]int, error) { return j.lines, nil }

func (j *journal) PID(context.Context, fibertest.None) (int, error) { return os.Getpid(), nil }

func (j *journal) Close() error {
	if j.file != "" {
		return fibertest.Marking{File: j.file, Line: "closed"}.Append()
	}
	return nil
}

var (
	// A journal notes in a file, if it is given one, that it is closed.
	journals = fiber.RegisterType("journal", func(_ context.Context, file string) (*journal, error) {
		return &journal{file: file}, nil
	})
	writeEntry = fiber.RegisterMethod("Write", (*journal).Write)
	readLines  = fiber.RegisterMethod("Read", (*journal).Read)
	journalIn  = fiber.RegisterMethod("PID", (*journal).PID)
)

func TestManagedObject(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	require.Regexp(t, `^Manager-\d+$`, m.Name())
	require.Equal(t, strconv.Itoa(m.PID()), m.ID())
	one, two := manage(t, m, journals, ""), manage(t, m, journals, "")
	for i := range 5 {
		require.Equal(t, i, must(t, one, writeEntry, entry{Line: i}))
	}
	require.Equal(t, 7, must(t, two, writeEntry, entry{Line: 7}))
	require.Equal(t, []int{0, 1, 2, 3, 4}, must(t, one, readLines, fibertest.None{}))
	require.Equal(t, []int{7}, must(t, two, readLines, fibertest.None{}))
	require.Equal(t, m.PID(), must(t, one, journalIn, fibertest.None{}))
	require.NotEqual(t, os.Getpid(), m.PID())
	require.Equal(t, "journal", journals.Name())
	require.Contains(t, writeEntry.Name(), "journal.Write")
}

// Objects of all sorts of types.
type (
	celsius  float64
	registry map[string]int
	shape    interface{ Area() float64 }
	rect     struct{ A, B float64 }
)

func (r rect) Area() float64 { return r.A * r.B }

var (
	celsiuses  = fiber.RegisterType("celsius", func(_ context.Context, c celsius) (celsius, error) { return c, nil })
	fahrenheit = fiber.RegisterMethod("Fahrenheit", func(c celsius, _ context.Context, _ fibertest.None) (float64, error) { return float64(c)*9/5 + 32, nil })

	registries = fiber.RegisterType("registry", func(_ context.Context, _ fibertest.None) (registry, error) { return registry{}, nil })
	enroll     = fiber.RegisterMethod("Enroll", func(r registry, _ context.Context, name string) (int, error) {
		r[name]++
		return r[name], nil
	})

	shapes = fiber.RegisterType("shape", func(_ context.Context, r rect) (shape, error) { return r, nil })
	area   = fiber.RegisterMethod("Area", func(s shape, _ context.Context, _ fibertest.None) (float64, error) { return s.Area(), nil })

	rects = fiber.RegisterType("rect", func(_ context.Context, r rect) (rect, error) { return r, nil })
	sides = fiber.RegisterMethod("Sides", func(r rect, _ context.Context, _ fibertest.None) ([]float64, error) { return []float64{r.A, r.B}, nil })

	channels = fiber.RegisterType("channel", func(_ context.Context, n int) (chan int, error) { return make(chan int, n), nil })
	feed     = fiber.RegisterMethod("Feed", func(c chan int, _ context.Context, v int) (int, error) { c <- v; return len(c), nil })

	functions     = fiber.RegisterType("function", func(_ context.Context, n int) (func(int) int, error) { return func(x int) int { return n * x }, nil })
	applyFunction = fiber.RegisterMethod("Apply", func(f func(int) int, _ context.Context, x int) (int, error) { return f(x), nil })

	number = fiber.RegisterMethod("Number", func(n int, _ context.Context, _ fibertest.None) (int, error) { return n, nil })

	nils    = fiber.RegisterType("nil", func(context.Context, *int) (*nonentity, error) { return nil, nil })
	isNil   = fiber.RegisterMethod("IsNil", func(n *nonentity, _ context.Context, in *int) (bool, error) { return n == nil && in == nil, nil })
	giveNil = fiber.RegisterMethod("GiveNil", func(n *nonentity, _ context.Context, in []int) (map[string]*int, error) { return nil, nil })
)

type nonentity struct{}

func TestObjectsOfAnyType(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	require.Equal(t, 212.0, must(t, manage(t, m, celsiuses, celsius(100)), fahrenheit, fibertest.None{}))
	r := manage(t, m, registries, fibertest.None{})
	require.Equal(t, 1, must(t, r, enroll, "a"))
	require.Equal(t, 2, must(t, r, enroll, "a"))
	require.Equal(t, 6.0, must(t, manage(t, m, shapes, rect{2, 3}), area, fibertest.None{}))
	require.Equal(t, []float64{2, 3}, must(t, manage(t, m, rects, rect{2, 3}), sides, fibertest.None{}))
	c := manage(t, m, channels, 5)
	require.Equal(t, 1, must(t, c, feed, 10))
	require.Equal(t, 2, must(t, c, feed, 10))
	require.Equal(t, 42, must(t, manage(t, m, functions, 6), applyFunction, 7))
	n := manage(t, m, nils, nil)
	require.True(t, must(t, n, isNil, nil), "nil is an object and an argument")
	require.Nil(t, must(t, n, giveNil, nil))
}

// In the order in which they arrive, and never two at the same time.
func TestCallsOnOneObjectRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	j, b := manage(t, m, journals, ""), manage(t, m, bells, fibertest.None{})
	first := fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{-1, b})
	must(t, b, awaitBell, "begun")
	const n = 300
	futures := make([]*fiber.Future[int], n)
	for i := range futures {
		futures[i] = fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{Line: i})
	}
	for _, f := range futures {
		require.False(t, f.Ready())
	}
	must(t, b, ringBell, "go on")
	_, err := first.Get(fibertest.Soon(t))
	require.NoError(t, err)
	for i, f := range futures {
		got, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, i, got)
	}
	require.Equal(t, append([]int{-1}, fibertest.Numbers(n)...), must(t, j, readLines, fibertest.None{}))

	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 100 {
				if got, err := fiber.Call(fibertest.Soon(t), j, writeEntry, entry{Line: g*1000 + i}); err != nil || got != g*1000+i {
					t.Error(got, err)
				}
			}
		})
	}
	all.Wait()
	last := map[int]int{}
	for _, line := range must(t, j, readLines, fibertest.None{})[1+n:] {
		require.Equal(t, last[line/1000], line%1000, "the calls of one goroutine are in order")
		last[line/1000]++
	}
	require.Len(t, last, 8)
}

// One method of an object waits for another one.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	b := manage(t, fibertest.NewManager(t), bells, fibertest.None{})
	waits := make([]*fiber.Future[fibertest.None], 100)
	for i := range waits {
		waits[i] = fiber.CallAsync(fibertest.Soon(t), b, awaitBell, "all")
	}
	for range waits {
		must(t, b, ringBell, "all")
	}
	for _, w := range waits {
		_, err := w.Get(fibertest.Soon(t))
		require.NoError(t, err)
	}
}

func TestContextOfACall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, j *fiber.Proxy[*journal], e entry) error{
		"Call": func(ctx context.Context, j *fiber.Proxy[*journal], e entry) error {
			_, err := fiber.Call(ctx, j, writeEntry, e)
			return err
		},
		"CallAsync": func(ctx context.Context, j *fiber.Proxy[*journal], e entry) error {
			_, err := fiber.CallAsync(ctx, j, writeEntry, e).Get(fibertest.Soon(t))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := fibertest.NewManager(t)
			j, b := manage(t, m, journals, ""), manage(t, m, bells, fibertest.None{})
			ctx, cancel := context.WithCancel(fibertest.Soon(t))
			running := make(chan error, 1)
			go func() { running <- call(ctx, j, entry{1, b}) }()
			must(t, b, awaitBell, "begun")

			// A waiting one ends at once, and never begins. Others stay where they are.
			other := fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{Line: 2})
			require.ErrorIs(t, call(fibertest.Within(t, 20*time.Millisecond), j, entry{3, b}), context.DeadlineExceeded)
			over, stop := context.WithCancel(fibertest.Soon(t))
			stop()
			require.ErrorIs(t, call(over, j, entry{4, b}), context.Canceled)
			another := fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{Line: 5})

			// A running one's context ends. What it has done by then nobody knows.
			cancel()
			err := <-running
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, fiber.ErrUnknownOutcome)
			must(t, b, awaitBell, "ended")
			for _, f := range []*fiber.Future[int]{other, another} {
				_, err := f.Get(fibertest.Soon(t))
				require.NoError(t, err)
			}
			require.Equal(t, []int{1, 2, 5}, must(t, j, readLines, fibertest.None{}))
		})
	}
}

// slow is made when a bell rings.
var slowJournals = fiber.RegisterType("slow", func(ctx context.Context, b *fiber.Proxy[*bell]) (*journal, error) {
	if _, err := fiber.Call(context.WithoutCancel(ctx), b, ringBell, "begun"); err != nil {
		return nil, err
	}
	<-ctx.Done()
	_, err := fiber.Call(context.WithoutCancel(ctx), b, ringBell, "ended")
	return nil, errors.Join(err, ctx.Err())
})

func TestContextOfNew(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	b := manage(t, m, bells, fibertest.None{})
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	made := make(chan error, 1)
	go func() {
		_, err := fiber.NewObject(ctx, m, slowJournals, b)
		made <- err
	}()
	must(t, b, awaitBell, "begun")
	cancel()
	err := <-made
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, fiber.ErrUnknownOutcome)
	must(t, b, awaitBell, "ended")
	_, err = fiber.NewObject(ctx, m, journals, "")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, fiber.ErrUnknownOutcome)
}

// naughty fails in all ways.
type naughty struct{ calls int }

func (n *naughty) Misbehave(ctx context.Context, how string) (int, error) {
	n.calls++
	switch how {
	case "error":
		return 1, errors.New("an ordinary error")
	case "sentinel":
		return 1, fmt.Errorf("wrapped: %w", errShut)
	case "fiber's":
		return 1, fmt.Errorf("wrapped: %w", &fiber.ExitError{Name: "Process-9", Code: 7})
	case "canceled":
		return 1, context.Canceled
	case "panic":
		panic("oh no")
	case "nil pointer":
		return len(*(*string)(nil)), nil
	case "goexit":
		runtime.Goexit()
	case "unsendable":
		return 1, nil
	}
	return n.calls, nil
}

func newNaughty(ctx context.Context, how string) (*naughty, error) {
	n := new(naughty)
	_, err := n.Misbehave(ctx, how)
	n.calls = 0
	return n, err
}

var (
	errShut       = fiber.RegisterError(errors.New("the shop is shut"))
	naughties     = fiber.RegisterType("naughty", newNaughty)
	misbehave     = fiber.RegisterMethod("Misbehave", (*naughty).Misbehave)
	giveUnwilling = fiber.RegisterMethod("Unsend", func(*naughty, context.Context, fibertest.None) (fibertest.Unwilling, error) {
		return fibertest.Unwilling{}, nil
	})
	takeUnwilling = fiber.RegisterMethod("Take", func(*naughty, context.Context, fibertest.Unwilling) (fibertest.None, error) {
		return fibertest.None{}, nil
	})
	takeUndecodable = fiber.RegisterMethod("Decode", func(*naughty, context.Context, undecodable) (fibertest.None, error) { return fibertest.None{}, nil })
	giveUndecodable = fiber.RegisterMethod("Produce", func(*naughty, context.Context, fibertest.None) (undecodable, error) { return undecodable{}, nil })
)

// undecodable travels, but does not arrive.
type undecodable struct{}

func (undecodable) MarshalBinary() ([]byte, error) { return []byte{1}, nil }

func (*undecodable) UnmarshalBinary([]byte) (err error) { panic("not here") }

func TestErrorsOfManagedObjects(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	n := manage(t, m, naughties, "")
	for name, fails := range map[string]struct {
		fn   string
		call func(how string) error
	}{
		"New": {"naughty", func(how string) error {
			_, err := fiber.NewObject(fibertest.Soon(t), m, naughties, how)
			return err
		}},
		"Call": {misbehave.Name(), func(how string) error {
			out, err := fiber.Call(fibertest.Soon(t), n, misbehave, how)
			require.Zero(t, out)
			return err
		}},
		"CallAsync": {misbehave.Name(), func(how string) error {
			f := fiber.CallAsync(fibertest.Soon(t), n, misbehave, how)
			told := make(chan error, 1)
			f.OnDone(func(_ int, err error) { told <- err })
			_, err := f.Get(fibertest.Soon(t))
			_, again := f.Get(fibertest.Soon(t))
			require.Equal(t, err, again)
			require.Equal(t, err, <-told)
			return err
		}},
	} {
		for how, message := range map[string]string{"error": "an ordinary error", "sentinel": "wrapped: the shop is shut",
			"fiber's": "wrapped: fiber: Process-9", "canceled": "context canceled", "panic": "oh no",
			"nil pointer": "nil pointer dereference", "goexit": "Goexit"} {
			t.Run(name+" "+how, func(t *testing.T) {
				err := fails.call(how)
				var remote *fiber.RemoteError
				require.ErrorAs(t, err, &remote)
				require.Equal(t, fails.fn, remote.Func)
				require.Equal(t, m.Name(), remote.Worker)
				require.Contains(t, remote.Message, message)
				require.Equal(t, how == "sentinel", errors.Is(err, errShut))
				require.Equal(t, how == "canceled", errors.Is(err, context.Canceled))
				if how == "panic" || how == "nil pointer" {
					require.Contains(t, remote.Stack, "managed_test.go")
				} else {
					require.Empty(t, remote.Stack)
				}
				var exit *fiber.ExitError
				if errors.As(err, &exit) {
					require.Equal(t, 7, exit.Code)
				}
				require.Equal(t, how == "fiber's", exit != nil)
			})
		}
	}
	require.Equal(t, 15, must(t, n, misbehave, "count"), "the object goes on")

	var encode *fiber.EncodeError
	_, err := fiber.Call(fibertest.Soon(t), n, takeUnwilling, fibertest.Unwilling{})
	require.ErrorAs(t, err, &encode)
	require.ErrorContains(t, err, "not me")
	require.NotErrorAs(t, err, new(*fiber.RemoteError), "it never left")
	_, err = fiber.Call(fibertest.Soon(t), n, giveUnwilling, fibertest.None{})
	require.ErrorAs(t, err, &encode)
	require.ErrorAs(t, err, new(*fiber.RemoteError))
	_, err = fiber.Call(fibertest.Soon(t), n, takeUndecodable, undecodable{})
	require.ErrorAs(t, err, &encode)
	require.ErrorAs(t, err, new(*fiber.RemoteError))
	for _, result := range []func() error{
		func() error {
			_, err := fiber.Call(fibertest.Soon(t), n, giveUndecodable, fibertest.None{})
			return err
		},
		func() error {
			_, err := fiber.CallAsync(fibertest.Soon(t), n, giveUndecodable, fibertest.None{}).Get(fibertest.Soon(t))
			return err
		},
	} {
		err := result()
		require.ErrorAs(t, err, &encode)
		require.ErrorContains(t, err, "the result of")
		require.ErrorContains(t, err, "not here")
	}
	require.Equal(t, 16, must(t, n, misbehave, "count"))
}
