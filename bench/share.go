//go:build unix

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

const (
	shareWorkers    = 64
	shareContainers = 16
	sharedNumbers   = 80 << 20 / 8 // float64
	putNumbers      = 1_000_000_000 / 8
	shareReferences = 10_000
	shareAwaited    = 1_000

	perPage = 4096 / 8 // float64
)

// What Ray takes for the same, as measured: to run a task with 10,000 references as its argument, and to await 1,000 references one
// by one.
const (
	rayReferences = 189 * time.Millisecond
	rayAwaited    = 1430 * time.Millisecond
)

var shareRows = []row{
	{name: "share/80MiB-64", unit: duration, pairs: 7, open: openShare},
	{name: "share/80MiB-64-sum", unit: duration, pairs: 5, open: openShareSum},
	{name: "share/80MiB-64-memory", unit: mebibytes, pairs: 3, open: openShareMemory},
	{name: "share/put-1GB", unit: duration, pairs: 7, open: openPut},
	{name: "share/10,000-references", unit: duration, pairs: 7, open: openReferences},
	{name: "share/1,000-awaited", unit: duration, pairs: 7, open: openAwaited},
}

// A reading is a task that adds up the first of each Step shared numbers.
type reading struct {
	Numbers *fiber.Shared[[]float64]
	Step    int
}

// A readSum is the sum, and the worker that has added it up.
type readSum struct {
	Worker string
	Sum    float64
}

var (
	readShared   = fiber.Register("bench.readShared", readNumbers, meta.CPU(1))
	readAnywhere = fiber.Register("bench.readAnywhere", readNumbers)

	shareInt = fiber.Register("bench.shareInt", func(ctx context.Context, i int) (*fiber.Shared[int], error) {
		return fiber.Share(ctx, i)
	}, meta.CPU(1))
	countShared = fiber.Register("bench.countShared", func(_ context.Context, refs []*fiber.Shared[int]) (int, error) {
		return len(refs), nil
	}, meta.CPU(1))
)

func readNumbers(ctx context.Context, r reading) (readSum, error) {
	numbers, err := r.Numbers.Get(ctx)
	task, _ := fiber.TaskFromContext(ctx)
	return readSum{task.Worker, addUp(numbers, r.Step)}, err
}

// addUp returns the sum of the first of each step numbers.
func addUp(numbers []float64, step int) float64 {
	sum := 0.0
	for i := 0; i < len(numbers); i += step {
		sum += numbers[i]
	}
	return sum
}

// A sharing is numbers that each worker of a warm pool reads.
type sharing struct {
	pool    *fiber.Pool
	reads   *fiber.Func[reading, readSum]
	workers int
	numbers []float64
	step    int
	sum     float64
}

// openSharing makes a sharing, with a pool that lives as long as the match.
func openSharing(ctx context.Context, m *match, workers int, numbers []float64, step int) (*sharing, error) {
	pool, err := warmPool(ctx, m, workers, applySame)
	return &sharing{pool, readShared, workers, numbers, step, addUp(numbers, step)}, err
}

// countUp returns the numbers from 0 to n-1.
func countUp(n int) []float64 {
	numbers := make([]float64, n)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	return numbers
}

// run shares the numbers, and lets each worker read them.
func (s *sharing) run(ctx context.Context, _ int) (float64, error) {
	begun := time.Now()
	shared, err := fiber.Share(ctx, s.numbers)
	if err != nil {
		return 0, err
	}
	defer shared.Close()
	err = s.read(ctx, shared)
	return time.Since(begun).Seconds(), err
}

// sent shares the numbers, and returns how many bytes this process writes until each worker has read them.
func (s *sharing) sent(ctx context.Context) (int64, error) {
	shared, err := fiber.Share(ctx, s.numbers)
	if err != nil {
		return 0, err
	}
	defer shared.Close()
	before, err := written()
	if err == nil {
		err = s.read(ctx, shared)
	}
	after, e := written()
	return after - before, errors.Join(err, e)
}

// written returns how many bytes this process has written, to sockets and files.
func written() (n int64, err error) {
	text, err := os.ReadFile("/proc/self/io")
	if err == nil {
		_, counts, _ := strings.Cut(string(text), "wchar: ")
		_, err = fmt.Sscan(counts, &n)
	}
	return n, err
}

