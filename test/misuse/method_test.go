//go:build unix

package misuse_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// willful is a value whose own methods do not always return: it says in which
// of them, and whether in the tests' process or in another one.
type willful struct {
	How string // "goexit" or "panic"
	In  string // "encode here", "decode there" and so on
}

func (w willful) meet(what string) {
	where := " there"
	if fiber.ParentProcess() == nil {
		where = " here"
	}
	switch {
	case w.In != what+where:
	case w.How == "goexit":
		runtime.Goexit()
	case w.How == "panic":
		panic("no")
	}
}

func (w willful) MarshalBinary() ([]byte, error) {
	w.meet("encode")
	return []byte(w.How + "|" + w.In), nil
}

func (w *willful) UnmarshalBinary(b []byte) error {
	for i := range b {
		if b[i] == '|' {
			w.How, w.In = string(b[:i]), string(b[i+1:])
		}
	}
	w.meet("decode")
	return nil
}

// packed is the same with msgpack's methods.
type packed struct{ willful }

func (p packed) EncodeMsgpack(e *msgpack.Encoder) error {
	p.meet("encode")
	return e.EncodeMulti(p.How, p.In)
}

func (p *packed) DecodeMsgpack(d *msgpack.Decoder) error {
	err := d.DecodeMulti(&p.How, &p.In)
	p.meet("decode")
	return err
}

// keeper is a managed object with such a value.
type keeper struct{ v willful }

func (k *keeper) Swap(_ context.Context, v willful) (willful, error) {
	k.v, v = v, k.v
	return v, nil
}

var (
	willfully       = fiber.Register("willfully", func(_ context.Context, w willful) (willful, error) { return w, nil })
	willfullyPacked = fiber.Register("willfullyPacked", func(_ context.Context, p packed) (packed, error) { return p, nil })
	willfulError    = fiber.Register("willfulError", func(_ context.Context, how string) (fibertest.None, error) { return fibertest.None{}, &badError{how} })
	keepers         = fiber.RegisterType("keeper", func(_ context.Context, v willful) (*keeper, error) { return &keeper{v}, nil })
	swap            = fiber.RegisterMethod("swap", (*keeper).Swap)
)

// badError is an error whose text cannot be had.
type badError struct{ how string }

func (e *badError) Error() string {
	if e.how == "goexit" {
		runtime.Goexit()
	}
	panic("no text")
}

// A type's own method that ends its goroutine, or panics, fails the one call or
// the one task, wherever it runs; the worker, and everybody who waits, go on.
func TestMethodsThatDoNotReturn(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	fine := func(t *testing.T) {
		t.Helper()
		out, err := fiber.Apply(fibertest.Soon(t), pool, willfully, willful{How: "fine"})
		require.NoError(t, err)
		require.Equal(t, "fine", out.How)
	}
	for _, how := range []string{"goexit", "panic"} {
		for _, in := range []string{"encode here", "decode there", "encode there", "decode here"} {
			t.Run(how+" "+in, func(t *testing.T) {
				fails := func(err error) {
					t.Helper()
					require.ErrorContains(t, err, map[string]string{"goexit": "called runtime.Goexit", "panic": "panic: no"}[how])
				}
				bad := willful{how, in}
				_, err := fiber.Apply(fibertest.Soon(t), pool, willfully, bad)
				fails(err)
				_, err = fiber.Apply(fibertest.Soon(t), pool, willfullyPacked, packed{bad})
				fails(err)
				_, err = fiber.ApplyAsync(fibertest.Soon(t), pool, willfully, bad).Get(fibertest.Soon(t))
				fails(err)
				fine(t)
				ins := make([]willful, 20)
				ins[7] = bad
				_, err = fiber.Map(fibertest.Soon(t), pool, willfully, ins, fiber.ChunkSize(5))
				fails(err)
				failed := 0
				for _, err := range fiber.IMap(fibertest.Soon(t), pool, willfully, func(yield func(willful) bool) {
					for _, in := range ins {
						if !yield(in) {
							return
						}
					}
				}, fiber.ChunkSize(1)) {
					if err != nil {
						fails(err)
						failed++
					}
				}
				require.NotZero(t, failed) // and what has travelled with it
				fine(t)
			})
		}
	}
	require.Equal(t, 1, pool.Stats().WorkersStarted, "a method cost a worker")
}

