//go:build unix

package fiber_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// started starts a process that is killed when the test ends.
func started[In, Out any](t testing.TB, fn *fiber.Func[In, Out], arg In, opts ...fiber.ProcessOption) *fiber.Process {
	t.Helper()
	p := fiber.NewProcess(fn, arg, opts...)
	require.NoError(t, p.Start(soon(t)))
	t.Cleanup(func() { p.Kill(); <-p.Done() })
	return p
}

func TestProcess(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	p := fiber.NewProcess(mark, marking{File: file, Line: "here"}, fiber.ProcessName("Marker"))
	require.Equal(t, "Marker", p.Name())
	require.False(t, p.Alive())
	require.Empty(t, p.ID())
	require.Zero(t, p.PID())
	require.Nil(t, p.Done())
	_, exited := p.ExitCode()
	require.False(t, exited)
	require.ErrorIs(t, p.Join(soon(t)), fiber.ErrNotStarted)
	_, err := p.Logs(soon(t))
	require.ErrorIs(t, err, fiber.ErrNotStarted)
	require.NoError(t, p.Terminate())
	require.NoError(t, p.Kill())
	require.Empty(t, lines(t, file), "it ran before Start")

	require.NoError(t, p.Start(soon(t)))
	require.Equal(t, strconv.Itoa(p.PID()), p.ID())
	require.NotEqual(t, os.Getpid(), p.PID())
	require.ErrorIs(t, p.Start(soon(t)), fiber.ErrStarted)
	for range 2 {
		require.NoError(t, p.Join(soon(t)))
	}
	<-p.Done()
	require.False(t, p.Alive())
	code, exited := p.ExitCode()
	require.True(t, exited)
	require.Zero(t, code)
	require.False(t, running(p.PID()))
	require.Equal(t, []string{"here"}, lines(t, file))
	require.ErrorIs(t, p.Start(soon(t)), fiber.ErrStarted)
	require.NoError(t, p.Terminate(), "it has ended")
	require.NoError(t, p.Kill(), "it has ended")

	require.Regexp(t, `^Process-[0-9]+$`, fiber.NewProcess(square, 1).Name())
	require.NotEqual(t, fiber.NewProcess(square, 1).Name(), fiber.NewProcess(square, 1).Name())
}

func TestProcessIsAlive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(soon(t))
	p := fiber.NewProcess(nap, time.Hour)
	require.NoError(t, p.Start(ctx))
	cancel() // it bounds the start alone
	require.ErrorIs(t, p.Join(within(t, 200*time.Millisecond)), context.DeadlineExceeded)
	require.True(t, p.Alive())
	require.True(t, running(p.PID()))
	_, exited := p.ExitCode()
	require.False(t, exited)
	select {
	case <-p.Done():
		t.Error("it is done")
	default:
	}
	require.NoError(t, p.Kill())
	require.Error(t, p.Join(soon(t)))
	require.False(t, p.Alive())
}

// ending is a function that ends its process in some way.
var ending = fiber.Register("ending", func(ctx context.Context, how string) (string, error) {
	fmt.Println("to stdout")
	fmt.Fprintln(os.Stderr, "last words")
	switch word, arg, _ := strings.Cut(how, " "); word {
	case "exit":
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "signal":
		n, _ := strconv.Atoi(arg)
		syscall.Kill(os.Getpid(), syscall.Signal(n))
		select {}
	case "goroutine":
		go func() { panic("out of hand") }()
		select {}
	}
	return fail.Call(ctx, how)
})

func TestProcessEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		how     string
		code    int
		message string // of a *RemoteError
		panics  bool
		signal  string // of an *ExitError
		is      error
	}{
		{how: "well", code: 0},
		{how: "exit 0", code: 0},
		{how: "exit 1", code: 1},
		{how: "exit 3", code: 3},
		{how: "exit 255", code: 255},
		{how: "signal 9", code: 137, signal: "killed"},
		{how: "goroutine", code: 2},
		{how: "error", code: 1, message: "it is broken"},
		{how: "sentinel", code: 1, message: "at step 7: diverged", is: errDiverged},
		{how: "context", code: 1, message: "own: context canceled", is: context.Canceled},
		{how: "panic", code: 1, message: "help", panics: true},
		{how: "panic with an error", code: 1, message: "help: diverged", panics: true, is: errDiverged},
		{how: "goexit", code: 1, message: "the function called runtime.Goexit"},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			p := fiber.NewProcess(ending, test.how, fiber.ProcessName("Ending"))
			require.NoError(t, p.Start(soon(t)))
			err := p.Join(soon(t))
			code, exited := p.ExitCode()
			require.True(t, exited)
			require.Equal(t, test.code, code)
			switch {
			case test.message != "":
				var remote *fiber.RemoteError
				require.ErrorAs(t, err, &remote)
				require.Equal(t, test.message, remote.Message)
				require.Equal(t, "ending", remote.Func)
				require.Equal(t, "Ending", remote.Worker)
				require.Equal(t, test.panics, remote.Stack != "")
				if test.panics {
					require.Contains(t, remote.Stack, "failure_test.go", "the stack does not show where")
				}
			case test.code != 0:
				var exit *fiber.ExitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, "Ending", exit.Name)
				require.Equal(t, p.ID(), exit.ID)
				require.Equal(t, test.code, exit.Code)
				require.Equal(t, test.signal, exit.Signal)
				require.NotEmpty(t, exit.Stderr)
				if test.how == "goroutine" {
					require.Contains(t, err.Error(), "out of hand")
				} else if strings.HasPrefix(test.how, "exit") {
					require.Equal(t, []string{"last words"}, exit.Stderr)
					require.Contains(t, err.Error(), "last words")
				}
				require.False(t, exit.OOM)
			default:
				require.NoError(t, err)
			}
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
}

// heeding writes down that its context has ended, and goes.
var heeding = fiber.Register("heeding", func(ctx context.Context, file string) (none, error) {
	if err := (marking{File: file, Line: "up"}).append(); err != nil {
		return none{}, err
	}
	<-ctx.Done()
	return none{}, marking{File: file, Line: "heeded"}.append()
})

// hasty is terminated as soon as it runs.
var hasty = fiber.Register("hasty", func(ctx context.Context, file string) (none, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		return none{}, err
	}
	<-ctx.Done()
	return none{}, marking{File: file, Line: "heeded"}.append()
})

func exitOf(t testing.TB, p *fiber.Process) *fiber.ExitError {
	t.Helper()
	var exit *fiber.ExitError
	require.ErrorAs(t, p.Join(soon(t)), &exit)
	code, exited := p.ExitCode()
	require.True(t, exited)
	require.Equal(t, exit.Code, code)
	return exit
}

func TestTerminateProcess(t *testing.T) {
	t.Parallel()
	terminated := func(t *testing.T, p *fiber.Process) {
		t.Helper()
		require.NoError(t, p.Terminate())
		exit := exitOf(t, p)
		require.Equal(t, 143, exit.Code)
		require.Equal(t, "terminated", exit.Signal)
	}
	t.Run("heeded", func(t *testing.T) {
		t.Parallel()
		if alone(t, "FIBER_SHUTDOWN_GRACE=1h") {
			return
		}
		file := tempFile(t)
		p := started(t, heeding, file)
		eventually(t, patience, func() bool { return len(lines(t, file)) == 1 }, "it is up")
		terminated(t, p)
		require.Equal(t, []string{"up", "heeded"}, lines(t, file))
	})
	t.Run("at the function's first step", func(t *testing.T) {
		t.Parallel()
		if alone(t, "FIBER_SHUTDOWN_GRACE=1h", "GOMAXPROCS=1") { // nothing else of the process runs until the function waits
			return
		}
		file := tempFile(t)
		p := started(t, hasty, file)
		require.Equal(t, 143, exitOf(t, p).Code)
		require.Equal(t, []string{"heeded"}, lines(t, file))
	})
	heedless := func(t *testing.T) *fiber.Process {
		t.Helper()
		file := tempFile(t)
		p := started(t, mark, marking{File: file, Line: "up", Nap: time.Hour})
		eventually(t, patience, func() bool { return len(lines(t, file)) == 1 }, "it is up")
		return p
	}
	t.Run("ignored", func(t *testing.T) {
		t.Parallel()
		p := heedless(t)
		begun := time.Now()
		terminated(t, p)
		require.Greater(t, time.Since(begun), 900*time.Millisecond, "it got no time to heed it")
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		p := heedless(t)
		require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
		terminated(t, p)
	})
	t.Run("at once after its start", func(t *testing.T) {
		t.Parallel()
		for range 10 {
			terminated(t, started(t, rest, time.Hour))
		}
	})
}

