package fiber

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/fiber-go/fiber/internal/pool/worker"
)

// Seed sets what TaskSeed returns in the tasks of a call. Calls that a task makes, and
// that have no Seed of their own, derive theirs from the task's, in the order in which
// it makes them. Any other call without this option has a random one.
func Seed(seed uint64) CallOption {
	return callOption(func(o *callOptions) error {
		o.Seed, o.seeded = seed, true
		return nil
	})
}

// TaskSeed returns the seed of a task whose function has received ctx, or a context
// derived from it. The two numbers depend on the call's Seed and the index of the input,
// or its CheckpointKey, alone: an experiment has the same numbers with however many workers, in whatever order
// its tasks run, and after any number of attempts.
//
//	random := rand.New(rand.NewPCG(fiber.TaskSeed(ctx))) // math/rand/v2
//
// Where no pool has called the function, the numbers are random.
func TaskSeed(ctx context.Context) (uint64, uint64) {
	if ctx != nil {
		if t, ok := worker.Current(ctx); ok {
			return derived(t.Seed, t.Key)
		}
	}
	return rand.Uint64(), rand.Uint64()
}

// callSeed returns the seed of a call that is made with ctx and has none of its own.
func callSeed(ctx context.Context) uint64 {
	if t, ok := worker.Current(ctx); ok {
		seed, _ := derived(t.Seed, t.Key, t.Call())
		return seed
	}
	return rand.Uint64()
}

// derived returns two numbers that look random, and are always the same for the same path.
func derived(path ...uint64) (uint64, uint64) {
	var text []byte
	for _, n := range path {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
}
