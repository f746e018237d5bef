// Command shared_data shows which changes of shared data other processes see:
// those of managed objects, but not those of copies.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/fiber-go/fiber"
)

// slot is an element of a list or a dict. One of its fields is set.
type slot struct {
	N    int              // a number
	Ns   []int            // several, which are copied with the slot
	List *fiber.List[int] // a managed list, which is shared
}

func (s slot) text(ctx context.Context) (string, error) {
	switch {
	case s.List != nil:
		all, err := s.List.All(ctx)
		if err != nil {
			return "", err
		}
		var ns []int
		for _, n := range all {
			ns = append(ns, n)
		}
		return "managed " + fmt.Sprint(ns), nil
	case s.Ns != nil:
		return fmt.Sprint(s.Ns), nil
	}
	return fmt.Sprint(s.N), nil
}

// shared holds objects in a manager. They travel in arguments, like values.
type shared struct {
	Namespace *fiber.Namespace
	List      *fiber.List[slot]
	Dict      *fiber.Dict[int, slot]
}

// change runs in another process. It adds one to everything.
var change = fiber.Register("change", func(ctx context.Context, s shared) (struct{}, error) {
	return struct{}{}, errors.Join(
		changeNamespace(ctx, s.Namespace),
		changeSlots(ctx,
			func(i int) (slot, error) { return s.List.Get(ctx, i) },
			func(i int, v slot) error { return s.List.Set(ctx, i, v) }),
		changeSlots(ctx,
			func(i int) (slot, error) { v, _, err := s.Dict.Get(ctx, i); return v, err },
			func(i int, v slot) error { return s.Dict.Set(ctx, i, v) }))
})

func changeNamespace(ctx context.Context, ns *fiber.Namespace) error {
	var x int
	var y, z []int
	for name, into := range map[string]any{"x": &x, "y": &y, "z": &z} {
		if _, err := ns.Get(ctx, name, into); err != nil {
			return err
		}
	}
	x++
	y[0]++ // in a copy: no other process sees it
	z[0]++
	return errors.Join(ns.Set(ctx, "x", x), ns.Set(ctx, "z", z))
}

func changeSlots(ctx context.Context, get func(int) (slot, error), set func(int, slot) error) error {
	var slots [4]slot
	for i := range slots {
		var err error
		if slots[i], err = get(i); err != nil {
			return err
		}
	}
	slots[0].N++
	slots[1].Ns[0]++ // in a copy: no other process sees it
	slots[2].Ns[0]++
	_, err := slots[3].List.Update(ctx, 0, func(n int) (int, error) { return n + 1, nil }) // all processes see it
	return errors.Join(err, set(0, slots[0]), set(2, slots[2]))
}

// newShared makes the objects, filled with ones.
func newShared(ctx context.Context, m *fiber.Manager) (s shared, err error) {
	if s.Namespace, err = fiber.NewNamespace(ctx, m); err != nil {
		return s, err
	}
	if s.List, err = fiber.NewList[slot](ctx, m); err != nil {
		return s, err
	}
	if s.Dict, err = fiber.NewDict[int, slot](ctx, m); err != nil {
		return s, err
	}
	for name, v := range map[string]any{"x": 1, "y": []int{1}, "z": []int{1}} {
		if err := s.Namespace.Set(ctx, name, v); err != nil {
			return s, err
		}
	}
	for i := range 8 {
		v := []slot{{N: 1}, {Ns: []int{1}}, {Ns: []int{1}}, {}}[i%4]
		if i%4 == 3 {
			if v.List, err = fiber.NewList(ctx, m, 1); err != nil {
				return s, err
			}
		}
		if i < 4 {
			err = s.List.Append(ctx, v)
		} else {
			err = s.Dict.Set(ctx, i-4, v)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// text returns the contents of the objects, a line each.
func (s shared) text(ctx context.Context) (string, error) {
	var x int
	var y, z []int
	for name, into := range map[string]any{"x": &x, "y": &y, "z": &z} {
		if _, err := s.Namespace.Get(ctx, name, into); err != nil {
			return "", err
		}
	}
	list, err := s.List.All(ctx)
	if err != nil {
		return "", err
	}
	dict, err := s.Dict.All(ctx)
	if err != nil {
		return "", err
	}
	lines := []string{fmt.Sprintf("namespace  x: %d, y: %v, z: %v", x, y, z)}
	for _, row := range []struct {
		name  string
		slots func(func(int, slot) bool)
	}{{"list", list}, {"dict", dict}} {
		var texts []string
		for i, v := range row.slots {
			text, err := v.text(ctx)
			if err != nil {
				return "", err
			}
			texts = append(texts, fmt.Sprintf("%d: %s", i, text))
		}
		lines = append(lines, fmt.Sprintf("%-10s %s", row.name, strings.Join(texts, ", ")))
	}
	return strings.Join(lines, "\n"), nil
}

// calculator is a type of our own that lives in the manager.
type calculator struct{ history []int }

// pair is two numbers.
type pair struct{ A, B int }

func (c *calculator) Add(_ context.Context, p pair) (int, error) { return c.note(p.A + p.B), nil }

func (c *calculator) Mul(_ context.Context, p pair) (int, error) { return c.note(p.A * p.B), nil }

func (c *calculator) History(context.Context, struct{}) ([]int, error) {
	return slices.Clone(c.history), nil
}

func (c *calculator) note(n int) int {
	c.history = append(c.history, n)
	return n
}

var (
	calculators = fiber.RegisterType("calculator", func(context.Context, struct{}) (*calculator, error) {
		return new(calculator), nil
	})
	add     = fiber.RegisterMethod("Add", (*calculator).Add)
	mul     = fiber.RegisterMethod("Mul", (*calculator).Mul)
	history = fiber.RegisterMethod("History", (*calculator).History)
)

// multiply runs in another process and uses the calculator through a proxy.
var multiply = fiber.Register("multiply", func(ctx context.Context, c *fiber.Proxy[*calculator]) (int, error) {
	return fiber.Call(ctx, c, mul, pair{7, 8})
})

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("shared_data takes no arguments, not %q; see -h", flag.Args())
	}
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := shareData(ctx, m); err != nil {
		return err
	}
	return calculate(ctx, m)
}

// shareData lets another process change shared data, and prints the data before
// and after.
func shareData(ctx context.Context, m *fiber.Manager) error {
	s, err := newShared(ctx, m)
	if err != nil {
		return err
	}
	before, err := s.text(ctx)
	if err != nil {
		return err
	}
	if _, err := fiber.Go(ctx, change, s).Get(ctx); err != nil {
		return err
	}
	after, err := s.text(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("before:\n%s\nafter another process has added one to each:\n%s\n", before, after)
	return nil
}

// calculate uses one calculator in two processes.
func calculate(ctx context.Context, m *fiber.Manager) error {
	c, err := fiber.NewObject(ctx, m, calculators, struct{}{})
	if err != nil {
		return err
	}
	sum, err := fiber.Call(ctx, c, add, pair{3, 4})
	if err != nil {
		return err
	}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	product, err := fiber.Apply(ctx, pool, multiply, c)
	if err != nil {
		return err
	}
	all, err := fiber.Call(ctx, c, history, struct{}{})
	if err != nil {
		return err
	}
	fmt.Printf("3 + 4 = %d, and 7 * 8 = %d in another process; the calculator remembers %v\n", sum, product, all)
	return nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Shared_data lets another process change objects that live in a manager, and
shows which of the changes are seen here.

	go run ./examples/shared_data
`)
	flag.PrintDefaults()
}
