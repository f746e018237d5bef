// Command globals reads package variables where they are set, and where they are not.
package main

import (
	"context"
	"flag"
	"sync"

	"github.com/fiber-go/fiber"
)

var (
	table   map[string]int
	limit   = 10
	rate    float64
	samples = flag.Int("samples", 1, "")
	name    string
	scale   = 2
	ready   = load()
	mode    int
	once    sync.Once
	cached  []int
	own     int
	unread  int
	mu      sync.Mutex
	root    = context.Background()
)

func init() {
	flag.StringVar(&name, "name", "", "")
	mode = 1
}

func load() int { return 3 }

var look = fiber.Register("look", func(ctx context.Context, x string) (int, error) {
	if limit > 0 { // want `^limit is set by the root alone, at main.go:\d+, and read in another process: pass it as an argument$`
		mu.Lock()
		defer mu.Unlock()
	}
	own = 1
	return table[x] + *samples + len(name) + scale*ready + mode + own, nil // want `^table is set` `^samples is set by the root alone, at main.go:\d+` `^name is set`
})

var lookMore = fiber.Register("look more", more)

func more(ctx context.Context, x int) (int, error) { return deeper(x), nil }

func deeper(x int) int {
	once.Do(func() { cached = []int{x} })
	return int(rate) + len(cached) // want `^rate is set`
}

func main() {
	scale = 3
	fiber.Main(run)
}

func run(ctx context.Context) error {
	flag.Parse()
	table = map[string]int{}
	cached, own, mode, unread = nil, 2, 3, unread+1
	root = ctx
	set()
	return nil
}

func set() {
	table["x"]++
	limit--
	rate = 0.5
	scale *= 2
}
