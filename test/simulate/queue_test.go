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
	Simple   *fiber.SimpleQueue[item]
	Joinable *fiber.JoinableQueue[item] // or this
	Book     int
	Part     int
	N        int
	Many     int // items at a time, 0 for one
}

func (e queueEnd) queue() *fiber.SimpleQueue[item] {
	if e.Joinable != nil {
		return &e.Joinable.SimpleQueue
	}
	return e.Simple
}

// queueBook notes what went into a queue, and what came out.
type queueBook struct {
	mu      sync.Mutex
	put     map[item]bool // what Put acknowledged
	refused map[item]bool // what Put said that it stays out
	got     map[item][]*sim.Process
	last    map[int]int // the number last got of each producer's
	out     int         // of order
	done    int         // TaskDone was called for
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
			for len(items) < e.Many {
				items = append(items, item{e.Part, n + len(items)})
			}
			in := true
			err := w.within(ctx, r, settling, "Put", func(ctx context.Context) (err error) {
				switch {
				case e.Many > 0:
					return e.queue().PutMany(ctx, items)
				case r.IntN(4) == 0:
					in, err = e.queue().TryPut(ctx, items[0])
					return err
				}
				return e.queue().Put(ctx, items[0])
			})
			w.checkError("Put", err)
			b.mu.Lock()
			for _, i := range items {
				switch {
				case !sim.Here().Alive():
				case err == nil && in:
					b.put[i] = true
				case err == nil:
					b.refused[i] = true
				case e.Many == 0 && err == context.DeadlineExceeded:
					b.refused[i] = true
				}
			}
			b.mu.Unlock()
			n += len(items)
			if e.Many < 100 {
				time.Sleep(time.Duration(r.IntN(4)*r.IntN(4)) * time.Millisecond)
			}
		}
		return 0, nil
	})
	consume = fiber.Register("consume", func(ctx context.Context, e queueEnd) (int, error) {
		w, b := here(), bookOf[*queueBook](e.Book)
		r := rand.New(rand.NewPCG(uint64(e.Part), 2))
		for lost := 0; sim.Here().Alive() && lost < 50; {
			var items []item
			err := w.within(ctx, r, settling, "Get", func(ctx context.Context) (err error) {
				switch {
				case e.Many > 0:
					items, err = e.queue().GetMany(ctx, e.Many-e.Many/3)
				case r.IntN(4) == 0:
					i, ok, err := e.queue().TryGet(ctx)
					if items = nil; ok {
						items = append(items, i)
					}
					return err
				default:
					items = make([]item, 1)
					items[0], err = e.queue().Get(ctx)
				}
				return err
			})
			if errors.Is(err, fiber.ErrClosed) {
				return 0, nil
			}
			w.checkError("Get", err)
			if err == nil {
				b.took(items...)
				for range items {
					if e.Joinable != nil {
						b.mu.Lock()
						b.done++
						b.mu.Unlock()
						w.checkError("TaskDone", w.ends(ctx, "TaskDone", e.Joinable.TaskDone))
					}
				}
			} else if errors.As(err, new(*fiber.WorkerLostError)) {
				lost++ // a connection may break, and a manager end
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
	ruleJoin         = rule("join")
	ruleCapacity     = rule("capacity")
)

func init() {
	works["queue"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		var e queueEnd
		var err error
		capacity := 0
		var opts []fiber.QueueOption
		if r.IntN(3) == 0 {
			capacity = 1 + r.IntN(20)
			opts = append(opts, fiber.WithCapacity(capacity))
		}
		if r.IntN(4) > 0 {
			e.Simple, err = fiber.NewSimpleQueue[item](opts...)
		} else {
			var m *fiber.Manager
			var end func()
			if m, end, err = w.home(ctx, r); err == nil {
				defer end()
				e.Joinable, err = fiber.NewJoinableQueue[item](ctx, m, opts...)
			}
		}
		if err != nil {
			w.checkError("making a queue", err)
			return nil
		}
		q := e.queue()
		b := &queueBook{put: map[item]bool{}, refused: map[item]bool{}, got: map[item][]*sim.Process{}, last: map[int]int{}}
		e.Book, e.N = w.book(b), 10+w.amount(r, 100, 100_000)
		if capacity > 0 && !b.fill(ctx, w, q, capacity) {
			return nil
		}
		var producers, consumers sync.WaitGroup
		var died sync.Map
		in, out := 1+r.IntN(3), 1+r.IntN(2)*r.IntN(3)
		run := func(group *sync.WaitGroup, f *fiber.Func[queueEnd, int], part int) {
			e := e
			if e.Part = part; r.IntN(4) == 0 || w.run.Scale > 1 {
				e.Many = 10 + w.amount(r, 5, 500)
			}
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
		rest, alone := make(chan error, 1), out == 1 || r.IntN(2) == 0
		go func() {
			if alone {
				consumers.Wait()
			}
			for {
				i, err := q.Get(ctx)
				if err != nil {
					rest <- err
					return
				}
				b.took(i)
				if e.Joinable != nil {
					b.mu.Lock()
					b.done++
					b.mu.Unlock()
					w.checkError("TaskDone", e.Joinable.TaskDone(ctx))
				}
			}
		}()
		producers.Wait()
		if e.Joinable != nil {
			err := w.ends(ctx, "Join", e.Joinable.Join)
			b.mu.Lock()
			if err == nil && b.done < len(b.put) {
				w.breach(ruleJoin, "it returns when %d of %d are done", b.done, len(b.put))
			}
			b.mu.Unlock()
		}
		err = errors.Join(q.Close(), <-rest)
		consumers.Wait()
		if e.Joinable != nil && errors.As(err, new(*fiber.WorkerLostError)) {
			return nil // with all that was in it
		}
		if !errors.Is(err, fiber.ErrClosed) {
			return err
		}
		dead := 0
		for range died.Range {
			dead++
		}
		if !alone {
			out++
		}
		b.check(w, in, out, dead)
		if e.Joinable != nil {
			err := w.ends(ctx, "Join", e.Joinable.Join)
			if errors.As(err, new(*fiber.WorkerLostError)) {
				return nil
			}
			if err != nil && (dead == 0 && w.steady() || !errors.Is(err, fiber.ErrAbandoned)) {
				w.breach(ruleJoin, "%v, though %d have died", err, dead)
			}
			w.bit(ruleJoin)
		}
		return nil
	}
}

// fill puts as much into a queue as there is room for, and an item more, which stays out.
func (b *queueBook) fill(ctx context.Context, w *world, q *fiber.SimpleQueue[item], capacity int) (filled bool) {
	for n := range capacity + 1 {
		i := item{filler, n}
		within, cancel := context.WithTimeout(ctx, moment)
		err := q.Put(within, i)
		if n == capacity && err == context.DeadlineExceeded {
			in, tryErr := q.TryPut(bounded(ctx), i)
			w.checkError("TryPut", tryErr)
			if in {
				w.breach(ruleCapacity, "TryPut puts an item into a queue of %d that is full", capacity)
			}
		}
		cancel()
		w.checkError("Put", err)
		switch {
		case err == nil && n < capacity:
			b.put[i] = true
		case err == nil:
			w.breach(ruleCapacity, "%d items are in a queue of %d", n+1, capacity)
		case err == context.DeadlineExceeded:
			b.refused[i] = true
			w.bit(ruleCapacity)
		default:
			return false
		}
	}
	return true
}

// filler is the number of the root among the producers.
const filler = 999

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