// The same for what processes share, and for the argument of one.
func TestMethodsThatDoNotReturnElsewhere(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	for _, how := range []string{"goexit", "panic"} {
		bad := func(in string) willful { return willful{how, in} }
		fails := func(err error) {
			t.Helper()
			require.ErrorContains(t, err, map[string]string{"goexit": "called runtime.Goexit", "panic": "panic: no"}[how])
		}

		q := fibertest.NewQueue[willful](t)
		fails(q.Put(fibertest.Soon(t), bad("encode here")))
		fails(q.PutMany(fibertest.Soon(t), []willful{{}, bad("encode here")}))
		require.NoError(t, q.Put(fibertest.Soon(t), bad("decode here")))
		_, err := q.Get(fibertest.Soon(t))
		fails(err)
		n, err := q.Len(fibertest.Soon(t))
		require.NoError(t, err)
		require.Zero(t, n, "what cannot be decoded fails one Get")

		a, b := fibertest.NewPipe[willful](t)
		fails(a.Send(fibertest.Soon(t), bad("encode here")))
		require.NoError(t, a.Send(fibertest.Soon(t), bad("decode here")))
		require.NoError(t, a.Send(fibertest.Soon(t), willful{How: "fine"}))
		_, err = b.Recv(fibertest.Soon(t))
		fails(err)
		got, err := b.Recv(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, willful{How: "fine"}, got)

		_, err = fiber.NewObject(fibertest.Soon(t), m, keepers, bad("encode here"))
		fails(err)
		_, err = fiber.NewObject(fibertest.Soon(t), m, keepers, bad("decode there"))
		fails(err)
		for _, in := range []string{"encode there", "decode here"} {
			k, err := fiber.NewObject(fibertest.Soon(t), m, keepers, bad(in))
			require.NoError(t, err)
			_, err = fiber.Call(fibertest.Soon(t), k, swap, willful{How: "fine"})
			fails(err)
			_, err = fiber.Call(fibertest.Soon(t), k, swap, bad("decode there"))
			fails(err)
			out, err := fiber.Call(fibertest.Soon(t), k, swap, bad(in))
			require.NoError(t, err)
			require.Equal(t, "fine", out.How)
			_, err = fiber.CallAsync(fibertest.Soon(t), k, swap, willful{How: "fine"}).Get(fibertest.Soon(t))
			fails(err)
		}

		d, err := fiber.NewDict[string, willful](fibertest.Soon(t), m)
		require.NoError(t, err)
		fails(d.Set(fibertest.Soon(t), "k", bad("encode here")))
		require.NoError(t, d.Set(fibertest.Soon(t), "k", bad("decode here")))
		_, _, err = d.Get(fibertest.Soon(t), "k")
		fails(err)

		fails(fiber.NewProcess(willfully, bad("encode here")).Start(fibertest.Soon(t)))
		p := fiber.NewProcess(willfully, bad("decode there"))
		require.NoError(t, p.Start(fibertest.Soon(t)))
		fails(p.Join(fibertest.Soon(t)))
	}
}

// An error whose own text cannot be had fails its task, and no more.
func TestErrorsThatDoNotReturn(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	for _, how := range []string{"panic", "goexit"} {
		_, err := fiber.Apply(fibertest.Soon(t), pool, willfulError, how)
		require.ErrorAs(t, err, new(*fiber.RemoteError), how)
		_, err = fiber.Map(fibertest.Soon(t), pool, willfulError, []string{how, how})
		require.ErrorAs(t, err, new(*fiber.RemoteError), how)
	}
	require.Equal(t, 1, pool.Stats().WorkersStarted)
}

// The input of an IMap that ends its goroutine has not come to its end.
func TestInputThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	n := 0
	require.PanicsWithValue(t, "fiber: the input of IMap: the function called runtime.Goexit", func() {
		for _, err := range fiber.IMap(fibertest.Soon(t), pool, willfully, func(yield func(willful) bool) {
			yield(willful{How: "fine"})
			runtime.Goexit()
		}) {
			require.NoError(t, err)
			n++
		}
	})
	require.LessOrEqual(t, n, 1)
	require.Panics(t, func() {
		for range fiber.IMap(fibertest.Soon(t), pool, willfully, func(yield func(willful) bool) { panic(errors.New("mine")) }) {
			fmt.Println("an item of nothing")
		}
	})
}