func TestKillProcess(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		p := started(t, nap, time.Hour)
		if stopped {
			require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
		}
		require.NoError(t, p.Kill())
		exit := exitOf(t, p)
		require.Equal(t, 137, exit.Code)
		require.Equal(t, "killed", exit.Signal)
		require.Empty(t, exit.Reason, "it was not Fiber's idea")
	}
}

func TestManyWaitForAProcess(t *testing.T) {
	t.Parallel()
	p := started(t, nap, 200*time.Millisecond)
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if err := p.Join(soon(t)); err != nil || p.Alive() {
				t.Error("not joined", err)
			}
		})
	}
	waiting.Wait()
}

func TestFiftyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			p := fiber.NewProcess(exit, i)
			if err := p.Start(soon(t)); err != nil {
				t.Error(err)
				return
			}
			p.Join(soon(t))
			if code, exited := p.ExitCode(); !exited || code != i {
				t.Errorf("exit code %d (%v) of process %d", code, exited, i)
			}
		})
	}
	all.Wait()
}

func TestStartFromManyGoroutines(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	p := fiber.NewProcess(mark, marking{File: file, Line: "once"})
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- p.Start(soon(t)) }()
	}
	fine := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			fine++
		} else {
			require.ErrorIs(t, err, fiber.ErrStarted)
		}
	}
	require.Equal(t, 1, fine)
	require.NoError(t, p.Join(soon(t)))
	require.Equal(t, []string{"once"}, lines(t, file))
}

// identity is what a process knows of itself and of those beside it.
type identity struct {
	Name, ID     string
	PID          int
	Alive        bool
	HasParent    bool
	ParentName   string
	ParentPID    int
	ParentAlive  bool
	Children     int
	HasBootstrap bool
	Stdin        int
	Args         []string
	Dir          string
}

var whoAmI = fiber.Register("whoAmI", func(ctx context.Context, _ none) (id identity, err error) {
	me, parent := fiber.CurrentProcess(), fiber.ParentProcess()
	id = identity{Name: me.Name(), ID: me.ID(), PID: me.PID(), Alive: me.Alive(), HasParent: parent != nil,
		Children: len(fiber.ActiveChildren()), Args: os.Args[1:]}
	if parent != nil {
		id.ParentName, id.ParentPID, id.ParentAlive = parent.Name(), parent.PID(), parent.Alive()
	}
	_, id.HasBootstrap = os.LookupEnv("FIBER_BOOTSTRAP")
	id.Stdin, _ = os.Stdin.Read(make([]byte, 1))
	id.Dir, err = os.Getwd()
	return id, err
})

func TestCurrentAndParentProcess(t *testing.T) {
	t.Parallel()
	me := fiber.CurrentProcess()
	require.Equal(t, "MainProcess", me.Name())
	require.Equal(t, os.Getpid(), me.PID())
	require.Equal(t, strconv.Itoa(os.Getpid()), me.ID())
	require.True(t, me.Alive())
	_, exited := me.ExitCode()
	require.False(t, exited)
	require.Nil(t, fiber.ParentProcess())
	require.Positive(t, fiber.CPUCount())

	pool := newPool(t, 1, fiber.WithName("Who"))
	id, err := fiber.Apply(soon(t), pool, whoAmI, none{})
	require.NoError(t, err)
	pid, err := fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.Regexp(t, `^Who-\d+$`, id.Name)
	require.Equal(t, identity{Name: pool.Stats().Processes[0].Name, ID: strconv.Itoa(pid), PID: pid, Alive: true, HasParent: true, ParentName: "MainProcess",
		ParentPID: os.Getpid(), ParentAlive: true, Args: os.Args[1:], Dir: dir}, id)
}

