package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// word is what a method of an object was asked, or has answered. The fields mean what the model says.
type word struct {
	Op      string
	A, B    int
	Ok      bool
	Unknown bool // nobody knows the answer: the call has failed, or its process ended
}

// method is a method of an object whose histories are checked: what it asks and answers is compared with its object's model.
type method struct {
	object string
	name   string
	call   func(ctx context.Context, o *objects, in word) (word, error)
}

// methods are those of objects that have models.
var methods = []method{
	{"dict", "get", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, out.Ok, err = o.Dict.Get(ctx, in.A)
		return
	}},
	{"dict", "set", func(ctx context.Context, o *objects, in word) (out word, err error) {
		return out, o.Dict.Set(ctx, in.A, in.B)
	}},
	{"dict", "delete", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.Ok, err = o.Dict.Delete(ctx, in.A)
		return
	}},
	{"dict", "pop", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, out.Ok, err = o.Dict.Pop(ctx, in.A)
		return
	}},
	{"dict", "default", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, err = o.Dict.SetDefault(ctx, in.A, in.B)
		return
	}},
	{"dict", "compare", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.Ok, err = o.Dict.CompareAndSet(ctx, in.A, in.B, in.B+1)
		return
	}},
	{"dict", "update", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, err = o.Dict.Update(ctx, in.A, func(old int, _ bool) (int, error) { return old + in.B, nil })
		return
	}},
	{"value", "get", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, err = o.Value.Get(ctx)
		return
	}},
	{"value", "watch", func(ctx context.Context, o *objects, _ word) (out word, err error) {
		for out.B, err = range o.Value.Watch(ctx) {
			break
		}
		return
	}},
	{"value", "set", func(ctx context.Context, o *objects, in word) (out word, err error) {
		return out, o.Value.Set(ctx, in.B)
	}},
	{"value", "compare", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.Ok, err = o.Value.CompareAndSet(ctx, in.B, in.B+1)
		return
	}},
	{"value", "update", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, err = o.Value.Update(ctx, func(old int) (int, error) { return old + in.B, nil })
		return
	}},
	{"counter", "update", func(ctx context.Context, o *objects, in word) (out word, err error) {
		out.B, err = fiber.Call(ctx, o.Counter, counterAdd, in.B)
		return
	}},
	{"event", "set", func(ctx context.Context, o *objects, _ word) (word, error) { return word{}, o.Event.Set(ctx) }},
	{"event", "clear", func(ctx context.Context, o *objects, _ word) (word, error) { return word{}, o.Event.Clear(ctx) }},
	{"event", "get", func(ctx context.Context, o *objects, _ word) (out word, err error) {
		out.Ok, err = o.Event.IsSet(ctx)
		return
	}},
	{"latch", "try", func(ctx context.Context, o *objects, _ word) (out word, err error) {
		out.A = sim.Here().PID()
		out.Ok, err = o.Latch.TryAcquire(ctx)
		return
	}},
	{"latch", "release", func(ctx context.Context, o *objects, _ word) (word, error) {
		err := o.Latch.Release(ctx)
		out := word{A: sim.Here().PID(), Ok: err == nil}
		if !expected(err) { // it has another holder, or none
			err = nil
		}
		return out, err
	}},
	{"signals", "try", func(ctx context.Context, o *objects, _ word) (out word, err error) {
		out.Ok, err = o.Signals.TryAcquire(ctx)
		return
	}},
	{"signals", "release", func(ctx context.Context, o *objects, _ word) (word, error) { return word{}, o.Signals.Release(ctx) }},
	{"signals", "count", func(ctx context.Context, o *objects, _ word) (out word, err error) {
		out.B, err = o.Signals.Permits(ctx)
		return
	}},
	{"list", "append", func(ctx context.Context, o *objects, in word) (out word, err error) {
		return out, o.List.Append(ctx, in.B)
	}},
	{"list", "last", func(ctx context.Context, o *objects, _ word) (out word, err error) {
		out.B, err = o.List.Get(ctx, -1)
		if err != nil && !expected(err) {
			return word{}, nil // it is empty: Ok is false
		}
		out.Ok = true
		return
	}},
	{"list", "pop", func(ctx context.Context, o *objects, in word) (out word, err error) {
		n, err := o.List.Len(ctx)
		if err != nil || n == 0 {
			return word{Unknown: true}, err
		}
		out.B, err = o.List.Pop(ctx, 0)
		if err != nil && !expected(err) {
			return word{}, nil // another one was faster: Ok is false
		}
		out.Ok = true
		return
	}},
}

