//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// own is a number whose encoding may fail.
type own struct {
	N   int
	How string // what fails: "encode", "panic", "decode" or "later"; "" for nothing
}

// picky has an own at its end.
type picky struct {
	Also *fiber.SimpleQueue[int]
	Pad  []float64 // travels as a frame of its own
	Own  own
}

func (o own) MarshalBinary() ([]byte, error) {
	switch o.How {
	case "encode":
		return nil, errUnwell
	case "panic":
		panic("unwell")
	}
	return fmt.Append(nil, o.N, " ", o.How), nil
}

func (o *own) UnmarshalBinary(b []byte) error {
	fmt.Sscan(string(b), &o.N, &o.How)
	switch o.How {
	case "decode":
		return errUnwell
	case "later":
		panic("unwell")
	}
	return nil
}

var errUnwell = fiber.RegisterError(errors.New("unwell"))

// errand says where a value that is sent in is to fail: as the argument or as
// the result.
type errand struct {
	In  picky
	Out string
}

var (
	goThere  = fiber.Register("goThere", func(_ context.Context, p picky) (int, error) { return p.Own.N, nil })
	comeBack = fiber.Register("comeBack", func(_ context.Context, e errand) (picky, error) {
		e.In.Own.How = e.Out
		return e.In, nil
	})
)

// A value that cannot be encoded or decoded fails its own task, as an argument
// and as a result, and says which it was.
func TestAValueFailsAlone(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	queue := fibertest.Sure(fiber.NewSimpleQueue[int]())(t)
	const n = 100
	bad := func(i int) bool { return i%2 == 1 || i == 0 }
	value := func(i int, how string) picky {
		p := picky{Also: queue, Pad: make([]float64, 5000*(i%3)), Own: own{N: i}}
		if bad(i) {
			p.Own.How = how
		}
		return p
	}
	check := func(t *testing.T, i, got int, err error) {
		t.Helper()
		if !bad(i) {
			require.NoError(t, err, "task %d", i)
			require.Equal(t, i, got)
			return
		}
		require.ErrorContains(t, err, "unwell", "task %d", i)
		var encode *fiber.EncodeError
		require.ErrorAs(t, err, &encode, "task %d", i)
		require.Equal(t, i, encode.Index)
	}
	for _, how := range []string{"encode", "panic", "decode", "later"} {
		for _, chunk := range []int{0, 1, 50} {
			t.Run(fmt.Sprint(how, chunk), func(t *testing.T) {
				there, back := make([]picky, n), make([]errand, n)
				for i := range n {
					there[i], back[i] = value(i, how), errand{In: value(i, ""), Out: value(i, how).Own.How}
				}
				i := 0
				for got, err := range fiber.IMap(fibertest.Soon(t), pool, goThere, slices.Values(there), fibertest.Chunks(chunk)...) {
					check(t, i, got, err)
					i++
				}
				require.Equal(t, n, i)
				i = 0
				for got, err := range fiber.IMap(fibertest.Soon(t), pool, comeBack, slices.Values(back), fibertest.Chunks(chunk)...) {
					check(t, i, got.Own.N, err)
					i++
				}
				require.Equal(t, n, i)
				failed := 0
				for got, err := range fiber.IMapUnordered(fibertest.Soon(t), pool, comeBack, slices.Values(back), fibertest.Chunks(chunk)...) {
					i := got.Own.N
					if encode := (*fiber.EncodeError)(nil); errors.As(err, &encode) {
						i = encode.Index
						failed++
					}
					check(t, i, got.Own.N, err)
				}
				require.Equal(t, n/2+1, failed)
			})
		}
		_, err := fiber.Map(fibertest.Soon(t), pool, goThere, []picky{value(2, how), value(4, how), value(5, how), value(6, how)}, fiber.ChunkSize(4))
		require.ErrorContains(t, err, "task 2: ")
		_, err = fiber.Map(fibertest.Soon(t), pool, comeBack, []errand{{}, {}, {}, {Out: how}, {Out: how}}, fiber.ChunkSize(5))
		require.ErrorContains(t, err, "task 3: ")
		// A single value is no element of a list, wherever its error comes from.
		_, back := fiber.Apply(fibertest.Soon(t), pool, comeBack, errand{Out: how})
		_, there := fiber.Apply(fibertest.Soon(t), pool, goThere, value(1, how))
		errs := []error{back, there}
		if p := fiber.NewProcess(goThere, value(1, how)); how == "decode" || how == "later" {
			require.NoError(t, p.Start(fibertest.Soon(t)))
			errs = append(errs, p.Join(fibertest.Soon(t)))
		}
		for _, err := range errs {
			require.ErrorContains(t, err, "unwell")
			require.NotContains(t, err.Error(), "element")
			var encode *fiber.EncodeError
			require.ErrorAs(t, err, &encode)
			require.Equal(t, -1, encode.Index)
		}
	}
	s := pool.Stats()
	require.Zero(t, s.Running+s.Queued)
	require.NoError(t, queue.Put(fibertest.Soon(t), 1))
	fibertest.StillWorks(t, pool)
}

