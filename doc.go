// Package fiber runs ordinary functions as processes, with the interface of
// Python's multiprocessing: pools that map a function over many inputs, and
// single processes that are started, joined and killed. A worker that dies takes
// down neither the program nor the result.
//
// Fiber is a library and nothing else: it has no server, nothing is deployed, and
// no code is generated or sent. The processes that it starts are the program
// itself, started again.
//
// # A program
//
// A program's main calls [Main], first thing:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//
//		"github.com/fiber-go/fiber"
//	)
//
//	var square = fiber.Register("square", func(ctx context.Context, x int) (int, error) {
//		return x * x, nil
//	})
//
//	func main() { fiber.Main(run) }
//
//	func run(ctx context.Context) error {
//		pool, err := fiber.NewPool(4)
//		if err != nil {
//			return err
//		}
//		defer pool.Close()
//		squares, err := fiber.Map(ctx, pool, square, []int{1, 2, 3})
//		if err != nil {
//			return err
//		}
//		fmt.Println(squares)
//		return nil
//	}
//
// The process that you start is the root. There Main calls run. In the processes
// that Fiber starts, Main never calls it: it does the work that the process was
// started for, and exits. All of them get as far as Main, so nothing that has an
// effect belongs before it, nor into package initialisers: no flags that do
// something, no files, no servers. What run sets, a parsed flag or a loaded table,
// is not set in the other processes; they get what they need as arguments.
//
// The context that run gets ends at Ctrl-C or SIGTERM. Main exits with 0 when run
// returns nil, with 1 when run returns an error, which Main prints, and with 128+n
// when signal n ended the program. Everything that was started is gone by then.
//
// A program whose main is not its own calls [Init] first and [Shutdown] last
// instead. In a program that does neither, starting anything fails with
// [ErrNotInitialized].
//
// # Functions
//
// [Register] makes a function that other processes can run. It is called in a
// package variable, so that the function is there in every process before anything
// else happens. The function takes a context and one argument, and returns one
// result and an error. Several arguments are a struct:
//
//	type window struct {
//		Samples []float64
//		Centre  float64
//		Width   float64
//	}
//
//	var density = fiber.Register("density", func(ctx context.Context, w window) (float64, error) {
//		n := 0
//		for _, x := range w.Samples {
//			if x > w.Centre-w.Width/2 && x < w.Centre+w.Width/2 {
//				n++
//			}
//		}
//		return float64(n) / float64(len(w.Samples)) / w.Width, nil
//	})
//
// The other process finds the function by its name. When the two meet they compare
// their builds and their tables of functions: a process that does not fit is a
// [MismatchError], not a wrong result.
//
// Arguments and results travel as msgpack: numbers, strings, bools, times, slices,
// arrays, maps, pointers, and the exported fields of structs, under the names in
// their msgpack tags; "-" leaves a field out. Slices of numbers, at any depth, are
// copied as raw bytes. A type with its own binary, text or msgpack encoding keeps
// it; a struct that embeds such a type travels by its fields if it has others that
// are exported. Register rejects types that cannot travel, such as a struct with a
// channel in it; a value that cannot, such as a cycle of pointers, is an
// [EncodeError] that says where.
//
// Nothing is lost silently: a struct with an unexported field that is not zero is an
// EncodeError, too. Export the field, tag it "-", or give the type an encoding of its
// own. A mutex, or another value of sync's or sync/atomic's types, stays behind and
// arrives as new.
//
// An any carries whatever can travel, but not its type: a struct arrives as
// map[string]any, and an integer in the narrowest type that holds it, so that 7
// arrives as an int8 and 200 as a uint8. Use types where you can.
//
// An input is encoded when its turn comes, so inputs must not be changed until the
// call is done.
//
// # Pools
//
// A [Pool] is a number of worker processes. They start when the first function is
// run, and the first one that is up begins to work. Any number of goroutines may
// use a pool; their calls share it fairly.
//
//	func estimate(ctx context.Context, pool *fiber.Pool, w window) error {
//		one, err := fiber.Apply(ctx, pool, density, w)
//		if err != nil {
//			return err
//		}
//		later := fiber.ApplyAsync(ctx, pool, density, w)
//		many, err := fiber.Map(ctx, pool, density, []window{w, w, w})
//		if err != nil {
//			return err
//		}
//		again, err := later.Get(ctx)
//		fmt.Println(one, many, again)
//		return err
//	}
//
// [Apply] runs a function once and waits. [ApplyAsync] returns a [Future] at once,
// which can be cancelled; [Wait] and [AsCompleted] wait for many of them.
// [Map] runs a function on each element of a slice and returns the results in the
// order of the slice; [MapAsync] does so with a future. [WithInitializer] names a
// function that each worker runs once, before its first task; [WithState] opens what a
// worker keeps, an environment say, and closes it at the worker's end.
//
// A worker runs one task at a time, unless [WithConcurrency] says otherwise. It
// serves until the pool is closed, or until [WithMaxTasksPerChild] replaces it.
// [WithAutoscale] starts workers when work waits and ends idle ones; [Pool.Resize]
// changes their number by hand.
//
// Each worker has a name of its own in the program, such as Pool1Worker-3;
// [WithName] replaces the Pool1Worker. Errors and the log use the name, ps and top
// show it, and the names of containers and pods contain it.
//
// [Pool.Close] finishes the work that the pool has and ends the workers; every
// NewPool needs one. [Pool.Shutdown] is a Close that ends with its context.
// [Pool.Terminate] does not wait for the work.
//
// # Chunks
//
// Short tasks are handed to workers several at a time: a message for each would
// cost more than the work. Fiber measures how many. The first tasks are handed out
// one by one, and so are long ones; of short ones, as many go together as run for
// about four milliseconds, but never so many that workers run out of work at
// different times.
//
// [ChunkSize] sets the number instead. That pays only where Fiber cannot know
// better, for instance when the length of tasks varies wildly. ChunkSize(1) costs
// little: several chunks of very short tasks still travel together. Tasks of a
// chunk that have not started may move to an idle worker, so four tasks of a
// second never share a worker while another has none, whatever their chunk.
//
// Calls share the workers; [Priority] puts one before others. [Seed] and [TaskSeed] are
// for random numbers that do not depend on which worker runs what, and when.
//
// # Streams
//
// [IMap] reads its inputs from an iterator and yields results as it goes. It reads
// only as far ahead as keeps the workers busy, so the input may be endless, and
// memory stays bounded.
//
//	func search(ctx context.Context, pool *fiber.Pool) (int, error) {
//		numbers := func(yield func(int) bool) {
//			for n := 1; yield(n); n++ {
//			}
//		}
//		for square, err := range fiber.IMap(ctx, pool, square, numbers) {
//			if err != nil {
//				return 0, err // or go on: the next task is not affected
//			}
//			if square > 1000 {
//				return square, nil // leaving the loop cancels the rest
//			}
//		}
//		return 0, nil
//	}
//
// Results come in the order of the inputs; [IMapUnordered] yields each as soon as
// it is there. A task that fails yields its error in its place. [Results] yields more
// of each task: its input, its output and its error, its worker, time and attempts.
//
//	func failures(ctx context.Context, pool *fiber.Pool, windows iter.Seq[window]) (bad []window, err error) {
//		for r, err := range fiber.Results(ctx, pool, density, windows) {
//			if err != nil {
//				return bad, err // the call's own error, such as ctx's
//			}
//			if r.Err != nil {
//				bad = append(bad, r.In)
//			}
//		}
//		return bad, nil
//	}
//
// # Cancellation
//
// A call returns as soon as its context ends. In the workers the contexts of its
// tasks end, and tasks that have not started never will. An operation on an object
// in another process, such as a queue, a lock or a [Shared] value, may return up to
// a second after its context if that process does not answer. Its error then is
// [ErrUnknownOutcome], too, if the operation may still be carried out; with the
// context's error alone, it was not and will not be.
//
//	func impatient(ctx context.Context, pool *fiber.Pool) error {
//		ctx, cancel := context.WithTimeout(ctx, time.Minute)
//		defer cancel()
//		_, err := fiber.Map(ctx, pool, square, make([]int, 1000), fiber.Timeout(time.Second))
//		if errors.Is(err, context.DeadlineExceeded) {
//			return errors.New("too slow: a task took a second, or all of them a minute")
//		}
//		return err
//	}
//
// [Timeout] bounds each task, from its start in a worker. A function that ignores
// its context goes on in its worker, but its call does not wait for it. When other
// work has to wait for that worker, the worker is replaced after five seconds
// (Config.CancelGrace).
//
// # Failure
//
// Errors are told apart by [errors.As]:
//
//	func explain(err error) string {
//		var task *fiber.TaskError
//		var remote *fiber.RemoteError
//		var lost *fiber.WorkerLostError
//		var launch *fiber.LaunchError
//		if errors.As(err, &task) {
//			fmt.Println("input", task.Index, "at attempt", task.Attempt)
//		}
//		switch {
//		case errors.As(err, &remote):
//			return "the function failed: " + remote.Message
//		case errors.As(err, &lost):
//			return "its process died each time: " + lost.Error()
//		case errors.As(err, &launch):
//			return "no process can be started: " + launch.Error()
//		}
//		return "cancelled, closed, or wrongly called: " + err.Error()
//	}
//
// An error that a function returns comes back as a [RemoteError], and so does a
// panic, which does not end its worker. [Retries] has such a task tried again, after a
// pause and on another worker; without it, no failure is. A task that returns
// [ErrReplaceWorker] has its worker replaced. [RegisterError]
// makes a sentinel known to all processes, so that [errors.Is] finds it in a
// RemoteError, and [RegisterErrorType] a type, for errors.As; io.EOF,
// context.Canceled and the like are found anyway.
// An error's text is one line. With %+v, fmt prints the stack of a panic and the
// last lines of a lost process as well, and so does [Main].
//
//	var errNegative = fiber.RegisterError(errors.New("negative"))
//
// When tasks of a Map fail, it returns the error of the failed task with the
// lowest index, a [TaskError], and the results of the tasks before it. Tasks behind
// that one are cancelled, and those before it are waited for, so that the same
// failures lead to the same error every time.
//
// A worker that dies, for whatever reason, is replaced, and its tasks go to
// others. Those that had started may be to blame, so each of them runs again in a
// worker that holds nothing else. A loss counts against a task only when the task
// ran alone; at the third loss it fails with a [WorkerLostError], while all others
// go on. [WithMaxAttempts] sets another number.
//
// So a task may run more than once: its result is delivered once, but its side
// effects may happen twice. Where that is wrong, WithMaxAttempts(1) never runs a
// task again that was started; the others still go to other workers.
//
// # Processes
//
// A [Process] runs one function and ends. [Go] does the same and returns a future of
// the function's result.
//
//	func supervise(ctx context.Context) error {
//		p := fiber.NewProcess(square, 12, fiber.WithName("squarer"))
//		if err := p.Start(ctx); err != nil {
//			return err
//		}
//		fmt.Println(p.Name(), "runs as", p.ID())
//		return p.Join(ctx)
//	}
//
// [Process.Join] returns nil when the function returned nil, a RemoteError when it
// failed, and an [ExitError], with the exit code or signal and the last lines of
// stderr, when the process ended otherwise, by os.Exit(0) for example. [Process.Terminate] cancels the
// function's context and gives it a second to return (half of
// Config.ShutdownGrace); [Process.Kill] does not wait.
//
// Every process may start others, and make pools. The processes form a tree, and
// none outlives the one that started it, even if that one is killed, or the
// process itself is stopped.
//
// What a process writes to stdout and stderr comes out of the root's, line by
// line, with the name of the process in front. The end of it is kept for
// [Process.Logs], without the name. Config.LogPrefix turns the names off,
// Config.ForwardLogs the output. A process has the program's arguments,
// environment and working directory; its stdin is empty.
//
// # Large values
//
// An argument is sent with each task. A large value that many tasks need is better
// shared: [Share] keeps the value where it is, its name travels with the tasks,
// and each worker fetches it once.
//
//	type query struct {
//		Table *fiber.Shared[[]float64]
//		Index int
//	}
//
//	var look = fiber.Register("look", func(ctx context.Context, q query) (float64, error) {
//		table, err := q.Table.Get(ctx)
//		if err != nil {
//			return 0, err
//		}
//		return table[q.Index], nil
//	})
//
//	func lookUp(ctx context.Context, pool *fiber.Pool, table []float64) ([]float64, error) {
//		shared, err := fiber.Share(ctx, table)
//		if err != nil {
//			return nil, err
//		}
//		defer shared.Close() // the workers forget it, too
//		return fiber.Map(ctx, pool, look, []query{{shared, 0}, {shared, 1}})
//	}
//
// All tasks of a worker get the same value, so it must not be changed. The workers of
// a machine read large slices of numbers in place, in memory that they share; those of
// different machines pass a large value on to each other. A Shared may also be returned,
// or put into a queue: the value stays in the process that shared it, until it is closed
// or no process has it any more. When that process ends in order, the value moves to the
// main process. With [WithCopies], it survives a crash, too.
//
// So tasks can return results that are too large to bring them all here, and [Reduce]
// combines them where they are, two at a time, until one is left:
//
//	type histogram = []int
//
//	var add = fiber.Register("add", func(ctx context.Context, pair [2]*fiber.Shared[histogram]) (*fiber.Shared[histogram], error) {
//		a, err := pair[0].Get(ctx)
//		if err != nil {
//			return nil, err
//		}
//		b, err := pair[1].Get(ctx)
//		if err != nil {
//			return nil, err
//		}
//		sum := slices.Clone(a)
//		for i, n := range b {
//			sum[i] += n
//		}
//		return fiber.Share(ctx, sum)
//	})
//
//	func sum(ctx context.Context, pool *fiber.Pool, parts []*fiber.Shared[histogram]) (histogram, error) {
//		total, err := fiber.Reduce(ctx, pool, add, parts)
//		if err != nil {
//			return nil, err
//		}
//		defer total.Close()
//		return total.Get(ctx) // it has not been here before
//	}
//
// The whole program is examples/word_count. Values of more memory than
// Config.ShareMemory allows lie on disk.
//
// # Queues
//
// A [SimpleQueue] carries values between any processes. It lives in the process
// that made it, and travels as an argument, a result or an item. It is kept alive
// on its way, however long that takes. The one exception is a type with an
// encoding of its own, such as EncodeMsgpack: Fiber does not see a queue in there,
// so the sender has to keep the queue until the value has arrived.
//
//	type stage struct{ In, Out *fiber.SimpleQueue[int] }
//
//	var double = fiber.Register("double", func(ctx context.Context, s stage) (n int, err error) {
//		for x, err := range s.In.Items(ctx) { // until the queue is closed and empty
//			if err != nil {
//				return n, err
//			}
//			if err := s.Out.Put(ctx, 2*x); err != nil {
//				return n, err
//			}
//			n++
//		}
//		return n, nil
//	})
//
//	func pipeline(ctx context.Context) error {
//		in, err := fiber.NewSimpleQueue[int]()
//		if err != nil {
//			return err
//		}
//		out, err := fiber.NewSimpleQueue[int](fiber.WithCapacity(100))
//		if err != nil {
//			return err
//		}
//		var workers []*fiber.Future[int]
//		for range 4 {
//			workers = append(workers, fiber.Go(ctx, double, stage{in, out}))
//		}
//		if err := in.PutMany(ctx, []int{1, 2, 3}); err != nil {
//			return err
//		}
//		for range 3 {
//			x, err := out.Get(ctx)
//			if err != nil {
//				return err
//			}
//			fmt.Println(x)
//		}
//		in.Close()
//		for _, w := range workers {
//			if _, err := w.Get(ctx); err != nil {
//				return err
//			}
//		}
//		return nil
//	}
//
// When Put has returned, the item is safe in the queue. Each item goes to one
// consumer, which asks for it by Get: none holds items that others could work on.
// If the consumer dies before Get has returned, the item goes back to the front of
// the queue. Once the queue is closed and empty, Get returns [ErrClosed], which is
// where a loop over [SimpleQueue.Items] ends. [SimpleQueue.TryGet] does not wait. Many
// items go faster together: [SimpleQueue.PutMany], [SimpleQueue.GetMany].
//
// # Pipes
//
// A [Pipe] has two ends, for two processes to talk. An end that is sent to a
// process belongs to that process from then on.
//
//	var answer = fiber.Register("answer", func(ctx context.Context, c *fiber.Conn[string]) (n int, err error) {
//		for question, err := range c.Items(ctx) { // until the other end is closed, or its process has died
//			if err != nil {
//				return n, err
//			}
//			if err := c.Send(ctx, question+"!"); err != nil {
//				return n, err
//			}
//			n++
//		}
//		return n, nil
//	})
//
//	func talk(ctx context.Context) error {
//		here, there, err := fiber.Pipe[string]()
//		if err != nil {
//			return err
//		}
//		defer here.Close()
//		answered := fiber.Go(ctx, answer, there)
//		if err := here.Send(ctx, "hello"); err != nil {
//			return err
//		}
//		reply, err := here.Recv(ctx)
//		if err != nil {
//			return err
//		}
//		here.Close()
//		n, err := answered.Get(ctx)
//		fmt.Println(reply, n)
//		return err
//	}
//
// [PipeOneWay] makes one end that sends and one that receives. Recv returns io.EOF
// where the loop over [Conn.Items] ends.
//
// # Managers
//
// A [Manager] is a process that holds objects, which other processes use through
// proxies. Types and methods are registered, like functions:
//
//	type env struct{ position, steps int }
//
//	func (e *env) Step(ctx context.Context, move int) (int, error) {
//		e.position += move
//		e.steps++
//		return e.position, nil
//	}
//
//	var (
//		envs = fiber.RegisterType("env", func(ctx context.Context, start int) (*env, error) {
//			return &env{position: start}, nil
//		})
//		step = fiber.RegisterMethod("step", (*env).Step)
//	)
//
//	func simulate(ctx context.Context) error {
//		m, err := fiber.NewManager(ctx)
//		if err != nil {
//			return err
//		}
//		defer m.Close()
//		e, err := fiber.NewObject(ctx, m, envs, 10)
//		if err != nil {
//			return err
//		}
//		position, err := fiber.Call(ctx, e, step, 1)
//		if err != nil {
//			return err
//		}
//		later := fiber.CallAsync(ctx, e, step, -1)
//		again, err := later.Get(ctx)
//		fmt.Println(position, again)
//		return err
//	}
//
// The calls on one object run one after another, unless its type is registered
// with [WithConcurrentCalls]. A [Proxy] travels anywhere; its object lives as long as
// any process has one. A method's error or panic comes back as a RemoteError. When
// the manager's process dies, all calls return a WorkerLostError.
//
// Managers also hold the types that Python's have: [Dict], [List], [Namespace],
// [Value], [Array], [Queue], [JoinableQueue], and, to synchronise processes,
// [Lock], [RLock], [Semaphore], [BoundedSemaphore], [Event], [Condition] and
// [Barrier].
//
//	var count = fiber.Register("count", func(ctx context.Context, words *fiber.Dict[string, int]) (int, error) {
//		return words.Update(ctx, "total", func(n int, _ bool) (int, error) { return n + 1, nil })
//	})
//
//	func tally(ctx context.Context, m *fiber.Manager, pool *fiber.Pool) error {
//		words, err := fiber.NewDict[string, int](ctx, m)
//		if err != nil {
//			return err
//		}
//		for range 10 {
//			if _, err := fiber.Apply(ctx, pool, count, words); err != nil {
//				return err
//			}
//		}
//		n, _, err := words.Get(ctx, "total")
//		fmt.Println(n)
//		return err
//	}
//
// Get returns a copy: to change the value in the manager, set it. Update needs no
// lock: it runs its function in the calling process, and runs it again if another
// process has changed the value meanwhile. [Value.Watch] yields a value and then
// each newer one: a learner sets its weights there, for all actors to see. A lock
// whose holder dies goes to the next process that asks, with [ErrAbandoned].
//
// # Rings
//
// A ring is a number of processes, its ranks, that work on one thing together.
// Each is connected to its neighbours:
//
//	var descend = fiber.RegisterRing("descend", nil, func(ctx context.Context, node *fiber.RingNode, rounds int) error {
//		gradient := make([]float32, 1000)
//		for range rounds {
//			gradient[0] = float32(node.Rank()) // from this rank's share of the data
//			if err := fiber.AllReduce(ctx, node, gradient, fiber.Mean); err != nil {
//				return err
//			}
//		}
//		return nil
//	})
//
//	func trainTogether(ctx context.Context) error {
//		return fiber.NewRing(4, descend).Run(ctx, 10)
//	}
//
// All ranks call [AllReduce], [Broadcast], [AllGather], [ReduceScatter] and
// [RingNode.Barrier] in the same order. Each rank moves as little data as possible, whatever
// the number of ranks. When a rank fails, the others get an error that names it,
// and [Ring.Run] returns that error. [RingNode.TorchEnv] is for frameworks that
// bring their own collectives.
//
// # Resources
//
// The resources that a function needs are registered with it:
//
//	var train = fiber.Register("train", func(ctx context.Context, seed int) (float64, error) {
//		return float64(seed), nil
//	}, meta.CPU(2), meta.Memory(4000), meta.GPU(1))
//
// On this machine CPU becomes GOMAXPROCS. Memory is in MiB: nine tenths of it
// become GOMEMLIMIT, and a process that has more than all of it in memory is killed,
// with a reason that says so; what it shares with other processes does not count. The root hands out GPU devices through
// CUDA_VISIBLE_DEVICES, so that no two processes share one. A start waits until
// enough are free; asking for more than there are is an error.
//
// A pool's workers have the resources of [WithMeta], or else those of the first
// function that needs any: workers that were started without them are then
// replaced. A function that needs nothing runs in any pool. Functions whose
// resources differ from the pool's are rejected, with an error that says so.
//
// # Configuration
//
// Nothing has to be configured. [Config] lists what can be, and docs/config.md all
// keys. Code wins over FIBER_ environment variables, and these over a file
// .fiberconfig in the working directory.
//
//	func start() error {
//		return fiber.Init(fiber.Config{
//			HeartbeatTimeout: time.Minute,
//			MaxMessage:       64 * fiber.MiB,
//			ForwardLogs:      fiber.Off,
//		})
//	}
//
// A wrong value is an error before anything starts, whatever its source. All
// processes have the root's configuration.
//
// Config.Logger, a [log/slog.Logger], gets Fiber's own messages: that a worker was
// lost, or waits for a machine. Those of other processes arrive in the root, too,
// with the process's name as the attribute "from".
//
// # What happens
//
// [Events], and [Pool.Events] for one pool, yield what happens: calls and their
// tasks, workers and why they were lost, what waits, shared objects. The package
// event lists it all.
//
//	func watch(ctx context.Context, pool *fiber.Pool) {
//		for e, err := range pool.Events(ctx) {
//			if err != nil {
//				return
//			}
//			switch what := e.What.(type) {
//			case event.WorkerEnded:
//				if what.Lost {
//					fmt.Println(what.Worker, "was lost:", what.Reason)
//				}
//			case event.CallEnded:
//				fmt.Println(what.Func, "has run", what.Done, "of", what.Tasks, "tasks")
//			}
//		}
//	}
//
// A loop that is slow delays nobody; it misses some events, and hears how many.
//
// # Elsewhere
//
// With FIBER_BACKEND set to docker, the same program runs its processes as
// containers. Set to kubernetes, it runs them as pods of a cluster, the root
// included: outside of a cluster, Main puts the program there, with the same
// arguments, and ends as it does there. Nothing is deployed for that. The
// executable becomes an image, which Fiber pushes to, and the nodes pull from, the
// registry that FIBER_REGISTRY names.
//
// Pools, queues, managers and rings work there as on one machine. Files do not: a
// process elsewhere has none of this machine's. For the rest, see docs/docker.md
// and docs/kubernetes.md, and docs/cli.md for the command fiber, which builds
// programs for a cluster and looks after them.
//
// # Tests
//
// The tests of a package that uses Fiber are a program, too, which Fiber starts
// again for each process. So their TestMain begins with Init:
//
//	func TestMain(m *testing.M) {
//		if err := fiber.Init(); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//		code := m.Run()
//		if err := fiber.Shutdown(context.Background()); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			code = 1
//		}
//		os.Exit(code)
//	}
//
// A function that does not depend on processes can be tested without any:
// [Func.Call] runs it in the calling process.
package fiber
