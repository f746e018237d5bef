package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/runs"
)

type topCommand struct {
	where
	Once bool   `help:"Show it once, without a terminal's control. So it is where stdout is no terminal."`
	Name string `arg:"" help:"A program's name, as fiber ps shows it, or the program's own."`
}

func (c *topCommand) Run() error {
	return c.about(c.Name, func(ctx context.Context, r *runs.Run) error {
		return c.show(ctx, r.Name(), r.Ask)
	}, func(ctx context.Context, client *kube.Client, pod *corev1.Pod) error {
		status, err := submit.NewStatus(client, pod)
		if err != nil {
			return err
		}
		defer status.Close()
		return c.show(ctx, pod.Name, status.Ask)
	})
}

// looks is how often a program is asked at most before it is shown once: a rate is known at the second time, and what processes use
// a little later.
const looks = 5

// show shows how a program is, again and again on a terminal.
func (c *topCommand) show(ctx context.Context, name string, ask func(context.Context) (runs.Status, error)) error {
	v := view{name: name}
	if c.Once || !term.IsTerminal(int(os.Stdout.Fd())) {
		for n := 0; n < 2 || n < looks && !v.measured(); n++ {
			s, err := answer(ctx, name, ask)
			if err != nil {
				return err
			}
			v.add(s)
		}
		_, err := fmt.Println(strings.Join(v.lines(0, 0), "\n"))
		return err
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	ended := c.watch(ctx, quit, &v, ask)
	switch {
	case errors.Is(ended, runs.ErrEnded):
		fmt.Println(name + " has ended")
		return nil
	case ended != nil:
		return fmt.Errorf("%s: %w", name, ended)
	}
	return nil
}

// The terminal's commands: the other screen, without a cursor, and back; to the upper left corner; to the end of a line; to the end
// of the screen.
const (
	enter, leave = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	home         = "\x1b[H"
	restOfLine   = "\x1b[K"
	restOfScreen = "\x1b[J"
)

// watch shows how a program is until a key calls quit, ctx ends, or asking fails.
func (c *topCommand) watch(ctx context.Context, quit func(), v *view, ask func(context.Context) (runs.Status, error)) error {
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		if state, err := term.MakeRaw(in); err == nil {
			defer term.Restore(in, state)
			go func() {
				for key := make([]byte, 1); ; {
					if _, err := os.Stdin.Read(key); err != nil || bytes.ContainsAny(key, "qQ\x03") {
						quit()
						return
					}
				}
			}()
		}
	}
	fmt.Print(enter)
	defer fmt.Print(leave)
	draw := func() {
		width, height, err := term.GetSize(int(os.Stdout.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		fmt.Print(home + strings.Join(v.lines(width, height), restOfLine+"\r\n") + restOfLine + restOfScreen)
	}
	draw()
	type answer struct {
		runs.Status
		err error
	}
	answers := make(chan answer)
	go func() {
		defer close(answers)
		for again := (retry.Pauses{Longest: time.Second}); ctx.Err() == nil; {
			s, err := ask(ctx)
			select {
			case answers <- answer{s, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				again.Wait(ctx)
			}
		}
	}()
	defer func() { // the connection is not in use when this returns
		quit()
		for range answers {
		}
	}()
	for again := time.NewTicker(time.Second); ; {
		select {
		case a := <-answers:
			if ctx.Err() != nil {
				return nil
			}
			switch {
			case a.err == nil:
				v.add(a.Status)
				again.Reset(time.Second)
			case errors.Is(a.err, context.DeadlineExceeded): // it does not answer
			case errors.Is(a.err, runs.ErrEnded) || len(v.past) == 0:
				return a.err
			default:
				v.why = a.err.Error()
			}
		case <-again.C: // it does not answer, or the terminal has another size
		case <-ctx.Done():
			return nil
		}
		draw()
	}
}