// read lets each worker read the numbers, and checks that each has.
func (s *sharing) read(ctx context.Context, shared *fiber.Shared[[]float64]) error {
	ins := make([]reading, s.workers)
	for i := range ins {
		ins[i] = reading{shared, s.step}
	}
	sums, err := fiber.Map(ctx, s.pool, s.reads, ins, fiber.ChunkSize(1))
	if err != nil {
		return err
	}
	took := map[string]bool{}
	for _, r := range sums {
		took[r.Worker] = true
		if r.Sum != s.sum {
			return fmt.Errorf("the sum is %v instead of %v", r.Sum, s.sum)
		}
	}
	if len(took) < s.workers {
		return fmt.Errorf("%d workers of %d took part", len(took), s.workers)
	}
	return nil
}

// copyAndTrips is the floor under run: a copy of the numbers, and a round trip to each worker.
func (s *sharing) copyAndTrips(ctx context.Context, _ int) (float64, error) {
	copied, err := copyFresh(s.numbers)
	if err != nil {
		return 0, err
	}
	trips, err := timed(func(ctx context.Context, n int) error { return mapSame(ctx, s.pool, n, fiber.ChunkSize(1)) })(ctx, s.workers)
	return copied + trips, err
}

// copyFresh copies numbers into memory that nobody has used before, and returns how long that takes.
func copyFresh(numbers []float64) (float64, error) {
	begun := time.Now()
	to, unmap, err := mapNumbers(-1, len(numbers), syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return 0, err
	}
	defer unmap()
	copy(to, numbers)
	return time.Since(begun).Seconds(), nil
}

// mapNumbers maps n numbers until unmap is called.
func mapNumbers(fd, n, flags int) (numbers []float64, unmap func(), err error) {
	b, err := syscall.Mmap(fd, 0, 8*n, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&b[0])), n), func() { syscall.Munmap(b) }, nil
}

// memoryNumbers returns a file without a name, for bare processes to inherit, and its n numbers, mapped until unmap is called.
func memoryNumbers(n int) (file *os.File, numbers []float64, unmap func(), err error) {
	if file, err = memoryFile(); err != nil {
		return nil, nil, nil, err
	}
	if err = file.Truncate(int64(8 * n)); err == nil {
		numbers, unmap, err = mapNumbers(int(file.Fd()), n, syscall.MAP_SHARED)
	}
	if err != nil {
		file.Close()
	}
	return file, numbers, unmap, err
}

// openShare measures numbers that are shared and of which each of 64 workers reads one in each page.
func openShare(ctx context.Context, m *match) error {
	s, err := openSharing(ctx, m, shareWorkers, countUp(sharedNumbers), perPage)
	m.subject = contender{name: "Share and Get", ops: 1, run: s.run}
	if err != nil {
		return err
	}
	bare, err := bareReaders(m, s)
	m.references = []reference{
		{bound: atMost(2), contender: contender{name: "copy, 64 trips", ops: 1, run: s.copyAndTrips}},
		{contender: bare},
	}
	return err
}

// openShareSum measures numbers that are shared and that each of 64 workers adds up.
func openShareSum(ctx context.Context, m *match) error {
	s, err := openSharing(ctx, m, shareWorkers, countUp(sharedNumbers), 1)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Share and Get", ops: 1, run: s.run}
	bare, err := bareReaders(m, s)
	m.references = []reference{{bound: atMost(1.3), contender: bare}}
	return err
}

// bareReaders does the same with bare processes that have inherited the numbers: each maps and reads them.
func bareReaders(m *match, s *sharing) (contender, error) {
	file, to, unmap, err := memoryNumbers(sharedNumbers)
	if err != nil {
		return contender{}, err
	}
	defer file.Close()
	copy(to, s.numbers)
	unmap()
	floors, err := openFloors(m, s.workers, "sum", polled, file)
	step := binary.LittleEndian.AppendUint64(nil, uint64(s.step))
	sum := binary.LittleEndian.AppendUint64(nil, math.Float64bits(s.sum))
	return contender{name: "bare processes", ops: 1, run: timed(func(context.Context, int) error {
		return askAll(floors, step, sum)
	})}, err
}