func TestActiveChildren(t *testing.T) {
	t.Parallel()
	find := func(pid int) *fiber.Process {
		for _, p := range fiber.ActiveChildren() {
			if p.PID() == pid {
				return p
			}
		}
		return nil
	}
	p := started(t, nap, time.Hour, fiber.ProcessName("Active"))
	found := find(p.PID())
	require.NotNil(t, found)
	require.Equal(t, "Active", found.Name())
	require.True(t, found.Alive())
	require.ErrorIs(t, found.Start(soon(t)), fiber.ErrStarted)
	require.NoError(t, found.Kill())
	require.Equal(t, 137, exitOf(t, found).Code)
	<-p.Done()
	require.Nil(t, find(p.PID()), "it has ended")

	pool := newPool(t, 1)
	pid, err := fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)
	require.NotNil(t, find(pid), "a pool's worker")
	pool.Close()
	require.Nil(t, find(pid))
}

// descent is processes below one another.
type descent struct {
	Depth int
	File  string
}

// descend is set by init, since it refers to itself.
var descend *fiber.Func[descent, none]

func init() {
	descend = fiber.Register("descend", func(ctx context.Context, d descent) (none, error) {
		say := func(format string, args ...any) error {
			return marking{File: d.File, Line: fmt.Sprintf("%d:", d.Depth) + fmt.Sprintf(format, args...)}.append()
		}
		parent := fiber.ParentProcess()
		if !parent.Alive() || parent.PID() != os.Getppid() {
			return none{}, say("parent=%d", parent.PID())
		}
		if d.Depth == 0 {
			return none{}, say("bottom")
		}
		p := fiber.NewProcess(descend, descent{d.Depth - 1, d.File}, fiber.ProcessName(fmt.Sprint("level", d.Depth-1)))
		if p.Alive() {
			return none{}, say("alive before start")
		}
		if err := p.Start(ctx); err != nil {
			return none{}, err
		}
		sleeper := fiber.NewProcess(nap, time.Hour)
		if err := sleeper.Start(ctx); err != nil {
			return none{}, err
		}
		if !sleeper.Alive() || len(fiber.ActiveChildren()) == 0 {
			return none{}, say("not alive")
		}
		if err := p.Join(ctx); err != nil {
			return none{}, err
		}
		if code, exited := p.ExitCode(); p.Alive() || code != 0 || !exited {
			return none{}, say("alive after join")
		}
		if err := sleeper.Kill(); err != nil {
			return none{}, err
		}
		var exit *fiber.ExitError
		if err := sleeper.Join(ctx); !errors.As(err, &exit) || exit.Code != 137 {
			return none{}, say("sleeper: %v", err)
		}
		if n := len(fiber.ActiveChildren()); n != 0 {
			return none{}, say("children=%d", n)
		}
		return none{}, say("joined")
	})
}

func TestNestedProcesses(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	p := started(t, descend, descent{3, file})
	require.NoError(t, p.Join(soon(t)))
	require.Equal(t, []string{"0:bottom", "1:joined", "2:joined", "3:joined"}, lines(t, file))
}

// failingBelow gives the error of a process two below.
var failingBelow = fiber.Register("failingBelow", func(ctx context.Context, how string) (none, error) {
	p := fiber.NewProcess(ending, how)
	if err := p.Start(ctx); err != nil {
		return none{}, err
	}
	return none{}, p.Join(ctx)
})

func TestErrorsOfNestedProcesses(t *testing.T) {
	t.Parallel()
	err := started(t, failingBelow, "exit 9").Join(soon(t))
	var remote *fiber.RemoteError
	require.ErrorAs(t, err, &remote)
	require.Equal(t, "failingBelow", remote.Func)
	var exit *fiber.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 9, exit.Code)
	require.Equal(t, []string{"last words"}, exit.Stderr)
	require.ErrorIs(t, started(t, failingBelow, "sentinel").Join(soon(t)), errDiverged)
}

