// Command line_count counts the lines of files, as wc -l does, on a pool of
// processes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/fiber-go/fiber"
)

var countLines = fiber.Register("countLines", func(ctx context.Context, path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines, buf := 0, make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := file.Read(buf)
		lines += bytes.Count(buf[:n], []byte("\n"))
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, ctx.Err()
})

var workers = flag.Int("workers", 4, "how many processes count; 0 for one per CPU")

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	paths := flag.Args()
	if len(paths) == 0 {
		return errors.New("line_count needs the names of files to count; see -h")
	}
	if slices.Contains(paths, "-") {
		return errors.New("line_count does not read its standard input; a file called - is ./-")
	}
	counts, err := countAll(ctx, paths, *workers)
	if err != nil {
		return err
	}
	return show(counts)
}

// count is the result for one file: its lines, or why it could not be counted.
type count = fiber.Result[string, int]

// countAll counts the lines of each file on a pool and returns the counts in
// the order of the paths. Other than Map, Results goes on when a file cannot be
// read.
func countAll(ctx context.Context, paths []string, workers int) ([]count, error) {
	pool, err := fiber.NewPool(workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	counts := make([]count, len(paths))
	for c, err := range fiber.Results(ctx, pool, countLines, slices.Values(paths)) {
		if err != nil {
			return nil, err
		}
		counts[c.Index] = c
	}
	return counts, nil
}

// show prints a line for each file that was read and, if there are several
// files, the total. The errors of the others go to stderr.
func show(counts []count) error {
	total, failed := 0, 0
	for _, c := range counts {
		total += c.Out
		if c.Err != nil {
			failed++
			fmt.Fprintln(os.Stderr, "line_count:", reason(c.Err))
		}
	}
	width := len(fmt.Sprint(total))
	for _, c := range counts {
		if c.Err == nil {
			fmt.Printf("%*d %s\n", width, c.Out, c.In)
		}
	}
	if len(counts) > 1 {
		fmt.Printf("%*d total\n", width, total)
	}
	if failed > 0 {
		return fmt.Errorf("line_count: not counted: %d of %d", failed, len(counts))
	}
	return nil
}

// reason returns the error of the function, which names the file, without the
// worker and the input that failed.
func reason(err error) string {
	if remote := (*fiber.RemoteError)(nil); errors.As(err, &remote) {
		return remote.Message
	}
	return err.Error()
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Line_count counts the lines of files, on a pool of processes. It prints what
wc -l prints: the number of newlines in each file, and the total. A file that
cannot be read is named on stderr; the others are counted all the same.

	go run ./examples/line_count *.go

Flags:
`)
	flag.PrintDefaults()
}
