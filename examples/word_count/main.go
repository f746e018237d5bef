// Command word_count counts the words of files and prints the most frequent ones. The counts of each file stay in the worker that
// has made them; the workers merge them in pairs.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/fiber-go/fiber"
)

// counts says how often each word occurs.
type counts = map[string]int

// countWords counts the words of a file: runs of letters and digits, in lower case.
var countWords = fiber.Register("countWords", func(ctx context.Context, path string) (*fiber.Shared[counts], error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, lines := counts{}, bufio.NewReader(file)
	for ctx.Err() == nil {
		line, err := lines.ReadString('\n')
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			all[strings.ToLower(word)]++
		}
		if err != nil { // the end, as a rule
			return fiber.Share(ctx, all)
		}
	}
	return nil, ctx.Err()
})

// merge adds the counts of two up.
var merge = fiber.Register("merge", func(ctx context.Context, pair [2]*fiber.Shared[counts]) (*fiber.Shared[counts], error) {
	a, err := pair[0].Get(ctx)
	if err != nil {
		return nil, err
	}
	b, err := pair[1].Get(ctx)
	if err != nil {
		return nil, err
	}
	sum := maps.Clone(a) // a is not to be changed
	for word, n := range b {
		sum[word] += n
	}
	return fiber.Share(ctx, sum)
})

var (
	workers = flag.Int("workers", 4, "how many processes count; 0 for one per CPU")
	most    = flag.Int("n", 10, "how many words are printed")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("word_count needs the names of files to count; see -h")
	}
	all, err := countAll(ctx, flag.Args(), *workers)
	if err != nil {
		return err
	}
	for _, word := range frequent(all, *most) {
		fmt.Printf("%7d %s\n", all[word], word)
	}
	return nil
}

// countAll counts the words of all files. The counts come here when there is one left.
func countAll(ctx context.Context, paths []string, workers int) (counts, error) {
	pool, err := fiber.NewPool(workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	files, err := fiber.Map(ctx, pool, countWords, paths)
	if err != nil {
		return nil, err
	}
	sum, err := fiber.Reduce(ctx, pool, merge, files)
	if err != nil {
		return nil, err
	}
	return sum.Get(ctx)
}

// frequent returns the n most frequent words, those of the same count in alphabetical order.
func frequent(all counts, n int) []string {
	words := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	return words[:min(max(n, 0), len(words))]
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Word_count counts the words of files, on a pool of processes, and prints the most
frequent ones.

	go run ./examples/word_count -n 20 *.md

Flags:
`)
	flag.PrintDefaults()
}
