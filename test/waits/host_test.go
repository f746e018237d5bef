//go:build unix

package waits_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// onHost is a stage whose peer is a worker, in which queues, pipes and shared
// values live, or the other ends of pipes that live here. The others put and get
// items of a queue there.
func onHost(t *testing.T) *stage {
	s := &stage{pool: fibertest.NewPool(t, 1)}
	s.pid = hosted(t, s, fibertest.Getpid, fibertest.None{})
	others := hosted(t, s, hostQueue, 0)
	s.busy = func(ctx context.Context) error {
		if err := others.Put(ctx, nil); err != nil {
			return err
		}
		return only(others.Get(ctx))
	}
	return s
}

// hosted has the peer make something.
func hosted[In, Out any](t *testing.T, s *stage, fn *fiber.Func[In, Out], in In) Out {
	t.Helper()
	return fibertest.Sure(fiber.Apply(fibertest.Soon(t), s.pool, fn, in))(t)
}

type (
	conn     = fiber.Conn[[]byte]
	receiver = fiber.Receiver[[]byte]
	sender   = fiber.Sender[[]byte]
)

// kept is what a worker keeps for as long as it lives.
var kept struct {
	sync.Mutex
	all []any
}

func keep(all ...any) {
	kept.Lock()
	defer kept.Unlock()
	kept.all = append(kept.all, all...)
}

var (
	hostQueue = fiber.Register("hostQueue", func(_ context.Context, capacity int) (*fiber.SimpleQueue[[]byte], error) {
		if capacity > 0 {
			return fiber.NewSimpleQueue[[]byte](fiber.WithCapacity(capacity))
		}
		return fiber.NewSimpleQueue[[]byte]()
	})
	hostShared = fiber.Register("hostShared", func(ctx context.Context, size int) (*fiber.Shared[[]byte], error) {
		v, err := fiber.Share(ctx, make([]byte, size))
		keep(v)
		return v, err
	})
	hostConn = fiber.Register("hostConn", func(context.Context, fibertest.None) (*conn, error) {
		a, b, err := fiber.Pipe[[]byte]()
		keep(a)
		return b, err
	})
	hostReceiver = fiber.Register("hostReceiver", func(context.Context, fibertest.None) (*receiver, error) {
		r, w, err := fiber.PipeOneWay[[]byte]()
		keep(w)
		return r, err
	})
	hostSender = fiber.Register("hostSender", func(context.Context, fibertest.None) (*sender, error) {
		r, w, err := fiber.PipeOneWay[[]byte]()
		keep(r)
		return w, err
	})
	putConn = fiber.Register("putConn", func(ctx context.Context, q *fiber.SimpleQueue[*conn]) (fibertest.None, error) {
		a, b, err := fiber.Pipe[[]byte]()
		if err != nil {
			return fibertest.None{}, err
		}
		keep(a)
		return fibertest.None{}, q.Put(ctx, b)
	})
	ownConn     = fiber.Register("ownConn", func(_ context.Context, c *conn) (fibertest.None, error) { keep(c); return fibertest.None{}, nil })
	ownReceiver = fiber.Register("ownReceiver", func(_ context.Context, r *receiver) (fibertest.None, error) { keep(r); return fibertest.None{}, nil })
	ownSender   = fiber.Register("ownSender", func(_ context.Context, w *sender) (fibertest.None, error) { keep(w); return fibertest.None{}, nil })
)

var sharedValues = []row{
	{name: "Shared.Get", kind: asks, at: onHost, make: func(t *testing.T, s *stage) trial {
		v := hosted(t, s, hostShared, big)
		return trial{call: func(ctx context.Context) error { return only(v.Get(ctx)) }}
	}, but: map[situation]outcome{ended: is("nil")}}, // the value has come here
	{name: "Share", kind: asks, at: onHere, make: func(*testing.T, *stage) trial {
		return trial{call: func(ctx context.Context) error { return only(fiber.Share(ctx, 1)) }}
	}, but: nothingBut(before, "it asks nobody")},
}

// onHere is a stage without a peer.
func onHere(*testing.T) *stage { return &stage{} }

// nothingBut leaves all situations out but some.
func nothingBut(some situation, why string) map[situation]outcome {
	left := map[situation]outcome{}
	for s := range situations {
		if s != some {
			left[s] = never(why)
		}
	}
	return left
}