// leaving leaves a process of its own behind.
var leaving = fiber.Register("leaving", func(ctx context.Context, file string) (none, error) {
	p := fiber.NewProcess(nap, time.Hour)
	if err := p.Start(ctx); err != nil {
		return none{}, err
	}
	return none{}, marking{File: file, Line: p.ID()}.append()
})

func TestWhatAProcessLeavesRunningIsEnded(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	require.NoError(t, started(t, leaving, file).Join(soon(t)))
	pid, err := strconv.Atoi(lines(t, file)[0])
	require.NoError(t, err)
	require.False(t, running(pid), "its process lives on")
}

// own runs this executable without Fiber: it is a program of its own.
var own = fiber.Register("own", func(ctx context.Context, file string) (none, error) {
	exe, err := os.Executable()
	if err != nil {
		return none{}, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), programKey+"=fine")
	out, err := cmd.CombinedOutput()
	return none{}, errors.Join(err, os.WriteFile(file, out, 0o644))
})

func TestProgramsOfAProcessAreNoChildrenOfFibers(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	require.NoError(t, started(t, own, file).Join(soon(t)))
	require.Equal(t, []string{"squares", "100", "9801"}, lines(t, file))
}

// speaking writes, and goes on when a file is there.
type speaking struct{ First, Wait, Second string }

var speak = fiber.Register("speak", func(ctx context.Context, s speaking) (none, error) {
	fmt.Println(s.First)
	if err := await(ctx, s.Wait); err != nil {
		return none{}, err
	}
	fmt.Fprintln(os.Stderr, s.Second)
	return none{}, nil
})

func TestLogs(t *testing.T) {
	t.Parallel()
	gate := tempFile(t)
	p := started(t, speak, speaking{"what it says", gate, "and then"})
	logs, err := p.Logs(soon(t))
	require.NoError(t, err)
	defer logs.Close()
	r := bufio.NewReader(logs)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "what it says\n", line, "while it runs")

	ctx, cancel := context.WithCancel(soon(t))
	stopped, err := p.Logs(ctx)
	require.NoError(t, err)
	read := make(chan error, 1)
	go func() { _, err := io.ReadAll(stopped); read <- err }()
	cancel()
	require.ErrorIs(t, <-read, context.Canceled)

	open(t, gate)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "and then\n", string(rest))
	require.NoError(t, p.Join(soon(t)))
	again, err := p.Logs(soon(t))
	require.NoError(t, err)
	all, err := io.ReadAll(again)
	require.NoError(t, err)
	require.Equal(t, "what it says\nand then\n", string(all), "after its end")
}

var _ = mainProgram("talkative", func(ctx context.Context) error {
	p := fiber.NewProcess(speak, speaking{First: "from stdout", Second: "from stderr"})
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := p.Join(ctx); err != nil {
		return err
	}
	logs, err := p.Logs(ctx)
	if err != nil {
		return err
	}
	all, err := io.ReadAll(logs)
	fmt.Println("kept", len(all))
	return err
})

func TestForwardLogs(t *testing.T) {
	t.Parallel()
	x := start(t, "talkative")
	require.Zero(t, x.wait(patience))
	require.Equal(t, "from stdout\nkept 24\n", x.out.String())
	require.Equal(t, "from stderr\n", x.err.String())
	x = start(t, "talkative", "FIBER_FORWARD_LOGS=off")
	require.Zero(t, x.wait(patience))
	require.Equal(t, "kept 24\n", x.out.String())
	require.Empty(t, x.err.String())
}

