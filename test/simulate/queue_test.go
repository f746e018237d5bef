package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

type item struct{ From, N int }

type queueEnd struct {
	Queue *fiber.SimpleQueue[item]
	Book  int
	Part  int
	N     int
	Many  bool
}

// queueBook notes what went into a queue, and what came out.
type queueBook struct {
	mu      sync.Mutex
	put     map[item]bool // what Put acknowledged
	refused map[item]bool // what Put said that it stays out
	got     map[item][]*sim.Process
	last    map[int]int // the number last got of each producer's
	out     int         // of order
}

func (b *queueBook) took(items ...item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range items {
		if sim.Here().Alive() {
			b.got[i] = append(b.got[i], sim.Here())
		}
		if i.N < b.last[i.From] {
			b.out++
		}
		b.last[i.From] = i.N
	}
}

var (
	produce = fiber.Register("produce", func(ctx context.Context, e queueEnd) (int, error) {
		w, b := here(), bookOf[*queueBook](e.Book)
		r := rand.New(rand.NewPCG(uint64(e.Part), 1))
		for n := 0; n < e.N && sim.Here().Alive(); {
			items := []item{{e.Part, n}}
			for e.Many && len(items) < 10 {
				items = append(items, item{e.Part, n + len(items)})
			}
			err := w.within(ctx, r, settling, "Put", func(ctx context.Context) error {
				if e.Many {
					return e.Queue.PutMany(ctx, items)
				}
				return e.Queue.Put(ctx, items[0])
			})
			w.checkError("Put", err)
			b.mu.Lock()
			for _, i := range items {
				switch {
				case !sim.Here().Alive():
				case err == nil:
					b.put[i] = true
				case !e.Many && err == context.DeadlineExceeded:
					b.refused[i] = true
				}
			}
			b.mu.Unlock()
			n += len(items)
			time.Sleep(time.Duration(r.IntN(4)*r.IntN(4)) * time.Millisecond)
		}
		return 0, nil
	})
	consume = fiber.Register("consume", func(ctx context.Context, e queueEnd) (int, error) {
		w, b := here(), bookOf[*queueBook](e.Book)
		r := rand.New(rand.NewPCG(uint64(e.Part), 2))
		for sim.Here().Alive() {
			var items []item
			err := w.within(ctx, r, settling, "Get", func(ctx context.Context) (err error) {
				if e.Many {
					items, err = e.Queue.GetMany(ctx, 7)
				} else {
					items = make([]item, 1)
					items[0], err = e.Queue.Get(ctx)
				}
				return err
			})
			if errors.Is(err, fiber.ErrClosed) {
				return 0, nil
			}
			w.checkError("Get", err)
			if err == nil {
				b.took(items...)
			} else if lost := (*fiber.WorkerLostError)(nil); errors.As(err, &lost) {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Duration(r.IntN(3)*r.IntN(3)) * time.Millisecond)
		}
		return 0, nil
	})
)

var (
	ruleAcknowledged = rule("acknowledged")
	ruleOnce         = rule("taken once")
	ruleRefused      = rule("refused stays out")
	ruleOrder        = rule("queue order")
)

func init() {
	works["queue"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		q, err := fiber.NewSimpleQueue[item](options(r)...)
		if err != nil {
			return err
		}
		b := &queueBook{put: map[item]bool{}, refused: map[item]bool{}, got: map[item][]*sim.Process{}, last: map[int]int{}}
		e := queueEnd{Queue: q, Book: w.book(b), N: 10 + r.IntN(100)}
		var producers, consumers sync.WaitGroup
		var died sync.Map
		in, out := 1+r.IntN(3), 1+r.IntN(3)
		run := func(group *sync.WaitGroup, f *fiber.Func[queueEnd, int], part int) {
			e := e
			e.Part, e.Many = part, r.IntN(4) == 0
			group.Go(func() {
				p, err := start(ctx, f, e)
				if err == nil {
					err = p.Join(ctx)
				}
				w.checkError("Join", err)
				if err != nil {
					died.Store(part, true)
				}
			})
		}
		for i := range in {
			run(&producers, produce, i)
		}
		for i := range out {
			run(&consumers, consume, 100+i)
		}
		// The rest is for the root, also while nobody else is left.
		rest := make(chan error, 1)
		go func() {
			consumers.Wait()
			for {
				i, err := q.Get(ctx)
				if err != nil {
					rest <- err
					return
				}
				b.took(i)
			}
		}()
		producers.Wait()
		if err := q.Close(); err != nil {
			return err
		}
		if err := <-rest; !errors.Is(err, fiber.ErrClosed) {
			return err
		}
		dead := 0
		for range died.Range {
			dead++
		}
		b.check(w, in, out, dead)
		return nil
	}
}

// options are those of a queue: some are bounded.
func options(r *rand.Rand) (opts []fiber.QueueOption) {
	if r.IntN(3) == 0 {
		opts = append(opts, fiber.WithCapacity(1+r.IntN(20)))
	}
	return opts
}

// check compares what came out with what went in.
func (b *queueBook) check(w *world, producers, consumers, died int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lost, twice []item
	for i := range b.put {
		if len(b.got[i]) == 0 {
			lost = append(lost, i)
		}
	}
	for i, by := range b.got {
		if b.refused[i] {
			w.breach(ruleRefused, "%v was got", i)
		}
		if by := slices.DeleteFunc(slices.Clone(by), (*sim.Process).Killed); len(by) > 1 {
			twice = append(twice, i)
		}
	}
	if len(b.refused) > 0 {
		w.bit(ruleRefused)
	}
	if len(b.put) > 0 {
		w.bit(ruleAcknowledged)
		w.bit(ruleOnce)
	}
	if len(lost) > 0 {
		w.breach(ruleAcknowledged, "%d of %d are lost, %d have died: %v", len(lost), len(b.put), died, lost)
	}
	if len(twice) > 0 && w.steady() {
		w.breach(ruleOnce, "%v came out twice", twice)
	}
	if consumers == 1 && died == 0 && len(b.put) > 0 {
		w.bit(ruleOrder)
		if b.out > 0 && w.steady() {
			w.breach(ruleOrder, "%d came out of order", b.out)
		}
	}
}
