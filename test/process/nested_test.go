//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

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

var whoAmI = fiber.Register("whoAmI", func(ctx context.Context, _ fibertest.None) (id identity, err error) {
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

	pool := fibertest.NewPool(t, 1, fiber.WithName("Who"))
	id, err := fiber.Apply(fibertest.Soon(t), pool, whoAmI, fibertest.None{})
	require.NoError(t, err)
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
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
	p := started(t, fibertest.Nap, time.Hour, fiber.WithName("Active"))
	found := find(p.PID())
	require.NotNil(t, found)
	require.Equal(t, "Active", found.Name())
	require.True(t, found.Alive())
	require.ErrorIs(t, found.Start(fibertest.Soon(t)), fiber.ErrStarted)
	require.NoError(t, found.Kill())
	require.Equal(t, 137, exitOf(t, found).Code)
	<-p.Done()
	require.Nil(t, find(p.PID()), "it has ended")

	pool := fibertest.NewPool(t, 1)
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
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
var descend *fiber.Func[descent, fibertest.None]

func init() {
	descend = fiber.Register("descend", func(ctx context.Context, d descent) (fibertest.None, error) {
		say := func(format string, args ...any) error {
			return fibertest.Marking{File: d.File, Line: fmt.Sprintf("%d:", d.Depth) + fmt.Sprintf(format, args...)}.Append()
		}
		parent := fiber.ParentProcess()
		if !parent.Alive() || parent.PID() != os.Getppid() {
			return fibertest.None{}, say("parent=%d", parent.PID())
		}
		if d.Depth == 0 {
			return fibertest.None{}, say("bottom")
		}
		p := fiber.NewProcess(descend, descent{d.Depth - 1, d.File}, fiber.WithName(fmt.Sprint("level", d.Depth-1)))
		if p.Alive() {
			return fibertest.None{}, say("alive before start")
		}
		if err := p.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		sleeper := fiber.NewProcess(fibertest.Nap, time.Hour)
		if err := sleeper.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		if !sleeper.Alive() || len(fiber.ActiveChildren()) == 0 {
			return fibertest.None{}, say("not alive")
		}
		if err := p.Join(ctx); err != nil {
			return fibertest.None{}, err
		}
		if code, exited := p.ExitCode(); p.Alive() || code != 0 || !exited {
			return fibertest.None{}, say("alive after join")
		}
		if err := sleeper.Kill(); err != nil {
			return fibertest.None{}, err
		}
		var exit *fiber.ExitError
		if err := sleeper.Join(ctx); !errors.As(err, &exit) || exit.Code != 137 {
			return fibertest.None{}, say("sleeper: %v", err)
		}
		if n := len(fiber.ActiveChildren()); n != 0 {
			return fibertest.None{}, say("children=%d", n)
		}
		return fibertest.None{}, say("joined")
	})
}

func TestNestedProcesses(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	p := started(t, descend, descent{3, file})
	require.NoError(t, p.Join(fibertest.Soon(t)))
	require.Equal(t, []string{"0:bottom", "1:joined", "2:joined", "3:joined"}, fibertest.Lines(t, file))
}

// failingBelow gives the error of a process two below.
var failingBelow = fiber.Register("failingBelow", func(ctx context.Context, how string) (fibertest.None, error) {
	p := fiber.NewProcess(ending, how)
	if err := p.Start(ctx); err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, p.Join(ctx)
})

func TestErrorsOfNestedProcesses(t *testing.T) {
	t.Parallel()
	err := started(t, failingBelow, "exit 9").Join(fibertest.Soon(t))
	var remote *fiber.RemoteError
	require.ErrorAs(t, err, &remote)
	require.Equal(t, "failingBelow", remote.Func)
	var exit *fiber.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 9, exit.Code)
	require.Equal(t, []string{"last words"}, exit.Stderr)
	require.ErrorIs(t, started(t, failingBelow, "sentinel").Join(fibertest.Soon(t)), fibertest.ErrDiverged)
}

// The parent is waited for as any process is; this process is not.
var orphaned = fiber.Register("orphaned", func(ctx context.Context, _ fibertest.None) (string, error) {
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	return fmt.Sprint(fiber.ParentProcess().Join(short), "; ", fiber.CurrentProcess().Join(short)), nil
})

func TestJoinOfParentAndSelf(t *testing.T) {
	t.Parallel()
	said, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), orphaned, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, "context deadline exceeded; fiber: a process cannot wait for itself", said)
}
