//go:build unix

package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// newManager starts a manager that is closed when the test ends.
func newManager(t testing.TB, opts ...fiber.ManagerOption) *fiber.Manager {
	t.Helper()
	m, err := fiber.NewManager(soon(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// manage makes an object in a manager.
func manage[T, In any](t testing.TB, m *fiber.Manager, typ *fiber.Type[T, In], in In) *fiber.Proxy[T] {
	t.Helper()
	p, err := fiber.New(soon(t), m, typ, in)
	require.NoError(t, err)
	return p
}

// must calls a method that does not fail.
func must[T, In, Out any](t testing.TB, p *fiber.Proxy[T], method *fiber.Method[T, In, Out], in In) Out {
	t.Helper()
	out, err := fiber.Call(soon(t), p, method, in)
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
func (b *bell) Ring(_ context.Context, name string) (none, error) {
	b.named(name) <- struct{}{}
	return none{}, nil
}

func (b *bell) Wait(ctx context.Context, name string) (none, error) {
	select {
	case <-b.named(name):
		return none{}, nil
	case <-ctx.Done():
		return none{}, ctx.Err()
	}
}

var (
	bells = fiber.RegisterType("bell", func(context.Context, none) (*bell, error) {
		return &bell{rings: map[string]chan struct{}{}}, nil
	}, fiber.ConcurrentCalls())
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

func (j *journal) Read(context.Context, none) ([]int, error) { return j.lines, nil }

func (j *journal) PID(context.Context, none) (int, error) { return os.Getpid(), nil }

func (j *journal) Close() error {
	if j.file != "" {
		return marking{File: j.file, Line: "closed"}.append()
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
	m := newManager(t)
	require.Regexp(t, `^Manager-\d+$`, m.Name())
	require.Equal(t, strconv.Itoa(m.PID()), m.ID())
	one, two := manage(t, m, journals, ""), manage(t, m, journals, "")
	for i := range 5 {
		require.Equal(t, i, must(t, one, writeEntry, entry{Line: i}))
	}
	require.Equal(t, 7, must(t, two, writeEntry, entry{Line: 7}))
	require.Equal(t, []int{0, 1, 2, 3, 4}, must(t, one, readLines, none{}))
	require.Equal(t, []int{7}, must(t, two, readLines, none{}))
	require.Equal(t, m.PID(), must(t, one, journalIn, none{}))
	require.NotEqual(t, os.Getpid(), m.PID())
	require.Equal(t, "journal", journals.Name())
	require.Contains(t, writeEntry.Name(), "journal.Write")
}

var processors = fiber.RegisterType("processors", func(context.Context, none) (int, error) { return runtime.GOMAXPROCS(0), nil })

func TestManagerOptions(t *testing.T) {
	t.Parallel()
	m := newManager(t, fiber.ManagerName("Library"), fiber.ManagerMeta(meta.CPU(3)))
	require.Equal(t, "Library", m.Name())
	require.Equal(t, 3, must(t, manage(t, m, processors, none{}), number, none{}))
	_, err := fiber.Call(soon(t), manage(t, m, naughties, ""), misbehave, "error")
	require.ErrorContains(t, err, "in Library")
	for text, opt := range map[string]fiber.ManagerOption{
		"ManagerName": fiber.ManagerName(" "),
		"ManagerMeta": fiber.ManagerMeta(meta.CPU(-1)),
	} {
		_, err := fiber.NewManager(soon(t), opt)
		require.ErrorContains(t, err, text)
	}
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
	fahrenheit = fiber.RegisterMethod("Fahrenheit", func(c celsius, _ context.Context, _ none) (float64, error) { return float64(c)*9/5 + 32, nil })

	registries = fiber.RegisterType("registry", func(_ context.Context, _ none) (registry, error) { return registry{}, nil })
	enroll     = fiber.RegisterMethod("Enroll", func(r registry, _ context.Context, name string) (int, error) {
		r[name]++
		return r[name], nil
	})

	shapes = fiber.RegisterType("shape", func(_ context.Context, r rect) (shape, error) { return r, nil })
	area   = fiber.RegisterMethod("Area", func(s shape, _ context.Context, _ none) (float64, error) { return s.Area(), nil })

	rects = fiber.RegisterType("rect", func(_ context.Context, r rect) (rect, error) { return r, nil })
	sides = fiber.RegisterMethod("Sides", func(r rect, _ context.Context, _ none) ([]float64, error) { return []float64{r.A, r.B}, nil })

	channels = fiber.RegisterType("channel", func(_ context.Context, n int) (chan int, error) { return make(chan int, n), nil })
	feed     = fiber.RegisterMethod("Feed", func(c chan int, _ context.Context, v int) (int, error) { c <- v; return len(c), nil })

	functions     = fiber.RegisterType("function", func(_ context.Context, n int) (func(int) int, error) { return func(x int) int { return n * x }, nil })
	applyFunction = fiber.RegisterMethod("Apply", func(f func(int) int, _ context.Context, x int) (int, error) { return f(x), nil })

	number = fiber.RegisterMethod("Number", func(n int, _ context.Context, _ none) (int, error) { return n, nil })

	nils    = fiber.RegisterType("nil", func(context.Context, *int) (*nonentity, error) { return nil, nil })
	isNil   = fiber.RegisterMethod("IsNil", func(n *nonentity, _ context.Context, in *int) (bool, error) { return n == nil && in == nil, nil })
	giveNil = fiber.RegisterMethod("GiveNil", func(n *nonentity, _ context.Context, in []int) (map[string]*int, error) { return nil, nil })
)

type nonentity struct{}

func TestObjectsOfAnyType(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	require.Equal(t, 212.0, must(t, manage(t, m, celsiuses, celsius(100)), fahrenheit, none{}))
	r := manage(t, m, registries, none{})
	require.Equal(t, 1, must(t, r, enroll, "a"))
	require.Equal(t, 2, must(t, r, enroll, "a"))
	require.Equal(t, 6.0, must(t, manage(t, m, shapes, rect{2, 3}), area, none{}))
	require.Equal(t, []float64{2, 3}, must(t, manage(t, m, rects, rect{2, 3}), sides, none{}))
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
	m := newManager(t)
	j, b := manage(t, m, journals, ""), manage(t, m, bells, none{})
	first := fiber.CallAsync(soon(t), j, writeEntry, entry{-1, b})
	must(t, b, awaitBell, "begun")
	const n = 300
	futures := make([]*fiber.Future[int], n)
	for i := range futures {
		futures[i] = fiber.CallAsync(soon(t), j, writeEntry, entry{Line: i})
	}
	for _, f := range futures {
		require.False(t, f.Ready())
	}
	must(t, b, ringBell, "go on")
	_, err := first.Get(soon(t))
	require.NoError(t, err)
	for i, f := range futures {
		got, err := f.Get(soon(t))
		require.NoError(t, err)
		require.Equal(t, i, got)
	}
	require.Equal(t, append([]int{-1}, numbers(n)...), must(t, j, readLines, none{}))

	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 100 {
				if got, err := fiber.Call(soon(t), j, writeEntry, entry{Line: g*1000 + i}); err != nil || got != g*1000+i {
					t.Error(got, err)
				}
			}
		})
	}
	all.Wait()
	last := map[int]int{}
	for _, line := range must(t, j, readLines, none{})[1+n:] {
		require.Equal(t, last[line/1000], line%1000, "the calls of one goroutine are in order")
		last[line/1000]++
	}
	require.Len(t, last, 8)
}

// One method of an object waits for another one.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	b := manage(t, newManager(t), bells, none{})
	waits := make([]*fiber.Future[none], 100)
	for i := range waits {
		waits[i] = fiber.CallAsync(soon(t), b, awaitBell, "all")
	}
	for range waits {
		must(t, b, ringBell, "all")
	}
	for _, w := range waits {
		_, err := w.Get(soon(t))
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
			_, err := fiber.CallAsync(ctx, j, writeEntry, e).Get(soon(t))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t)
			j, b := manage(t, m, journals, ""), manage(t, m, bells, none{})
			ctx, cancel := context.WithCancel(soon(t))
			running := make(chan error, 1)
			go func() { running <- call(ctx, j, entry{1, b}) }()
			must(t, b, awaitBell, "begun")

			// A waiting one ends at once, and never begins. Others stay where they are.
			other := fiber.CallAsync(soon(t), j, writeEntry, entry{Line: 2})
			require.ErrorIs(t, call(within(t, 20*time.Millisecond), j, entry{3, b}), context.DeadlineExceeded)
			over, stop := context.WithCancel(soon(t))
			stop()
			require.ErrorIs(t, call(over, j, entry{4, b}), context.Canceled)
			another := fiber.CallAsync(soon(t), j, writeEntry, entry{Line: 5})

			// A running one's context ends.
			cancel()
			require.ErrorIs(t, <-running, context.Canceled)
			must(t, b, awaitBell, "ended")
			for _, f := range []*fiber.Future[int]{other, another} {
				_, err := f.Get(soon(t))
				require.NoError(t, err)
			}
			require.Equal(t, []int{1, 2, 5}, must(t, j, readLines, none{}))
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
	m := newManager(t)
	b := manage(t, m, bells, none{})
	ctx, cancel := context.WithCancel(soon(t))
	made := make(chan error, 1)
	go func() {
		_, err := fiber.New(ctx, m, slowJournals, b)
		made <- err
	}()
	must(t, b, awaitBell, "begun")
	cancel()
	require.ErrorIs(t, <-made, context.Canceled)
	must(t, b, awaitBell, "ended")
	_, err := fiber.New(ctx, m, journals, "")
	require.ErrorIs(t, err, context.Canceled)
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
	errShut         = fiber.RegisterError(errors.New("the shop is shut"))
	naughties       = fiber.RegisterType("naughty", newNaughty)
	misbehave       = fiber.RegisterMethod("Misbehave", (*naughty).Misbehave)
	giveUnwilling   = fiber.RegisterMethod("Unsend", func(*naughty, context.Context, none) (unwilling, error) { return unwilling{}, nil })
	takeUnwilling   = fiber.RegisterMethod("Take", func(*naughty, context.Context, unwilling) (none, error) { return none{}, nil })
	takeUndecodable = fiber.RegisterMethod("Decode", func(*naughty, context.Context, undecodable) (none, error) { return none{}, nil })
	giveUndecodable = fiber.RegisterMethod("Produce", func(*naughty, context.Context, none) (undecodable, error) { return undecodable{}, nil })
)

// undecodable travels, but does not arrive.
type undecodable struct{}

func (undecodable) MarshalBinary() ([]byte, error)      { return []byte{1}, nil }
func (*undecodable) UnmarshalBinary([]byte) (err error) { panic("not here") }

func TestErrorsOfManagedObjects(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	n := manage(t, m, naughties, "")
	for name, fails := range map[string]struct {
		fn   string
		call func(how string) error
	}{
		"New": {"naughty", func(how string) error {
			_, err := fiber.New(soon(t), m, naughties, how)
			return err
		}},
		"Call": {misbehave.Name(), func(how string) error {
			out, err := fiber.Call(soon(t), n, misbehave, how)
			require.Zero(t, out)
			return err
		}},
		"CallAsync": {misbehave.Name(), func(how string) error {
			f := fiber.CallAsync(soon(t), n, misbehave, how)
			told := make(chan error, 1)
			f.OnDone(func(_ int, err error) { told <- err })
			_, err := f.Get(soon(t))
			_, again := f.Get(soon(t))
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
					require.Contains(t, remote.Stack, "manager_test.go")
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
	_, err := fiber.Call(soon(t), n, takeUnwilling, unwilling{})
	require.ErrorAs(t, err, &encode)
	require.ErrorContains(t, err, "not me")
	require.NotErrorAs(t, err, new(*fiber.RemoteError), "it never left")
	_, err = fiber.Call(soon(t), n, giveUnwilling, none{})
	require.ErrorAs(t, err, &encode)
	require.ErrorAs(t, err, new(*fiber.RemoteError))
	_, err = fiber.Call(soon(t), n, takeUndecodable, undecodable{})
	require.ErrorAs(t, err, &encode)
	require.ErrorAs(t, err, new(*fiber.RemoteError))
	for _, result := range []func() error{
		func() error { _, err := fiber.Call(soon(t), n, giveUndecodable, none{}); return err },
		func() error { _, err := fiber.CallAsync(soon(t), n, giveUndecodable, none{}).Get(soon(t)); return err },
	} {
		err := result()
		require.ErrorAs(t, err, &encode)
		require.ErrorContains(t, err, "the result of")
		require.ErrorContains(t, err, "not here")
	}
	require.Equal(t, 16, must(t, n, misbehave, "count"))
}

// noteKeeper keeps what it is given and gives it away.
type noteKeeper struct{ notes []float64 }

// keepersHere is how many of them live in this process.
var keepersHere atomic.Int64

func (*noteKeeper) Close() error {
	keepersHere.Add(-1)
	return nil
}

var (
	noteKeepers = fiber.RegisterType("noteKeeper", func(_ context.Context, n int) (*noteKeeper, error) {
		keepersHere.Add(1)
		return &noteKeeper{make([]float64, n)}, nil
	})
	keepNotes = fiber.RegisterMethod("Keep", func(k *noteKeeper, _ context.Context, notes []float64) (int, error) {
		k.notes = notes
		return len(notes), nil
	})
	sumNotes = fiber.RegisterMethod("Sum", func(k *noteKeeper, _ context.Context, _ none) (sum float64, _ error) {
		for _, x := range k.notes {
			sum += x
		}
		return sum, nil
	})
	// reuse gives away a buffer that its next call fills anew.
	reuse = fiber.RegisterMethod("Reuse", func(k *noteKeeper, _ context.Context, v float64) ([]float64, error) {
		for i := range k.notes {
			k.notes[i] = v
		}
		return k.notes, nil
	})
)

func TestLargeArgumentsAndResults(t *testing.T) {
	t.Parallel()
	const n = 10 << 20 / 8
	k := manage(t, newManager(t), noteKeepers, n)

	// What was returned is the caller's, whatever the object does afterwards.
	futures := make([]*fiber.Future[[]float64], 5)
	for i := range futures {
		futures[i] = fiber.CallAsync(soon(t), k, reuse, float64(i+1))
	}
	for i, f := range futures {
		got, err := f.Get(soon(t))
		require.NoError(t, err)
		require.Len(t, got, n)
		for _, x := range got {
			if x != float64(i+1) {
				require.FailNow(t, "a result has changed", "%v in result %d", x, i)
			}
		}
	}
	// What was given is the object's, whatever the caller does afterwards.
	notes := make([]float64, n)
	for i := range notes {
		notes[i] = 1
	}
	kept := fiber.CallAsync(soon(t), k, keepNotes, notes)
	got, err := kept.Get(soon(t))
	require.NoError(t, err)
	require.Equal(t, n, got)
	clear(notes)
	require.Equal(t, float64(n), must(t, k, sumNotes, none{}))
}

var _ = mainProgram("too large", func(ctx context.Context) error {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := fiber.New(ctx, m, noteKeepers, 1<<20)
	if err != nil {
		return err
	}
	var remote *fiber.RemoteError
	_, err = fiber.Call(ctx, k, reuse, 1)
	fmt.Println(errors.As(err, &remote), err)
	_, err = fiber.Call(ctx, k, keepNotes, make([]float64, 1<<20))
	fmt.Println(errors.As(err, &remote), err)
	_, err = fiber.New(ctx, m, nils, nil)
	if err != nil {
		return err
	}
	n, err := fiber.Call(ctx, k, keepNotes, make([]float64, 1000))
	fmt.Println(n, err)
	list, err := fiber.NewList[[]float64](ctx, m, nil)
	if err != nil {
		return err
	}
	for range 2 {
		if err := list.Append(ctx, make([]float64, 100_000)); err != nil {
			return err
		}
	}
	_, err = list.All(ctx)
	var mismatch *fiber.MismatchError
	fmt.Println(errors.As(err, &mismatch), err)
	one, err := list.Get(ctx, 1)
	fmt.Println(len(one), err)
	return nil
}, fiber.Config{MaxMessage: 1 << 20})

func TestValuesThatAreTooLargeForAMessage(t *testing.T) {
	t.Parallel()
	x := start(t, "too large")
	require.Zero(t, x.wait(patience))
	require.Regexp(t, `^true fiber: .*Reuse in Manager-1: the result: .*; set max_message \(FIBER_MAX_MESSAGE\) higher, or send it in parts
false fiber: the argument of .*Keep: .*; set max_message \(FIBER_MAX_MESSAGE\) higher, or send it in parts
1000 <nil>
false fiber: the answer of the list: .*; set max_message \(FIBER_MAX_MESSAGE\) higher, or send it in parts
100000 <nil>
$`, x.out.String())
}

// usingFails uses an object until that fails.
var usingFails = fiber.Register("usingFails", func(ctx context.Context, j *fiber.Proxy[*journal]) (none, error) {
	for {
		if _, err := fiber.Call(ctx, j, writeEntry, entry{}); err != nil {
			return none{}, err
		}
	}
})

// writeHere writes a line from the process that runs it.
var writeHere = fiber.Register("writeHere", func(ctx context.Context, w writing) (int, error) {
	call := fiber.CallAsync(ctx, w.Journal, writeEntry, w.Entry)
	if w.Asked != nil {
		if _, err := fiber.Call(ctx, w.Asked, ringBell, "asked"); err != nil {
			return 0, err
		}
	}
	return call.Get(ctx)
})

type writing struct {
	Journal *fiber.Proxy[*journal]
	Entry   entry
	Asked   *fiber.Proxy[*bell] // rings when the journal's process has been asked
}

func TestManagerClosed(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	m, b := newManager(t), manage(t, newManager(t), bells, none{})
	j := manage(t, m, journals, file)
	manage(t, m, journals, file)
	pool := newPool(t, 1)
	warm(t, pool)

	// Calls that run and that wait, here and elsewhere.
	var calls []*fiber.Future[int]
	calls = append(calls, fiber.CallAsync(soon(t), j, writeEntry, entry{1, b}))
	must(t, b, awaitBell, "begun")
	calls = append(calls, fiber.CallAsync(soon(t), j, writeEntry, entry{2, b}),
		fiber.ApplyAsync(soon(t), pool, writeHere, writing{j, entry{3, b}, b}))
	must(t, b, awaitBell, "asked")
	require.NoError(t, m.Close())
	require.False(t, running(m.PID()), "its process is left")
	for _, f := range calls {
		_, err := f.Get(soon(t))
		require.ErrorIs(t, err, fiber.ErrClosed)
		require.NotErrorAs(t, err, new(*fiber.WorkerLostError))
	}
	must(t, b, awaitBell, "ended") // the running one was told

	// Later ones.
	_, err := fiber.Call(soon(t), j, writeEntry, entry{})
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.CallAsync(soon(t), j, writeEntry, entry{}).Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.New(soon(t), m, journals, "")
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.NoError(t, m.Close(), "a second time")
	require.Equal(t, []string{"closed", "closed"}, lines(t, file), "objects are closed, once")
}

// makeAndClose makes an object in a manager that is another process's, and
// tries to close that.
var makeAndClose = fiber.Register("makeAndClose", func(ctx context.Context, m *fiber.Manager) (*fiber.Proxy[*journal], error) {
	if m.PID() != 0 || m.ID() != "" {
		return nil, errors.New("it was not started here")
	}
	j, err := fiber.New(ctx, m, journals, "")
	return j, errors.Join(err, m.Close())
})

func TestManagersTravel(t *testing.T) {
	t.Parallel()
	m, pool := newManager(t), newPool(t, 2)
	for range 4 {
		j, err := fiber.Apply(soon(t), pool, makeAndClose, m)
		require.NoError(t, err)
		require.Equal(t, m.PID(), must(t, j, journalIn, none{}))
	}
}

func TestManagerKilled(t *testing.T) {
	t.Parallel()
	m, b := newManager(t), manage(t, newManager(t), bells, none{})
	j := manage(t, m, journals, "")
	k := manage(t, m, journals, "")
	pool := newPool(t, 2)
	warm(t, pool)
	var calls []*fiber.Future[int]
	calls = append(calls, fiber.CallAsync(soon(t), j, writeEntry, entry{1, b}))
	must(t, b, awaitBell, "begun")
	calls = append(calls, fiber.CallAsync(soon(t), j, writeEntry, entry{2, b}),
		fiber.ApplyAsync(soon(t), pool, writeHere, writing{Journal: k, Entry: entry{3, b}}))
	must(t, b, awaitBell, "begun")
	using := fiber.ApplyAsync(soon(t), pool, usingFails, j) // waits as well
	eventually(t, patience, func() bool { return pool.Stats().Running == 2 }, "both run")

	require.NoError(t, syscall.Kill(m.PID(), syscall.SIGKILL))
	check := func(err error, here bool) {
		var lost *fiber.WorkerLostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, m.Name(), lost.Worker)
		require.Equal(t, m.ID(), lost.ID)
		require.Contains(t, err.Error(), fmt.Sprintf("%s (process %d", m.Name(), m.PID()))
		require.NotContains(t, err.Error(), "exit code -1")
		if here { // where it was started its end is known
			require.Equal(t, "killed", lost.Signal)
		}
	}
	for i, f := range calls {
		_, err := f.Get(soon(t))
		check(err, i < 2)
	}
	_, err := using.Get(soon(t))
	check(err, false)
	for range 3 {
		_, err := fiber.Call(soon(t), j, writeEntry, entry{})
		check(err, true)
		_, err = fiber.CallAsync(soon(t), j, writeEntry, entry{}).Get(soon(t))
		check(err, true)
		_, err = fiber.New(soon(t), m, journals, "")
		check(err, true)
		_, err = fiber.Apply(soon(t), pool, writeHere, writing{Journal: j})
		check(err, false)
	}
	require.NoError(t, m.Close())
}

// suicide ends the manager's process from inside.
var suicide = fiber.RegisterMethod("Suicide", func(*naughty, context.Context, none) (none, error) {
	fmt.Fprintln(os.Stderr, "farewell")
	os.Exit(3)
	return none{}, nil
})

func TestMethodEndsTheManager(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	_, err := fiber.Call(soon(t), manage(t, m, naughties, ""), suicide, none{})
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 3, lost.ExitCode)
	require.Equal(t, []string{"farewell"}, lost.Stderr)
}

func TestManagerThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := fiber.NewManager(soon(t), fiber.ManagerMeta(meta.GPU(1000)))
	var launch *fiber.LaunchError
	require.ErrorAs(t, err, &launch)
	require.ErrorContains(t, err, "GPU")

	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = fiber.NewManager(over)
	require.ErrorIs(t, err, context.Canceled)
	_, err = fiber.NewManager(within(t, time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A manager's process that cannot listen says why.
var _ = mainProgram("nowhere", func(ctx context.Context) error {
	_, err := fiber.NewManager(ctx)
	var launch *fiber.LaunchError
	fmt.Println(errors.As(err, &launch), len(fiber.ActiveChildren()))
	return err
})

func TestManagerThatCannotListen(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(deep, 0o700))
	x := start(t, "nowhere", "FIBER_RUNTIME_DIR="+deep)
	require.Equal(t, 1, x.wait(patience))
	require.Equal(t, "true 0\n", x.out.String())
	require.Contains(t, x.err.String(), "Manager-1")
	require.Contains(t, x.err.String(), "too deep")
	x.nobodyLeft()
}

// What is registered after the start is unknown in other processes.
var _ = mainProgram("late registration", func(ctx context.Context) error {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	lateType := fiber.RegisterType("late", func(context.Context, none) (*journal, error) { return nil, nil })
	lateMethod := fiber.RegisterMethod("Late", func(*journal, context.Context, none) (none, error) { return none{}, nil })
	var mismatch *fiber.MismatchError
	_, err = fiber.New(ctx, m, lateType, none{})
	fmt.Println(errors.As(err, &mismatch), err)
	j, err := fiber.New(ctx, m, journals, "")
	if err != nil {
		return err
	}
	_, err = fiber.Call(ctx, j, lateMethod, none{})
	fmt.Println(errors.As(err, &mismatch), err)
	return nil
})

func TestUnknownTypeAndMethod(t *testing.T) {
	t.Parallel()
	x := start(t, "late registration")
	require.Zero(t, x.wait(patience))
	require.Regexp(t, `^true .*type "late" is not registered in the manager's process
true .*method .*journal\.Late is not registered in the manager's process
$`, x.out.String())
}

func TestNothingToManage(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	j := manage(t, m, journals, "")
	for name, call := range map[string]func() error{
		"no manager":   func() error { _, err := fiber.New(soon(t), nil, journals, ""); return err },
		"zero manager": func() error { _, err := fiber.New(soon(t), new(fiber.Manager), journals, ""); return err },
		"close none":   func() error { return (*fiber.Manager)(nil).Close() },
		"close zero":   func() error { return new(fiber.Manager).Close() },
		"no type":      func() error { _, err := fiber.New(soon(t), m, (*fiber.Type[*journal, string])(nil), ""); return err },
		"zero type":    func() error { _, err := fiber.New(soon(t), m, new(fiber.Type[*journal, string]), ""); return err },
		"no proxy":     func() error { _, err := fiber.Call(soon(t), nil, writeEntry, entry{}); return err },
		"zero proxy": func() error {
			_, err := fiber.Call(soon(t), new(fiber.Proxy[*journal]), writeEntry, entry{})
			return err
		},
		"no method": func() error {
			_, err := fiber.Call(soon(t), j, (*fiber.Method[*journal, entry, int])(nil), entry{})
			return err
		},
		"zero method": func() error {
			_, err := fiber.Call(soon(t), j, new(fiber.Method[*journal, entry, int]), entry{})
			return err
		},
		"async": func() error { _, err := fiber.CallAsync(soon(t), nil, writeEntry, entry{}).Get(soon(t)); return err },
	} {
		require.Error(t, call(), name)
	}
	require.Empty(t, new(fiber.Manager).Name())
	require.Zero(t, new(fiber.Manager).PID())
	require.Empty(t, new(fiber.Manager).ID())
	_, err := fiber.Apply(soon(t), newPool(t, 1), writeHere, writing{Journal: new(fiber.Proxy[*journal])})
	require.Error(t, err, "a zero proxy does not travel")
	_, err = fiber.Apply(soon(t), newPool(t, 1), writeHere, writing{})
	require.ErrorContains(t, err, "the proxy", "nil arrives as nil")
}

func TestBadTypesAndMethods(t *testing.T) {
	t.Parallel()
	for text, register := range map[string]func(){
		`RegisterType("x"): the function is nil`: func() { fiber.RegisterType[int, int]("x", nil) },
		`RegisterType("x"): its argument`: func() {
			fiber.RegisterType("x", func(context.Context, chan int) (int, error) { return 0, nil })
		},
		"without a name": func() { fiber.RegisterType("", func(context.Context, int) (int, error) { return 0, nil }) },
		`named "journal" is already registered at`: func() {
			fiber.RegisterType("journal", func(context.Context, int) (int, error) { return 0, nil })
		},
		`RegisterMethod("x"): the method is nil`: func() { fiber.RegisterMethod[*journal, int, int]("x", nil) },
		`RegisterMethod(""): the name is empty`: func() {
			fiber.RegisterMethod("", func(*journal, context.Context, int) (int, error) { return 0, nil })
		},
		`RegisterMethod("x"): its argument`: func() {
			fiber.RegisterMethod("x", func(*journal, context.Context, chan int) (int, error) { return 0, nil })
		},
		`RegisterMethod("x"): its result`: func() {
			fiber.RegisterMethod("x", func(*journal, context.Context, int) (io.Reader, error) { return nil, nil })
		},
		`journal.Write" is already registered at`: func() { fiber.RegisterMethod("Write", (*journal).Write) },
	} {
		func() {
			defer func() {
				message := fmt.Sprint(recover())
				require.Contains(t, message, text)
				require.Contains(t, message, "manager_test.go:")
			}()
			register()
		}()
	}
}
