// Package travels has what can travel and what can't.
package travels

import (
	"context"
	"io"
	"math/big"
	"net/url"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/vet/testdata/kinds"
)

type job struct {
	Name  string
	Inner struct {
		Hooks []func() // want `^fiber.Register: its argument: Inner.Hooks\[\]: func\(\): a func cannot leave its process$`
	}
	Done  chan int `msgpack:"-"`
	Error error    // want `^fiber.Register: its argument: Error: error: an error cannot travel inside a value: return it, or send its text$`
}

type answer struct{ Jobs map[string]*job }

var run = fiber.Register("run", func(ctx context.Context, j struct{ Inner struct{ Hooks []func() } }) (int, error) { // want `Inner.Hooks\[\]: func\(\): a func cannot`
	return 0, nil
})

var work = fiber.Register("work", work1)

func work1(ctx context.Context, j job) (answer, error) { return answer{}, nil }

type partly struct {
	A int
	b int // want `^fiber.NewSimpleQueue: its items: b: int: the field is not exported and not zero, and would be lost: `
}

func queues() {
	q, _ := fiber.NewSimpleQueue[partly]()
	q.Put(context.Background(), partly{A: 1, b: 2})
	fiber.NewSimpleQueue[[]chan<- int]() // want `its items: \[\]: chan<- int: a chan cannot leave its process`
	fiber.Pipe[io.Reader]()              // want `its items: io.Reader: an interface with methods`
	//fiber:ignore travels it shows what comes of it
	fiber.Pipe[func()]()
}

var (
	_ = fiber.RegisterMethod("m", func(m *sync.Mutex, ctx context.Context, in kinds.Partly) (int, error) { // want `its argument: b: int: the field is not exported`
		return 0, nil
	})
	_ = fiber.RegisterType("t", func(ctx context.Context, in int) (chan int, error) { return nil, nil }) // a manager keeps it
	_ = fiber.RegisterRing("r", nil, func(ctx context.Context, node *fiber.RingNode, in uintptr) error { return nil })
)

func objects[T any](ctx context.Context, m *fiber.Manager, local T) {
	fiber.NewDict[string, func()](ctx, m) // want `its values: func\(\): a func`
	fiber.NewValue(ctx, m, m)
	fiber.NewValue(ctx, m, local)
	fiber.Share(ctx, make(chan int)) // want `fiber.Share: the value: chan int`
}

// What follows travels.

type small struct {
	own
	At    time.Time
	Site  *url.URL
	Large big.Int
	Any   any
	Queue *fiber.SimpleQueue[partly]
	Next  *small
	mu    sync.Mutex
	once  [2]sync.Once
	cache map[string]int `msgpack:"-"`
	spare int            // nobody sets it
	local int            // only the function sets it
}

type own struct{ Size int }

type sealed struct{ n int }

func (s sealed) MarshalBinary() ([]byte, error)  { return []byte{byte(s.n)}, nil }
func (s *sealed) UnmarshalBinary(b []byte) error { s.n = int(b[0]); return nil }

var good = fiber.Register("good", func(ctx context.Context, in small) (map[string][]sealed, error) {
	in.local++
	in.mu.Lock()
	in.once[0].Do(in.mu.Unlock)
	return map[string][]sealed{"": {{in.local}}}, nil
})