// ask calls a method, and notes what it asked and was answered.
func (b *objectsBook) ask(ctx context.Context, w *world, r *rand.Rand, o *objects, m method) {
	in := word{Op: m.name, A: r.IntN(keys), B: r.IntN(10)}
	if !sim.Here().Alive() {
		return
	}
	object := m.object
	if object == "dict" {
		object = fmt.Sprint("dict ", in.A)
	}
	call := b.tick()
	var out word
	late := settling // for word of whether it was done
	if m.name == "get" {
		late = 0
	}
	err := w.within(ctx, r, late, m.object+" "+m.name, func(ctx context.Context) (err error) {
		out, err = m.call(ctx, o, in)
		return err
	})
	w.checkError(m.object+" "+m.name, err)
	if errors.Is(err, fiber.ErrUnknownOutcome) {
		w.run.Count("outcome unknown")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	op := porcupine.Operation{ClientId: len(b.history[object]), Input: in, Call: call, Output: out, Return: b.clock}
	switch {
	case out.Unknown:
		return
	case (m.object == "latch" || m.object == "signals") && (!sim.Here().Alive() || err != nil):
		b.unsure[object] = true
		return
	case !sim.Here().Alive(), err != nil && !notDone(err, m.name):
		op.Output, op.Return = word{Unknown: true}, math.MaxInt64
	case err != nil:
		return
	}
	b.history[object] = append(b.history[object], op)
}

// notDone says whether an error says that the request was not carried out.
func notDone(err error, name string) bool {
	if name == "update" { // it is several requests, or the user's code
		return false
	}
	return (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) && !errors.Is(err, fiber.ErrUnknownOutcome)
}

// cell is the state of a value, a counter, or an entry of a dict.
type cell struct {
	value int
	there bool
}

// models says for each object what may be answered.
var models = map[string]porcupine.Model{
	"dict":    cells(cell{}),
	"value":   cells(cell{there: true}),
	"counter": cells(cell{there: true}),
	"event": {
		Init: func() any { return false },
		Step: func(state, input, output any) (bool, any) {
			set, in, out := state.(bool), input.(word), output.(word)
			if in.Op == "get" {
				return out.Unknown || out.Ok == set, set
			}
			return true, in.Op == "set"
		},
	},
	"latch": { // the state is its holder
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			holder, in, out := state.(int), input.(word), output.(word)
			if in.Op == "try" && holder == 0 {
				return out.Ok, out.A
			}
			if in.Op == "release" && holder == out.A {
				return out.Ok, 0
			}
			return !out.Ok, holder
		},
	},
	"signals": {
		Init: func() any { return 0 },
		Step: func(state, input, output any) (bool, any) {
			n, in, out := state.(int), input.(word), output.(word)
			switch {
			case in.Op == "release":
				return true, n + 1
			case in.Op == "count":
				return out.B == n, n
			case n == 0:
				return !out.Ok, 0
			}
			return out.Ok, n - 1
		},
	},
	"list": {
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(string), input.(word), output.(word)
			switch {
			case in.Op == "append":
				return true, s + string(rune('0'+in.B))
			case in.Op == "last":
				return out.Unknown || out.Ok == (s != "") && (s == "" || s[len(s)-1] == byte('0'+out.B)), s
			case out.Unknown:
				return true, s[min(1, len(s)):]
			case !out.Ok:
				return s == "", s
			}
			return s != "" && s[0] == byte('0'+out.B), s[min(1, len(s)):]
		},
	},
}

func cells(initial cell) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(cell), input.(word), output.(word)
			next, want := s, word{B: s.value, Ok: s.there}
			switch in.Op {
			case "get", "watch":
				if initial.there {
					want.Ok = false
				}
			case "set":
				next, want = cell{in.B, true}, word{}
			case "delete":
				next, want.B = cell{}, 0
			case "pop":
				next = cell{}
			case "default":
				if !s.there {
					next = cell{in.B, true}
				}
				want = word{B: next.value}
			case "compare":
				want = word{Ok: s.there && s.value == in.B}
				if want.Ok {
					next = cell{in.B + 1, true}
				}
			case "update":
				next = cell{s.value + in.B, true}
				want = word{B: next.value}
			}
			return out.Unknown || out == want, next
		},
	}
}

var ruleLinearizable = rule("linearizable")

// mostUnknown is how many calls of unknown outcome a history may have: each doubles what it takes to check it.
const mostUnknown = 6

// beginning is a history up to the call that is one too many of unknown outcome. What had not returned by then is unknown, too.
func beginning(history []porcupine.Operation) (all []porcupine.Operation) {
	var unknown []int64 // when they were called
	for _, op := range history {
		if op.Output.(word).Unknown {
			unknown = append(unknown, op.Call)
		}
	}
	if len(unknown) <= mostUnknown {
		return history
	}
	slices.Sort(unknown)
	end := unknown[mostUnknown]
	for _, op := range history {
		if op.Return > end {
			op.Output, op.Return = word{Unknown: true}, math.MaxInt64
		}
		if op.Call < end {
			all = append(all, op)
		}
	}
	return all
}

// check compares the histories with the models.
func (b *objectsBook) check(w *world) {
	for object, history := range b.history {
		name, _, _ := strings.Cut(object, " ")
		if b.unsure[object] {
			continue
		}
		history = beginning(history)
		if result := porcupine.CheckOperationsTimeout(models[name], history, time.Hour); result != porcupine.Ok {
			text := ""
			for _, op := range history {
				text += fmt.Sprintf("\n%d to %d: %+v: %+v", op.Call, op.Return, op.Input, op.Output)
			}
			w.breach(ruleLinearizable, "%s: %v%s", object, result, text)
		}
		if len(history) > 5 {
			w.bit(ruleLinearizable)
		}
	}
}