var grow = fiber.Register("grow", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })

var measure = fiber.Register("measure", func(_ context.Context, b []byte) (int, error) { return len(b), nil })

// A value that is too large is an EncodeError with the index of its task, and says
// what to do.
func TestALargeValueFailsAlone(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_MAX_MESSAGE=64KiB") {
		return
	}
	pool := fibertest.NewPool(t, 2)
	const n, large, bad = 10, 70 << 10, 7
	sizes, values := make([]int, n), make([][]byte, n)
	sizes[bad], values[bad] = large, make([]byte, large)
	check := func(err error) {
		t.Helper()
		var encode *fiber.EncodeError
		require.ErrorAs(t, err, &encode)
		require.Equal(t, bad, encode.Index)
		require.ErrorContains(t, err, "set max_message")
		require.NotContains(t, err.Error(), "SizeError", "nobody has looked for one")
	}
	for _, chunk := range []int{1, n} {
		_, err := fiber.Map(fibertest.Soon(t), pool, measure, values, fibertest.Chunks(chunk)...)
		check(err)
		_, err = fiber.Map(fibertest.Soon(t), pool, grow, sizes, fibertest.Chunks(chunk)...)
		check(err)
		i := 0
		for got, err := range fiber.IMap(fibertest.Soon(t), pool, measure, slices.Values(values), fibertest.Chunks(chunk)...) {
			if i == bad {
				check(err)
			} else {
				require.NoError(t, err)
				require.Zero(t, got)
			}
			i++
		}
		require.Equal(t, n, i)
		i = 0
		for _, err := range fiber.IMap(fibertest.Soon(t), pool, grow, slices.Values(sizes), fibertest.Chunks(chunk)...) {
			if i == bad {
				check(err)
			} else {
				require.NoError(t, err)
			}
			i++
		}
		require.Equal(t, n, i)
	}
}

// slow is a value whose encoding waits for a channel of this process.
type slow struct{ wait chan fibertest.None }

func (s slow) MarshalBinary() ([]byte, error) {
	if s.wait != nil {
		<-s.wait
	}
	return []byte{1}, nil
}

func (*slow) UnmarshalBinary([]byte) error { return nil }

var meetSlow = fiber.Register("meetSlow", func(context.Context, slow) (fibertest.None, error) { return fibertest.None{}, nil })

// ending is a value whose encoding ends a context.
type ending struct{ cancel context.CancelFunc }

func (e ending) MarshalBinary() ([]byte, error) {
	e.cancel()
	return []byte{1}, nil
}

func (*ending) UnmarshalBinary([]byte) error { return nil }

var meetEnding = fiber.Register("meetEnding", func(context.Context, ending) (fibertest.None, error) { return fibertest.None{}, nil })

// A task does not run if its context has ended by the time its argument is encoded.
func TestContextThatEndsInTheEncoder(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	fibertest.Warm(t, pool)
	for range 100 {
		ctx, cancel := context.WithCancel(fibertest.Soon(t))
		_, err := fiber.Apply(ctx, pool, meetEnding, ending{cancel})
		require.Equal(t, context.Canceled, err)
		ctx, cancel = context.WithCancel(fibertest.Soon(t))
		_, err = fiber.ApplyAsync(ctx, pool, meetEnding, ending{cancel}).Get(fibertest.Soon(t))
		require.Equal(t, context.Canceled, err)
	}
	_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1)
	require.NoError(t, err)
	require.Equal(t, 1, pool.Stats().Done)
}

// A call returns when its context ends, although an input is still being encoded.
// Meanwhile the pool does other work.
func TestAnEncoderDoesNotKeepACall(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3)
	fibertest.Warm(t, pool)
	goOn := make(chan fibertest.None)
	defer close(goOn)
	ins := []slow{{}, {goOn}, {}, {}}
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	future := fiber.MapAsync(ctx, pool, meetSlow, ins)
	other, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(100))
	require.NoError(t, err)
	require.Equal(t, 99*99, other[99])
	cancel()
	_, err = future.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)

	for name, imap := range map[string]func(context.Context, *fiber.Pool, *fiber.Func[slow, fibertest.None], iter.Seq[slow], ...fiber.CallOption) iter.Seq2[fibertest.None, error]{
		"ordered": fiber.IMap[slow, fibertest.None], "unordered": fiber.IMapUnordered[slow, fibertest.None],
	} {
		ctx, cancel := context.WithCancel(fibertest.Soon(t))
		var last error
		for _, err := range imap(ctx, pool, meetSlow, slices.Values(ins), fiber.ChunkSize(1)) {
			require.NoError(t, last)
			last = err
			cancel()
		}
		require.ErrorIs(t, last, context.Canceled, name)
		cancel()
	}
	_, err = fiber.Map(fibertest.Within(t, 100*time.Millisecond), pool, meetSlow, ins)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
