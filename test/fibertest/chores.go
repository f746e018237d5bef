//go:build unix

package fibertest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
)

// SeedKey names the seed of a test of chaos: it repeats a run as far as the
// machine lets it.
const SeedKey = "FIBER_TEST_SEED"

// ChaosSeed is the seed that a program is given as its argument.
func ChaosSeed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv(ArgKey), 10, 64)
	if err != nil {
		panic(err)
	}
	return seed
}

// Chore is a task that takes from no time at all to 3 ms.
type Chore struct {
	N      int
	Micros int
	End    string // how it ends its process
}

// Chores does one.
var Chores = fiber.Register("chores", func(_ context.Context, c Chore) (int, error) {
	if c.Micros > 0 {
		time.Sleep(time.Duration(c.Micros) * time.Microsecond)
	}
	switch c.End {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "exit":
		os.Exit(3)
	}
	return c.N*7 + 1, nil
})

// ChoresFrom returns n chores of a seed.
func ChoresFrom(seed uint64, n int) []Chore {
	r := rand.New(rand.NewPCG(seed, 2))
	cs := make([]Chore, n)
	for i := range cs {
		cs[i].N = i
		if r.IntN(3) > 0 {
			cs[i].Micros = r.IntN(3000)
		}
	}
	return cs
}
