// Package progress shows in the terminal how far calls of Fiber's have come.
//
//	outs, err := fiber.Map(ctx, pool, evaluate, ins, progress.Bar("evaluating"))
//
// Each call has a line at the bottom of the terminal, in the order in which they began: what is done, how fast, how long the
// rest takes, the pool's workers, failures. What Fiber logs, what its processes print, and what the program logs with package
// log or the default logger of log/slog appears above. So does what the program prints to [Writer]; what it prints to
// os.Stdout or os.Stderr itself, with fmt.Println say, gets into the lines.
//
// The lines are on stderr. Where that is no terminal, each call writes a plain line every ten seconds, if anything has changed,
// and one at its end. A program that fiber run -a follows shows its bars on the terminal of who follows it. With NO_COLOR set,
// there are no colors.
package progress

import (
	"io"
	"log"
	"os"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/bars"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Bar shows how far a call has come, with a label in front, which may be empty. It is an option of Map, IMap, Apply, Reduce and
// their variants. Each call that it is given to has a line of its own, which stays when the call is over. A call may have a
// fiber.OnProgress as well. If package log writes to os.Stderr or os.Stdout, Bar has it write above the lines from then on.
//
// The lines are drawn ten times a second at most, in addition to what appears above them. fiber.Main, and fiber.Shutdown, draw
// them a last time. Whoever ends the program otherwise, with os.Exit say, leaves the cursor behind them.
func Bar(label string) fiber.CallOption {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if log.Writer() == io.Writer(f) {
			log.SetOutput(stdio.Stream(func() *os.File { return f }))
		}
	}
	return fiber.OnProgress(func(p fiber.Progress) { bars.Show(label, bars.Progress(p)) })
}

// Writer returns a writer to stdout, for what the program prints while there are bars: it appears above them, once its line has
// ended. Several goroutines may use it. Without bars, and where stdout is not the terminal that has them, it is os.Stdout.
func Writer() io.Writer { return stdio.Stdout }
