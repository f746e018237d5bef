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

// count is the result for one file. A file that cannot be read is a result,
// too, and not an error of the function: at an error Map would give up the
// files after it.
type count struct {
	Lines int
	Err   string // why the file could not be read, with its name; "" if it could
}

var countLines = fiber.Register("countLines", func(ctx context.Context, path string) (count, error) {
	file, err := os.Open(path)
	if err != nil {
		return count{Err: err.Error()}, nil
	}
	defer file.Close()
	lines, buf := 0, make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := file.Read(buf)
		lines += bytes.Count(buf[:n], []byte("\n"))
		if err == io.EOF {
			return count{Lines: lines}, nil
		}
		if err != nil {
			return count{Err: err.Error()}, nil
		}
	}
	return count{}, ctx.Err()
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
	return show(paths, counts)
}

// countAll counts the lines of each file on a pool and returns the counts in
// the order of the paths.
func countAll(ctx context.Context, paths []string, workers int) ([]count, error) {
	pool, err := fiber.NewPool(workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return fiber.Map(ctx, pool, countLines, paths)
}

// show prints a line for each file that was read and, if there are several
// files, the total. The errors of the others go to stderr.
func show(paths []string, counts []count) error {
	total, failed := 0, 0
	for _, c := range counts {
		total += c.Lines
		if c.Err != "" {
			failed++
			fmt.Fprintln(os.Stderr, "line_count:", c.Err)
		}
	}
	width := len(fmt.Sprint(total))
	for i, c := range counts {
		if c.Err == "" {
			fmt.Printf("%*d %s\n", width, c.Lines, paths[i])
		}
	}
	if len(paths) > 1 {
		fmt.Printf("%*d total\n", width, total)
	}
	if failed > 0 {
		return fmt.Errorf("line_count: not counted: %d of %d", failed, len(paths))
	}
	return nil
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