// ofReceiving are the rows about receiving from a pipe: one that lives in the
// peer, which has the other end, and one that lives here.
func ofReceiving[R interface {
	Recv(context.Context) ([]byte, error)
	TryRecv(context.Context) ([]byte, bool, error)
	Items(context.Context) iter.Seq2[[]byte, error]
}](typ string, there func(*testing.T, *stage) R, here func(*testing.T, *stage) R) []row {
	of := func(method, how, end string, k kind, make func(*testing.T, *stage) R, call func(context.Context, R) error) row {
		return row{name: typ + "." + method, how: how, kind: k, at: onHost, make: func(t *testing.T, s *stage) trial {
			r := make(t, s)
			return trial{call: func(ctx context.Context) error { return call(ctx, r) }}
		}, but: map[situation]outcome{killed: is(end), ended: is(end)}}
	}
	recv := func(ctx context.Context, r R) error { return only(r.Recv(ctx)) }
	return []row{
		of("Recv", "the peer's pipe", "EOF", waits, there, recv),
		of("Recv", "this process's pipe", "EOF", waits, here, recv),
		{name: typ + ".TryRecv", kind: asks, at: onHost, make: func(t *testing.T, s *stage) trial {
			r := here(t, s)
			return trial{call: func(ctx context.Context) error { return two(r.TryRecv(ctx)) }}
		}, but: nothingBut(before, "it does not wait, unless its end has just come")},
		of("Items", "the peer's pipe", "nil", waits, there, func(ctx context.Context, r R) error { return next(r.Items(ctx)) }),
	}
}

// ofSending is the same about sending.
func ofSending[S interface {
	Send(context.Context, []byte) error
}](name string, there func(*testing.T, *stage) S, here func(*testing.T, *stage) S) []row {
	gone := map[situation]outcome{killed: is("closed"), ended: is("closed")}
	of := func(how string, k kind, make func(*testing.T, *stage) S, unread int) row {
		return row{name: name, how: how, kind: k, at: onHost, make: func(t *testing.T, s *stage) trial {
			w := make(t, s)
			for range unread {
				require.NoError(t, w.Send(fibertest.Soon(t), nil))
			}
			return trial{call: func(ctx context.Context) error { return w.Send(ctx, s.value()) }}
		}, but: gone}
	}
	const window = 256
	return []row{
		of("the peer's pipe, full", waitsWith, there, window),
		of("this process's pipe, full", waitsWith, here, window),
	}
}

var pipes = slices.Concat(
	ofReceiving("Conn", func(t *testing.T, s *stage) *conn { return hosted(t, s, hostConn, fibertest.None{}) },
		func(t *testing.T, s *stage) *conn {
			a, b := fibertest.NewPipe[[]byte](t)
			hosted(t, s, ownConn, b)
			return a
		}),
	ofReceiving("Receiver", func(t *testing.T, s *stage) *receiver { return hosted(t, s, hostReceiver, fibertest.None{}) },
		func(t *testing.T, s *stage) *receiver {
			r, w, err := fiber.PipeOneWay[[]byte]()
			require.NoError(t, err)
			t.Cleanup(func() { r.Close() })
			hosted(t, s, ownSender, w)
			return r
		}),
	ofSending("Conn.Send", func(t *testing.T, s *stage) *conn { return hosted(t, s, hostConn, fibertest.None{}) },
		func(t *testing.T, s *stage) *conn {
			a, b := fibertest.NewPipe[[]byte](t)
			hosted(t, s, ownConn, b)
			return a
		}),
	ofSending("Sender.Send", func(t *testing.T, s *stage) *sender { return hosted(t, s, hostSender, fibertest.None{}) },
		func(t *testing.T, s *stage) *sender {
			r, w, err := fiber.PipeOneWay[[]byte]()
			require.NoError(t, err)
			t.Cleanup(func() { w.Close() })
			hosted(t, s, ownReceiver, r)
			return w
		}),
	[]row{
		// A single large value may not fit the window, and does not fit the socket.
		{name: "Conn.Send", how: "the peer's pipe, empty", kind: carries, at: onHost, make: func(t *testing.T, s *stage) trial {
			w := hosted(t, s, hostConn, fibertest.None{})
			return trial{call: func(ctx context.Context) error { return w.Send(ctx, s.value()) }}
		}, but: nothingBut(large, "it returns when the value has left")},
		// An end that has just come is claimed of its home before it can go on.
		{name: "SimpleQueue.Put", how: "an end of the peer's pipe", kind: asks, at: onHost, make: func(t *testing.T, s *stage) trial {
			from, to := fibertest.NewQueue[*conn](t), fibertest.NewQueue[*conn](t)
			hosted(t, s, putConn, from)
			return trial{call: func(ctx context.Context) error {
				end, err := from.Get(ctx)
				if err != nil {
					return err
				}
				return to.Put(ctx, end)
			}}
		}, but: nothingBut(stopped, "the queues are here")},
	})

var simpleQueues = ofQueues("SimpleQueue", onHost, func(t *testing.T, s *stage, opts ...fiber.QueueOption) queue {
	return hosted(t, s, hostQueue, len(opts)) // the option is a capacity of 1
})
