//go:build unix

package fibertest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// The voices of a choir. The first starts the second, and that the third.
var (
	sing = fiber.Register("sing", func(ctx context.Context, _ None) (None, error) {
		name := fiber.CurrentProcess().Name() + ".2"
		return None{}, voice(ctx, fiber.NewProcess(descant, None{}, fiber.WithName(name)))
	})
	descant = fiber.Register("descant", func(ctx context.Context, _ None) (None, error) {
		name := fiber.CurrentProcess().Name() + ".1"
		return None{}, voice(ctx, fiber.NewProcess(treble, None{}, fiber.WithName(name)))
	})
	treble = fiber.Register("treble", func(ctx context.Context, _ None) (None, error) {
		return None{}, voice(ctx, nil)
	})
)

// voice writes lines in pieces, each with the name of its process, while a child
// does so, too, and ends in the middle of a line.
func voice(ctx context.Context, child *fiber.Process) error {
	name := fiber.CurrentProcess().Name()
	fmt.Print(name, " begins, ")
	if child != nil {
		if err := child.Start(ctx); err != nil {
			return err
		}
	}
	fmt.Println("says", name)
	for i := range songLines {
		fmt.Print(name, " line ", i)
		fmt.Print(strings.Repeat(".", i), " of ")
		fmt.Println(name)
	}
	fmt.Println(name, strings.Repeat("long", 10_000), name)
	if child != nil {
		if err := child.Join(ctx); err != nil {
			return err
		}
		logs, err := child.Logs(ctx)
		if err != nil {
			return err
		}
		defer logs.Close()
		all, err := io.ReadAll(logs)
		if err != nil {
			return err
		}
		if lines := strings.Count(string(all), "\n"); lines != songLines+2 || strings.Contains(string(all), "|") {
			return fmt.Errorf("%d lines of %s are kept, not its own", lines, child.Name())
		}
	}
	fmt.Print(name, " ends, ", name)
	return nil
}

const songLines = 300

var _ = MainProgram("choir", func(ctx context.Context) error {
	var all []*fiber.Process
	for _, name := range []string{"a", "bb"} {
		p := fiber.NewProcess(sing, None{}, fiber.WithName(name))
		if err := p.Start(ctx); err != nil {
			return err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.Join(ctx); err != nil {
			return err
		}
	}
	fmt.Println("sung")
	return nil
})

// RequireSong checks what the program "choir" writes: each line has the name of
// its process in front, and is whole.
func RequireSong(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Equal(t, "sung", lines[len(lines)-1], "the root's own line")
	of := map[string]int{}
	for _, line := range lines[:len(lines)-1] {
		name, text, ok := strings.Cut(line, " | ")
		name = strings.TrimRight(name, " ")
		require.True(t, ok && strings.HasPrefix(text, name+" ") && strings.HasSuffix(text, " "+name), "%.200q", line)
		of[name]++
	}
	names := []string{"a", "a.2", "a.2.1", "bb", "bb.2", "bb.2.1"}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(of)))
	for name, n := range of {
		require.Equal(t, songLines+3, n, name)
	}
}
