//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fiber-go/fiber"
)

// Fiber on a backend other than this process's runs in a process of its own,
// which takes commands.

// elsewhereVariable marks that process and names its backend.
const elsewhereVariable = "BENCH_BACKEND"

const (
	// many is how many workers are started at once.
	many = 20
	// lingerers is how many workers stay up for a while, and linger is how
	// long.
	lingerers, linger = 50, time.Minute
)

// serveElsewhere runs the commands on the lines of its stdin and answers each
// with the seconds that it took.
func serveElsewhere(ctx context.Context) error {
	e := elsewhere{ins: make([]int, piSamples), body: make([]byte, echoBytes)}
	defer func() {
		if e.pool != nil {
			e.pool.Close()
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		took, err := e.do(ctx, lines.Text())
		answer := elsewhereAnswer{Seconds: took.Seconds()}
		if err != nil {
			answer.Err = err.Error()
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

type elsewhereAnswer struct {
	Seconds float64
	Err     string
}

// elsewhere is the state of that process.
type elsewhere struct {
	pool *fiber.Pool // warm
	ins  []int
	body []byte

	sharing *sharing
}

func (e *elsewhere) do(ctx context.Context, what string) (took time.Duration, err error) {
	begun := time.Now()
	what, argument, _ := strings.Cut(what, " ")
	switch what {
	case "crowd-task", "crowd-memory":
		size, cost := 0, 0.0
		if size, err = strconv.Atoi(argument); err == nil {
			cost, err = crowdCost(ctx, what, size)
		}
		took = time.Duration(cost * float64(time.Second))
	case "start": // start a process, until Start returns
		p := fiber.NewProcess(same, 1)
		err = p.Start(ctx)
		took = time.Since(begun)
		if err == nil {
			err = p.Join(ctx)
		}
	case "report": // start a process, until its function has dialled back
		var calls *calls
		if calls, err = listenForCalls(); err != nil {
			return 0, err
		}
		defer calls.end()
		begun = time.Now()
		p := fiber.NewProcess(callBack, calls.address())
		if err = p.Start(ctx); err == nil {
			err = calls.wait(ctx, 1)
			took = time.Since(begun)
			calls.end()
			err = errors.Join(err, p.Join(ctx))
		}
	case "up":
		var pool *fiber.Pool
		if pool, err = fiber.NewPool(many); err == nil {
			err = pool.WaitUntilWorkersUp(ctx)
			took = time.Since(begun)
			pool.Close()
		}
	case "linger":
		err = lingerOn(ctx)
		took = time.Since(begun)
	case "pi", "pi-anywhere", "echo":
		if err = e.warm(ctx, map[string]int{"echo": 1}[what]); err != nil {
			return 0, err
		}
		begun = time.Now()
		switch what {
		case "pi":
			err = mapPi(ctx, e.pool, inside, e.ins)
		case "pi-anywhere":
			err = mapPi(ctx, e.pool, insideAnywhere, e.ins)
		case "echo":
			_, err = fiber.Apply(ctx, e.pool, sameBytes, e.body)
		}
		took = time.Since(begun)
	case "share", "copy":
		if e.sharing == nil {
			if e.sharing, err = openSharing(ctx, new(match), shareContainers, countUp(sharedNumbers), perPage); err != nil {
				return 0, err
			}
			e.pool = e.sharing.pool
		}
		work := e.sharing.run
		if what == "copy" {
			work = e.sharing.copyAndTrips
		}
		var seconds float64
		seconds, err = work(ctx, 1)
		took = time.Duration(seconds * float64(time.Second))
	case "spread":
		if err = e.warm(ctx, many); err != nil {
			return 0, err
		}
		var sent int64
		numbers := countUp(sharedNumbers)
		sent, err = (&sharing{e.pool, readAnywhere, many, numbers, perPage, addUp(numbers, perPage)}).sent(ctx)
		took = time.Duration(sent) * time.Second
	case "checkpoint":
		if err = e.warm(ctx, 0); err == nil {
			begun = time.Now()
			_, err = fiber.Map(ctx, e.pool, same, make([]int, checkpointTasks), fiber.Checkpoint(completeCheckpoint))
			took = time.Since(begun)
		}
	default:
		err = fmt.Errorf("unknown command %q", what)
	}
	return took, err
}

// warm starts the pool, unless it is up; workers 0 means the four of the Pi
// program.
func (e *elsewhere) warm(ctx context.Context, workers int) (err error) {
	if e.pool != nil {
		return nil
	}
	if workers == 0 {
		workers = 4
	}
	if e.pool, err = fiber.NewPool(workers); err != nil {
		return err
	}
	return e.pool.WaitUntilWorkersUp(ctx)
}

// lingerOn keeps workers up for a while and gives each something to do every
// second.
func lingerOn(ctx context.Context) error {
	pool, err := fiber.NewPool(lingerers)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < linger; time.Sleep(time.Second) {
		if _, err := fiber.Map(ctx, pool, insideAnywhere, make([]int, lingerers), fiber.ChunkSize(1)); err != nil {
			return err
		}
	}
	if lost := pool.Stats().WorkersLost; lost > 0 {
		return fmt.Errorf("%d workers were lost", lost)
	}
	return nil
}

// An elsewhereProcess is this process's view of that one.
type elsewhereProcess struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
}

func startElsewhere(dir string, env ...string) (*elsewhereProcess, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &elsewhereProcess{cmd: cmd, in: in, answers: json.NewDecoder(out)}, nil
}

// do runs a command in the process and returns the seconds that it took.
func (e *elsewhereProcess) do(what string) (float64, error) {
	if _, err := fmt.Fprintln(e.in, what); err != nil {
		return 0, err
	}
	var a elsewhereAnswer
	if err := e.answers.Decode(&a); err != nil {
		return 0, err
	}
	if a.Err != "" {
		return 0, errors.New(a.Err)
	}
	return a.Seconds, nil
}

// close ends the process and waits until it has ended.
func (e *elsewhereProcess) close() error {
	e.in.Close()
	return e.cmd.Wait()
}

// elsewhereFor starts that process, for as long as the match.
func elsewhereFor(m *match, env ...string) (*elsewhereProcess, error) {
	e, err := startElsewhere("", env...)
	if err == nil {
		m.closing(func() { e.close() })
	}
	return e, err
}

// openElsewhere starts that process, for as long as the match, and returns a
// contender's run, which runs a command there n times.
func openElsewhere(m *match, what string, env ...string) (func(context.Context, int) (float64, error), error) {
	e, err := elsewhereFor(m, env...)
	return e.runs(what), err
}

// runs returns a contender's run, which runs a command in the process n times.
func (e *elsewhereProcess) runs(what string) func(context.Context, int) (float64, error) {
	return func(_ context.Context, n int) (total float64, err error) {
		for range n {
			seconds, err := e.do(what)
			if err != nil {
				return 0, err
			}
			total += seconds
		}
		return total, nil
	}
}
