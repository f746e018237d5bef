/*
Package fiber runs ordinary functions as processes, with the interface of
Python's multiprocessing: pools that map a function over many inputs, and
single processes that are started, joined and killed. A worker that dies takes
down neither the program nor the result.

Fiber is a library and nothing else: there is no server, nothing is deployed,
and no code is generated or sent. The processes that it starts are the program
itself once more.

# A program

A program hands over to [Main], first thing:

	package main

	import (
		"context"
		"fmt"

		"github.com/fiber-go/fiber"
	)

	var square = fiber.Register("square", func(ctx context.Context, x int) (int, error) {
		return x * x, nil
	})

	func main() { fiber.Main(run) }

	func run(ctx context.Context) error {
		pool, err := fiber.NewPool(4)
		if err != nil {
			return err
		}
		defer pool.Close()
		squares, err := fiber.Map(ctx, pool, square, []int{1, 2, 3})
		if err != nil {
			return err
		}
		fmt.Println(squares)
		return nil
	}

In the first process Main calls run. In the processes that Fiber starts it
never does: there it does the work that the process was started for, and exits.
Both get as far as Main, so nothing that has an effect belongs before it:
no flags that do something, no files, no servers, and no such things in package
initialisers either. What run sets, a parsed flag or a loaded table, is not set
in the other processes; they get what they need as arguments.

The context that run gets ends at Ctrl-C or SIGTERM. Main exits with 0 when
run returns nil, with 1 when it returns an error, which it prints, and with
128+n when signal n ended the program. Everything that was started is gone by
then.

A program whose main belongs to somebody else calls [Init] first thing and
[Shutdown] last instead. Starting anything in a program that does neither is
[ErrNotInitialized].

# Functions

A function that other processes can run is made by [Register], in a package
variable, so that it is there in every process before anything else happens.
It takes a context and one argument, and gives one result and an error.
Several arguments are a struct:

	type window struct {
		Samples []float64
		Centre  float64
		Width   float64
	}

	var density = fiber.Register("density", func(ctx context.Context, w window) (float64, error) {
		n := 0
		for _, x := range w.Samples {
			if x > w.Centre-w.Width/2 && x < w.Centre+w.Width/2 {
				n++
			}
		}
		return float64(n) / float64(len(w.Samples)) / w.Width, nil
	})

A function is found in the other process by its name. The two compare their
builds and their tables of functions when they meet, and a process that does
not fit is a [MismatchError], not a wrong result.

Arguments and results travel as msgpack: numbers, strings, bools, times,
slices, arrays, maps, pointers, and the exported fields of structs, with
msgpack tags if there are any. Slices of numbers, at any depth, are copied as
the bytes that they are. A type with its own binary, text or msgpack encoding
keeps it. Register refuses types that cannot travel, such as a struct with a
channel in it; a value that cannot, such as a cycle of pointers, is an
[EncodeError] that says where.

An any takes whatever can travel, but its type does not: a struct arrives as
map[string]any, and an integer in the narrowest type that holds it, so that 7
is an int8 there and 200 a uint8. Use types where you can.

An input is encoded when its turn comes. Until the call is done, inputs are not
to be changed.

# Pools

A [Pool] is a number of worker processes. They start when the first function
is run, and one that is up is enough to make progress. Any number of goroutines
may use a pool; their calls share it fairly.

	func estimate(ctx context.Context, pool *fiber.Pool, w window) error {
		one, err := fiber.Apply(ctx, pool, density, w)
		if err != nil {
			return err
		}
		later := fiber.ApplyAsync(ctx, pool, density, w)
		many, err := fiber.Map(ctx, pool, density, []window{w, w, w})
		if err != nil {
			return err
		}
		again, err := later.Get(ctx)
		fmt.Println(one, many, again)
		return err
	}

[Apply] runs a function once and waits. [ApplyAsync] gives a [Future] at once.
[Map] runs it on each element of a slice and gives the results in their order;
[MapAsync] is the same with a future. [WithInitializer] has something run once
in each worker, before its first task.

A function runs in its worker alone, one task after the other, unless
[WithConcurrency] says otherwise. A worker serves until the pool is closed,
unless [WithMaxTasksPerChild] replaces it before. [WithAutoscale] starts
workers when work waits and ends those that idle; [Pool.Resize] changes their
number by hand.

A worker has a name that no other one of the program has, such as
Pool1Worker-3, or what [WithName] says in the place of Pool1Worker. Errors and
the log use it, ps and top show it, and the names of containers and pods
contain it.

[Pool.Close] finishes what the pool has and ends the workers; it belongs
behind every NewPool. [Pool.Terminate] does not wait for the work.

# Chunks

Tasks are handed to workers several at a time when they are short: a message
for each would cost more than the work. How many is found out by measuring.
The first are handed out singly, long ones always are, and of short ones as
many go together as run for about four milliseconds, but never so many that
workers run out of work at different times.

[ChunkSize] sets the number instead. It is worth it only where Fiber cannot
know better, for instance when the length of tasks varies wildly, and
ChunkSize(1) costs less than one might think: of tasks known to be very short
several chunks still travel together. A chunk binds nobody for long: when a
worker is idle, what others have not started is taken back from them and given
to it. So four tasks of a second never share a worker while another has none,
whatever their chunk.

# Streams

[IMap] reads its input from an iterator and yields results while it goes on.
It is lazy on both sides: it reads only as far ahead as keeps the workers busy,
so the input may be endless, and memory stays bounded.

	func search(ctx context.Context, pool *fiber.Pool) (int, error) {
		numbers := func(yield func(int) bool) {
			for n := 1; yield(n); n++ {
			}
		}
		for square, err := range fiber.IMap(ctx, pool, square, numbers) {
			if err != nil {
				return 0, err // or go on: the next task is not affected
			}
			if square > 1000 {
				return square, nil // leaving the loop cancels the rest
			}
		}
		return 0, nil
	}

Results come in the order of the inputs; [IMapUnordered] yields them as they
come, which is sooner. A task that fails yields its error in its place.

# Cancellation

A call ends when its context does, and returns at once. The contexts of its
tasks end in the workers, and tasks that were not started never are.

	func impatient(ctx context.Context, pool *fiber.Pool) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := fiber.Map(ctx, pool, square, make([]int, 1000), fiber.Timeout(time.Second))
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.New("too slow: a task took a second, or all of them a minute")
		}
		return err
	}

[Timeout] is for each task, from its start in a worker. A function that does
not look at its context goes on in its worker, but nobody waits for it: when
other work has to wait for that worker, it is replaced after five seconds
(Config.CancelGrace).

# Failure

Errors are told apart by [errors.As]:

	func explain(err error) string {
		var remote *fiber.RemoteError
		var lost *fiber.WorkerLostError
		var launch *fiber.LaunchError
		switch {
		case errors.As(err, &remote):
			return "the function failed: " + remote.Message
		case errors.As(err, &lost):
			return "its process died each time: " + lost.Error()
		case errors.As(err, &launch):
			return "no process can be started: " + launch.Error()
		}
		return "cancelled, closed, or wrongly called: " + err.Error()
	}

An error that a function returns, and a panic, come back as a [RemoteError].
They are never retried. A panic does not end its worker. [RegisterError] makes
a sentinel known to all processes, so that [errors.Is] finds it in a
RemoteError; context.Canceled and context.DeadlineExceeded are found anyway.

	var errNegative = fiber.RegisterError(errors.New("negative"))

When tasks of a Map fail, its error is that of the failed task with the lowest
index. The tasks behind it are cancelled, those before it are waited for, so
that the same failures give the same error every time.

A worker that dies, whatever the reason, is replaced, and what it held is given
to others. Tasks that had not begun are not affected. Those that had may be to
blame, so each runs again in a worker that holds nothing else. A loss counts
against a task only when it ran alone; at the third it fails with a
[WorkerLostError], while all others go on. [WithMaxAttempts] sets another
number.

So a task may run more than once: its result is delivered once, but what else
it does may be done twice. For functions where that is wrong, WithMaxAttempts(1)
never runs a task again that was started; those that were not are still given
to others.

# Processes

A [Process] runs one function and ends.

	func supervise(ctx context.Context) error {
		p := fiber.NewProcess(square, 12, fiber.ProcessName("squarer"))
		if err := p.Start(ctx); err != nil {
			return err
		}
		fmt.Println(p.Name(), "runs as", p.ID())
		return p.Join(ctx)
	}

[Process.Join] gives nil when the function returned nil, a RemoteError when it
failed, and an [ExitError], with the exit code or signal and the last lines of
stderr, when the process ended otherwise. [Process.Terminate] cancels the
function's context and gives it a second; [Process.Kill] does not wait.

Every process may start others, and make pools. The processes form a tree, and
none outlives the one that started it: not when that is killed, and not when
it is stopped itself.

What a process writes to stdout and stderr comes out of those of the main
process, line by line, with the name of its process in front; the end of it is
kept for [Process.Logs], without the name. Config.LogPrefix leaves the names out,
Config.ForwardLogs all of it. Its stdin is empty. It has the program's
arguments, environment and working directory.

# Sharing large values

An argument is sent with each task. A large one that many tasks need is shared
instead: [Share] keeps it where it is, its name travels with the tasks, and
each worker fetches it once.

	type query struct {
		Table *fiber.Shared[[]float64]
		Index int
	}

	var look = fiber.Register("look", func(ctx context.Context, q query) (float64, error) {
		table, err := q.Table.Get(ctx)
		if err != nil {
			return 0, err
		}
		return table[q.Index], nil
	})

	func lookUp(ctx context.Context, pool *fiber.Pool, table []float64) ([]float64, error) {
		shared, err := fiber.Share(ctx, table)
		if err != nil {
			return nil, err
		}
		defer shared.Close() // the workers forget it, too
		return fiber.Map(ctx, pool, look, []query{{shared, 0}, {shared, 1}})
	}

All tasks of a worker get the same value, which therefore must not be changed.

# Queues

A [SimpleQueue] carries values between any processes. It travels as an
argument, and lives in the process that made it. On its way it is kept, however
long that takes. Only inside the encoding of a type that has its own, an
EncodeMsgpack say, it is not seen: whoever sends such a value keeps it until it
has arrived.

	type stage struct{ In, Out *fiber.SimpleQueue[int] }

	var double = fiber.Register("double", func(ctx context.Context, s stage) (int, error) {
		for n := 0; ; n++ {
			x, err := s.In.Get(ctx)
			if errors.Is(err, fiber.ErrClosed) {
				return n, nil // there is no more to do
			}
			if err != nil {
				return n, err
			}
			if err := s.Out.Put(ctx, 2*x); err != nil {
				return n, err
			}
		}
	})

	func pipeline(ctx context.Context) error {
		in, err := fiber.NewSimpleQueue[int]()
		if err != nil {
			return err
		}
		out, err := fiber.NewSimpleQueue[int](fiber.WithCapacity(100))
		if err != nil {
			return err
		}
		for range 4 {
			if err := fiber.NewProcess(double, stage{in, out}).Start(ctx); err != nil {
				return err
			}
		}
		if err := in.PutMany(ctx, []int{1, 2, 3}); err != nil {
			return err
		}
		for range 3 {
			x, err := out.Get(ctx)
			if err != nil {
				return err
			}
			fmt.Println(x)
		}
		return in.Close()
	}

When Put has returned, the item is safe in the queue. Get hands it to one
consumer, who asks for it: nobody has items that he is not working on. If he
dies before Get has returned, the item goes back to the front. When the queue
was closed and the last item is gone, Get has [ErrClosed]. Many items go
faster together: [SimpleQueue.PutMany], [SimpleQueue.GetMany].

# Pipes

A [Pipe] joins two ends, for two processes to talk. An end that is given to a
process is that process's from then on.

	var answer = fiber.Register("answer", func(ctx context.Context, c *fiber.Conn[string]) (int, error) {
		for n := 0; ; n++ {
			question, err := c.Recv(ctx)
			if errors.Is(err, io.EOF) {
				return n, nil // the other end is closed, or its process has died
			}
			if err != nil {
				return n, err
			}
			if err := c.Send(ctx, question+"!"); err != nil {
				return n, err
			}
		}
	})

	func talk(ctx context.Context) error {
		here, there, err := fiber.Pipe[string]()
		if err != nil {
			return err
		}
		defer here.Close()
		p := fiber.NewProcess(answer, there)
		if err := p.Start(ctx); err != nil {
			return err
		}
		if err := here.Send(ctx, "hello"); err != nil {
			return err
		}
		reply, err := here.Recv(ctx)
		fmt.Println(reply)
		return err
	}

[PipeOneWay] has one end that sends and one that receives.

# Managers

A [Manager] is a process in which objects live that others use through
proxies. Its types and methods are registered, like functions:

	type env struct{ position, steps int }

	func (e *env) Step(ctx context.Context, move int) (int, error) {
		e.position += move
		e.steps++
		return e.position, nil
	}

	var (
		envs = fiber.RegisterType("env", func(ctx context.Context, start int) (*env, error) {
			return &env{position: start}, nil
		})
		step = fiber.RegisterMethod("step", (*env).Step)
	)

	func simulate(ctx context.Context) error {
		m, err := fiber.NewManager(ctx)
		if err != nil {
			return err
		}
		defer m.Close()
		e, err := fiber.New(ctx, m, envs, 10)
		if err != nil {
			return err
		}
		position, err := fiber.Call(ctx, e, step, 1)
		if err != nil {
			return err
		}
		later := fiber.CallAsync(ctx, e, step, -1)
		again, err := later.Get(ctx)
		fmt.Println(position, again)
		return err
	}

The calls on one object run one after another, unless its type is registered
with [ConcurrentCalls]. A [Proxy] travels anywhere; its object lives as long as
somebody has one. What a method returns as an error, and its panic, comes back
as a RemoteError. When the manager's process dies, all calls give a
WorkerLostError.

Managers also have objects of Fiber's own, Python's: [Dict], [List],
[Namespace], [Value], [Array], [Queue], [JoinableQueue], and to synchronise
processes [Lock], [RLock], [Semaphore], [BoundedSemaphore], [Event],
[Condition] and [CyclicBarrier].

	var count = fiber.Register("count", func(ctx context.Context, words *fiber.Dict[string, int]) (int, error) {
		return words.Update(ctx, "total", func(n int, _ bool) (int, error) { return n + 1, nil })
	})

	func tally(ctx context.Context, m *fiber.Manager, pool *fiber.Pool) error {
		words, err := fiber.NewDict[string, int](ctx, m)
		if err != nil {
			return err
		}
		for range 10 {
			if _, err := fiber.Apply(ctx, pool, count, words); err != nil {
				return err
			}
		}
		n, _, err := words.Get(ctx, "total")
		fmt.Println(n)
		return err
	}

What Get gives is a copy: changing it changes nothing in the manager, setting
it does. Update, which runs its function here and tries again when somebody
else was faster, needs no lock. A lock whose holder's process dies goes to the
next one who asks, with [ErrAbandoned].

# Rings

A ring is a number of processes, its ranks, that work on one thing together,
each connected to its neighbours:

	var descend = fiber.RegisterRing("descend", nil, func(ctx context.Context, node *fiber.RingNode, rounds int) error {
		gradient := make([]float32, 1000)
		for range rounds {
			gradient[0] = float32(node.Rank()) // from this rank's share of the data
			if err := fiber.AllReduce(ctx, node, gradient, fiber.Mean); err != nil {
				return err
			}
		}
		return nil
	})

	func trainTogether(ctx context.Context) error {
		return fiber.NewRing(4, descend).Run(ctx, 10)
	}

[AllReduce], [Broadcast], [AllGather], [ReduceScatter] and [Barrier] are called
by all ranks in the same order. Each rank moves as little data as can be,
whatever their number. When a rank fails, the others get an error that names
it, and so does [Ring.Run]. [RingNode.TorchEnv] is for frameworks that bring
collectives of their own.

# Resources

What a function needs is registered with it:

	var train = fiber.Register("train", func(ctx context.Context, seed int) (float64, error) {
		return float64(seed), nil
	}, meta.CPU(2), meta.Memory(4000), meta.GPU(1))

On this machine CPU becomes GOMAXPROCS. Memory, in MiB, becomes GOMEMLIMIT at
nine tenths, and a process that has more than all of it resident is ended with
a reason that says so. GPU devices are handed out by the first process of the
tree through CUDA_VISIBLE_DEVICES, so that no two processes share one; a start
waits until enough are free, and asking for more than there are is an error.

A pool's workers have the resources of [WithMeta], or else those of the first
function that needs any: workers that were started without are then replaced. A
function that needs nothing runs in any pool; one that needs others than the
workers have is refused with an error that says so. In which order the functions
come makes no difference to that.

# Configuration

Nothing has to be configured. [Config] lists what can be, and docs/config.md
all keys: in code, where it wins, in FIBER_ environment variables, or in a file
.fiberconfig in the working directory.

	func start() error {
		return fiber.Init(fiber.Config{
			HeartbeatTimeout: time.Minute,
			MaxMessage:       64 * fiber.MiB,
			ForwardLogs:      fiber.Off,
		})
	}

A wrong value is an error before anything starts, whichever source it is in.
The configuration goes along to all processes.

# Elsewhere

The same program runs its processes as containers when FIBER_BACKEND is docker.
When it is kubernetes, they are pods of a cluster, the first one included:
outside of a cluster, Main puts the program there, with the same arguments, and
ends as it does there. Nothing is deployed for that. The executable becomes an
image, which the nodes pull from where FIBER_REGISTRY says.

Pools, queues, managers and rings are then as they are on one machine. Files are
not: a process elsewhere has none of this machine's. docs/docker.md and
docs/kubernetes.md say the rest, and docs/cli.md is about fiber, the command,
which builds programs for a cluster and looks after them.

# Tests

Tests of a package that uses Fiber run in a process that Fiber starts again as
its children, so their TestMain begins with Init:

	func TestMain(m *testing.M) {
		if err := fiber.Init(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		code := m.Run()
		if err := fiber.Shutdown(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}

A function that has nothing to do with processes can be tested without any:
[Func.Call] runs it here.
*/
package fiber