// sumInherited maps the numbers that a bare process has inherited, and turns a step into their sum.
func sumInherited(b []byte) error {
	numbers, unmap, err := mapNumbers(4, sharedNumbers, syscall.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unmap()
	sum := addUp(numbers, int(binary.LittleEndian.Uint64(b)))
	binary.LittleEndian.PutUint64(b, math.Float64bits(sum))
	return nil
}

// openShareMemory measures by how much the memory of the root and of 64 workers grows when all workers have read shared numbers.
func openShareMemory(_ context.Context, m *match) error {
	numbers := countUp(sharedNumbers)
	m.subject = contender{name: "root, 64 workers", ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		return shareMemory(ctx, numbers, shareWorkers)
	}}
	m.references = []reference{{bound: atMost(1.1), contender: constant("one copy", sharedNumbers*8>>20)}}
	return nil
}

// shareMemory does so with workers of its own, which have nothing that was shared before.
func shareMemory(ctx context.Context, numbers []float64, workers int) (float64, error) {
	m := new(match)
	defer m.close()
	s, err := openSharing(ctx, m, workers, numbers, perPage)
	if err != nil {
		return 0, err
	}
	pids, err := workerPIDs(ctx, s.pool, s.workers)
	if err != nil {
		return 0, err
	}
	pids = append(pids, os.Getpid())
	debug.FreeOSMemory() // what the last row has left
	before, err := proportional(pids)
	if err != nil {
		return 0, err
	}
	shared, err := fiber.Share(ctx, s.numbers)
	if err != nil {
		return 0, err
	}
	defer shared.Close()
	if err := s.read(ctx, shared); err != nil {
		return 0, err
	}
	after, err := proportional(pids)
	return after - before, err
}

// openPut measures Share of a gigabyte against a copy of as much.
func openPut(_ context.Context, m *match) error {
	numbers := countUp(putNumbers)
	m.subject = contender{name: "Share", ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		begun := time.Now()
		shared, err := fiber.Share(ctx, numbers)
		if err != nil {
			return 0, err
		}
		defer shared.Close()
		return time.Since(begun).Seconds(), nil
	}}
	m.references = []reference{{bound: atMost(1.2), contender: contender{name: "copy", ops: 1,
		run: func(context.Context, int) (float64, error) { return copyFresh(numbers) }}}}
	return nil
}

// openReferences measures a task whose argument is 10,000 references.
func openReferences(ctx context.Context, m *match) error {
	pool, err := warmPool(ctx, m, 1, applySame)
	if err != nil {
		return err
	}
	refs := make([]*fiber.Shared[int], shareReferences)
	for i := range refs {
		if refs[i], err = fiber.Share(ctx, i); err != nil {
			return err
		}
		m.closing(refs[i].Close)
	}
	m.subject = contender{name: "Apply", ops: 1, run: timed(func(ctx context.Context, _ int) error {
		n, err := fiber.Apply(ctx, pool, countShared, refs)
		if err == nil && n != len(refs) {
			err = fmt.Errorf("%d references of %d have come", n, len(refs))
		}
		return err
	})}
	m.references = []reference{{bound: atLeast(10), contender: constant("Ray, as measured", rayReferences.Seconds())}}
	return nil
}

// openAwaited measures 1,000 tasks that each share a number, and whose references are awaited one by one.
func openAwaited(ctx context.Context, m *match) error {
	pool, err := warmPool(ctx, m, 4, applySame)
	if err != nil {
		return err
	}
	m.subject = contender{name: "ApplyAsync", ops: 1, run: timed(func(ctx context.Context, _ int) error {
		var futures [shareAwaited]*fiber.Future[*fiber.Shared[int]]
		for i := range futures {
			futures[i] = fiber.ApplyAsync(ctx, pool, shareInt, i)
		}
		for i, f := range futures {
			ref, err := f.Get(ctx)
			if err != nil {
				return err
			}
			got, err := ref.Get(ctx)
			if err != nil {
				return err
			}
			if got != i {
				return fmt.Errorf("got %d for %d", got, i)
			}
		}
		return nil
	})}
	m.references = []reference{{bound: atLeast(10), contender: constant("Ray, as measured", rayAwaited.Seconds())}}
	return nil
}