// The first starts the second, and that the third.
var (
	sing = fiber.Register("sing", func(ctx context.Context, _ none) (none, error) {
		name := fiber.CurrentProcess().Name() + ".2"
		return none{}, voice(ctx, fiber.NewProcess(descant, none{}, fiber.ProcessName(name)))
	})
	descant = fiber.Register("descant", func(ctx context.Context, _ none) (none, error) {
		name := fiber.CurrentProcess().Name() + ".1"
		return none{}, voice(ctx, fiber.NewProcess(treble, none{}, fiber.ProcessName(name)))
	})
	treble = fiber.Register("treble", func(ctx context.Context, _ none) (none, error) {
		return none{}, voice(ctx, nil)
	})
)

// voice writes lines in pieces, each with the name of its process, while a child
// does so, too, and ends in the middle of a line.
func voice(ctx context.Context, child *fiber.Process) error {
	name := fiber.CurrentProcess().Name()
	fmt.Print(name, " begins, ")
	if child != nil {
		if err := child.Start(ctx); err != nil {
			return err
		}
	}
	fmt.Println("says", name)
	for i := range songLines {
		fmt.Print(name, " line ", i)
		fmt.Print(strings.Repeat(".", i), " of ")
		fmt.Println(name)
	}
	fmt.Println(name, strings.Repeat("long", 10_000), name)
	if child != nil {
		if err := child.Join(ctx); err != nil {
			return err
		}
		logs, err := child.Logs(ctx)
		if err != nil {
			return err
		}
		defer logs.Close()
		all, err := io.ReadAll(logs)
		if err != nil {
			return err
		}
		if lines := strings.Count(string(all), "\n"); lines != songLines+2 || strings.Contains(string(all), "|") {
			return fmt.Errorf("%d lines of %s are kept, not its own", lines, child.Name())
		}
	}
	fmt.Print(name, " ends, ", name)
	return nil
}

const songLines = 300

var _ = mainProgram("choir", func(ctx context.Context) error {
	var all []*fiber.Process
	for _, name := range []string{"a", "bb"} {
		p := fiber.NewProcess(sing, none{}, fiber.ProcessName(name))
		if err := p.Start(ctx); err != nil {
			return err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.Join(ctx); err != nil {
			return err
		}
	}
	fmt.Println("sung")
	return nil
})

// Each line has the name of the process that wrote it in front, once, and is
// whole, however deep that process is.
func TestNamesInFrontOfOutput(t *testing.T) {
	t.Parallel()
	x := start(t, "choir", prefixKey+"=on")
	require.Zero(t, x.wait(patience), "%s", x.err.String())
	requireSong(t, x.out.String())
}

func requireSong(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Equal(t, "sung", lines[len(lines)-1], "the root's own line")
	of := map[string]int{}
	for _, line := range lines[:len(lines)-1] {
		name, text, ok := strings.Cut(line, " | ")
		name = strings.TrimRight(name, " ")
		require.True(t, ok && strings.HasPrefix(text, name+" ") && strings.HasSuffix(text, " "+name), "%.200q", line)
		of[name]++
	}
	names := []string{"a", "a.2", "a.2.1", "bb", "bb.2", "bb.2.1"}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(of)))
	for name, n := range of {
		require.Equal(t, songLines+3, n, name)
	}
}

// jobsOf lists the children of a process, without the guard of its run.
func jobsOf(parent int) []int {
	return slices.DeleteFunc(childrenOf(parent), func(pid int) bool { return strings.HasPrefix(commandOf(pid), "fiber-guard") })
}

// The children of this program never say hello, and it would wait for ever.
var _ = mainProgram("hanging start", func(ctx context.Context) error {
	p := fiber.NewProcess(square, 1)
	starting, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- p.Start(starting) }()
	for len(jobsOf(os.Getpid())) == 0 {
		time.Sleep(time.Millisecond)
	}
	// Nothing waits for a start but Start.
	p.Alive()
	p.ID()
	p.Done()
	p.ExitCode()
	if len(result) > 0 {
		return fmt.Errorf("the start has ended: %w", <-result)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("after a cancellation: %v", err)
	}
	if p.Alive() || p.ID() != "" {
		return errors.New("it is started")
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := p.Start(short); !errors.Is(err, context.DeadlineExceeded) { // it may be tried again
		return fmt.Errorf("after a deadline: %v", err)
	}
	if n := len(jobsOf(os.Getpid())); n != 0 {
		return fmt.Errorf("%d processes are left", n)
	}
	go func() { result <- p.Start(ctx) }()
	for len(jobsOf(os.Getpid())) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := p.Kill(); err != nil {
		return err
	}
	if err := <-result; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("after Kill: %v", err)
	}
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	go pool.WaitUntilWorkersUp(ctx)
	for len(jobsOf(os.Getpid())) == 0 {
		time.Sleep(time.Millisecond)
	}
	pool.Close()
	fmt.Println("fine", len(jobsOf(os.Getpid())), "left")
	return nil
})

