package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

// vocabulary is a variable of its process: each worker fills its own.
var vocabulary map[string]string

var learn = fiber.Register("learn", func(ctx context.Context, pairs string) (struct{}, error) {
	vocabulary = map[string]string{}
	for pair := range strings.FieldsSeq(pairs) {
		from, to, _ := strings.Cut(pair, "=")
		vocabulary[from] = to
	}
	return struct{}{}, nil
})

var translate = fiber.Register("translate", func(ctx context.Context, word string) (string, error) {
	return vocabulary[word], nil
})

// The initializer runs once in each worker, before its first task.
func ExampleWithInitializer() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2, fiber.WithInitializer(learn, "eins=one zwei=two drei=three"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	words, err := fiber.Map(ctx, pool, translate, []string{"drei", "zwei", "eins"})
	fmt.Println(words, err)
	fmt.Println(len(vocabulary), "words are known here")
	// Output:
	// [three two one] <nil>
	// 0 words are known here
}

// party is a variable of its process: the tasks of one worker share it.
var party sync.WaitGroup

var prepareParty = fiber.Register("prepareParty", func(ctx context.Context, guests int) (struct{}, error) {
	party.Add(guests)
	return struct{}{}, nil
})

// join waits until all guests have come. It would wait forever if the worker ran
// its tasks one after another.
var join = fiber.Register("join", func(ctx context.Context, name string) (string, error) {
	party.Done()
	party.Wait()
	return name + " has met the others", nil
})

// One worker runs three tasks at a time.
func ExampleWithConcurrency() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1, fiber.WithConcurrency(3), fiber.WithInitializer(prepareParty, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	met, err := fiber.Map(ctx, pool, join, []string{"first", "second", "third"})
	for _, line := range met {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// first has met the others
	// second has met the others
	// third has met the others
	// <nil>
}

var brew = fiber.Register("brew", func(ctx context.Context, cup int) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return cup, nil
})

// The pool has at most four workers, and none once it has been idle for a while.
func ExampleWithAutoscale() {
	ctx := context.Background()
	pool, err := fiber.NewPool(0, fiber.WithAutoscale(0, 4), fiber.WithIdleTimeout(100*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	cups, err := fiber.Map(ctx, pool, brew, make([]int, 20))
	fmt.Println(len(cups), "cups", err)

	started := pool.Stats().WorkersStarted
	fmt.Println("some workers were started:", started >= 1 && started <= 4)
	for pool.Stats().Ready > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("none is left")
	// Output:
	// 20 cups <nil>
	// some workers were started: true
	// none is left
}

var whoRan = fiber.Register("whoRan", func(ctx context.Context, _ int) (int, error) { return os.Getpid(), nil })

// The pool has one worker at a time, and replaces it after every ten tasks.
func ExampleWithMaxTasksPerChild() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1, fiber.WithMaxTasksPerChild(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	pids, err := fiber.Map(ctx, pool, whoRan, make([]int, 30))
	tasks := map[int]int{}
	for _, pid := range pids {
		tasks[pid]++
	}
	fmt.Println(len(tasks), "processes", err)
	// Output: 3 processes <nil>
}

// pay must not run twice: it writes to the ledger before its process dies.
var pay = fiber.Register("pay", func(ctx context.Context, ledger string) (struct{}, error) {
	f, err := os.OpenFile(ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return struct{}{}, err
	}
	fmt.Fprintln(f, "paid")
	f.Close()
	os.Exit(1)
	return struct{}{}, nil
})

// With one attempt, a task that was started is never run again.
func ExampleWithMaxAttempts() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1, fiber.WithMaxAttempts(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	ledger := filepath.Join(dir, "ledger")
	_, err = fiber.Apply(ctx, pool, pay, ledger)
	var lost *fiber.WorkerLostError
	fmt.Println(errors.As(err, &lost))
	entries, err := os.ReadFile(ledger)
	fmt.Printf("%q %v\n", entries, err)
	// Output:
	// true
	// "paid\n" <nil>
}

func ExamplePool_Resize() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	fmt.Println(pool.WaitUntilWorkersUp(ctx), pool.Stats().Ready, "ready")
	fmt.Println(pool.Resize(ctx, 3), pool.Stats().Ready, "ready")
	fmt.Println(pool.Resize(ctx, 2), pool.Stats().Ready, "ready")
	// Output:
	// <nil> 1 ready
	// <nil> 3 ready
	// <nil> 2 ready
}

var pickEven = fiber.Register("pickEven", func(ctx context.Context, n int) (int, error) {
	if n%2 != 0 {
		return 0, errors.New("odd")
	}
	return n, nil
})

func ExamplePool_Stats() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2, fiber.WithName("picker"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, worker := range pool.Stats().Processes {
		fmt.Println("a worker is", worker.State) // and worker.Name is picker-1, and so on
	}

	for n := range 5 {
		fiber.Apply(ctx, pool, pickEven, n)
	}
	pool.Close()
	stats := pool.Stats()
	fmt.Println(stats.Done, "tasks done,", stats.Failed, "failed")
	fmt.Println(stats.WorkersStarted, "workers started,", stats.WorkersLost, "lost")
	// Output:
	// a worker is ready
	// a worker is ready
	// 3 tasks done, 2 failed
	// 2 workers started, 0 lost
}