// Nor do those of this one.
var _ = mainProgram("late start", func(ctx context.Context) error {
	var launch *fiber.LaunchError
	begun := time.Now()
	if err := fiber.NewProcess(square, 1).Start(ctx); !errors.As(err, &launch) || !strings.Contains(err.Error(), "start_timeout") {
		return fmt.Errorf("after start_timeout: %v", err)
	}
	if took := time.Since(begun); took < 2*time.Second {
		return fmt.Errorf("start_timeout took %v", took)
	}
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	if _, err := fiber.Apply(ctx, pool, square, 1); !errors.As(err, &launch) {
		return fmt.Errorf("a pool that cannot start: %v", err)
	}
	pool.Close()
	fmt.Println("fine", len(jobsOf(os.Getpid())), "left")
	return nil
})

func TestStartThatHangs(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("testdata/hang.sh")
	require.NoError(t, err)
	for name, timeout := range map[string]string{"hanging start": "1h", "late start": "2s"} {
		x := start(t, name, "FIBER_EXECUTABLE="+script, "FIBER_START_TIMEOUT="+timeout)
		require.Zero(t, x.wait(patience))
		require.Equal(t, "fine 0 left\n", x.out.String())
		x.nobodyLeft()
	}
}

var _ = mainProgram("many files", func(ctx context.Context) error {
	for range 1500 {
		f, err := os.Open("/dev/null")
		if err != nil {
			return err
		}
		defer f.Close()
	}
	p := fiber.NewProcess(exit, 7)
	if err := p.Start(ctx); err != nil {
		return err
	}
	p.Join(ctx)
	code, _ := p.ExitCode()
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	files, err := fiber.Apply(ctx, pool, countFiles, none{})
	fmt.Println(code, files < 50)
	return err
})

var countFiles = fiber.Register("countFiles", func(context.Context, none) (int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	return len(entries), err
})

func TestMoreThanAThousandOpenFiles(t *testing.T) {
	t.Parallel()
	x := start(t, "many files")
	require.Zero(t, x.wait(patience))
	require.Equal(t, "7 true\n", x.out.String())
}

// writeProcs writes how many cores it may use.
var writeProcs = fiber.Register("writeProcs", func(_ context.Context, file string) (none, error) {
	return none{}, marking{File: file, Line: strconv.Itoa(runtime.GOMAXPROCS(0))}.append()
}, meta.CPU(2))

func TestProcessMeta(t *testing.T) {
	t.Parallel()
	file := tempFile(t)
	require.NoError(t, started(t, writeProcs, file).Join(soon(t)))
	require.NoError(t, started(t, writeProcs, file, fiber.ProcessMeta(meta.CPU(3))).Join(soon(t)))
	require.Equal(t, []string{"2", "3"}, lines(t, file))
}

// The parent is waited for as any process is; this process is not.
var orphaned = fiber.Register("orphaned", func(ctx context.Context, _ none) (string, error) {
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	return fmt.Sprint(fiber.ParentProcess().Join(short), "; ", fiber.CurrentProcess().Join(short)), nil
})

func TestJoinOfParentAndSelf(t *testing.T) {
	t.Parallel()
	said, err := fiber.Apply(soon(t), newPool(t, 1), orphaned, none{})
	require.NoError(t, err)
	require.Equal(t, "context deadline exceeded; fiber: a process cannot wait for itself", said)
}
