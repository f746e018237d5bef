//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

var processors = fiber.RegisterType("processors", func(context.Context, fibertest.None) (int, error) { return runtime.GOMAXPROCS(0), nil })

func TestManagerOptions(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t, fiber.WithName("Library"), fiber.WithMeta(meta.CPU(3)))
	require.Equal(t, "Library", m.Name())
	require.Equal(t, 3, must(t, manage(t, m, processors, fibertest.None{}), number, fibertest.None{}))
	_, err := fiber.Call(fibertest.Soon(t), manage(t, m, naughties, ""), misbehave, "error")
	require.ErrorContains(t, err, "in Library")
	for text, opt := range map[string]fiber.ManagerOption{
		"WithName": fiber.WithName(" "),
		"WithMeta": fiber.WithMeta(meta.CPU(-1)),
	} {
		_, err := fiber.NewManager(fibertest.Soon(t), opt)
		require.ErrorContains(t, err, text)
	}
}

// usingFails uses an object until that fails.
var usingFails = fiber.Register("usingFails", func(ctx context.Context, j *fiber.Proxy[*journal]) (fibertest.None, error) {
	for {
		if _, err := fiber.Call(ctx, j, writeEntry, entry{}); err != nil {
			return fibertest.None{}, err
		}
	}
})

// writeHere writes a line from the process that runs it.
var writeHere = fiber.Register("writeHere", func(ctx context.Context, w writing) (int, error) {
	call := fiber.CallAsync(ctx, w.Journal, writeEntry, w.Entry)
	if w.Asked != nil {
		if _, err := fiber.Call(ctx, w.Asked, ringBell, "asked"); err != nil {
			return 0, err
		}
	}
	return call.Get(ctx)
})

type writing struct {
	Journal *fiber.Proxy[*journal]
	Entry   entry
	Asked   *fiber.Proxy[*bell] // rings when the journal's process has been asked
}

func TestManagerClosed(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	m, b := fibertest.NewManager(t), manage(t, fibertest.NewManager(t), bells, fibertest.None{})
	j := manage(t, m, journals, file)
	manage(t, m, journals, file)
	pool := fibertest.NewPool(t, 1)
	fibertest.Warm(t, pool)

	// Calls that run and that wait, here and elsewhere.
	var calls []*fiber.Future[int]
	calls = append(calls, fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{1, b}))
	must(t, b, awaitBell, "begun")
	calls = append(calls, fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{2, b}),
		fiber.ApplyAsync(fibertest.Soon(t), pool, writeHere, writing{j, entry{3, b}, b}))
	must(t, b, awaitBell, "asked")
	require.NoError(t, m.Close())
	require.False(t, fibertest.Running(m.PID()), "its process is left")
	for _, f := range calls {
		_, err := f.Get(fibertest.Soon(t))
		require.ErrorIs(t, err, fiber.ErrClosed)
		require.NotErrorAs(t, err, new(*fiber.WorkerLostError))
	}
	must(t, b, awaitBell, "ended") // the running one was told

	// Later ones.
	_, err := fiber.Call(fibertest.Soon(t), j, writeEntry, entry{})
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{}).Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.NewObject(fibertest.Soon(t), m, journals, "")
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.NoError(t, m.Close(), "a second time")
	require.Equal(t, []string{"closed", "closed"}, fibertest.Lines(t, file), "objects are closed, once")
}

// makeAndClose makes an object in a manager that is another process's, and
// tries to close that.
var makeAndClose = fiber.Register("makeAndClose", func(ctx context.Context, m *fiber.Manager) (*fiber.Proxy[*journal], error) {
	if m.PID() != 0 || m.ID() != "" {
		return nil, errors.New("it was not started here")
	}
	j, err := fiber.NewObject(ctx, m, journals, "")
	return j, errors.Join(err, m.Close())
})

func TestManagersTravel(t *testing.T) {
	t.Parallel()
	m, pool := fibertest.NewManager(t), fibertest.NewPool(t, 2)
	for range 4 {
		j, err := fiber.Apply(fibertest.Soon(t), pool, makeAndClose, m)
		require.NoError(t, err)
		require.Equal(t, m.PID(), must(t, j, journalIn, fibertest.None{}))
	}
}

func TestManagerKilled(t *testing.T) {
	t.Parallel()
	m, b := fibertest.NewManager(t), manage(t, fibertest.NewManager(t), bells, fibertest.None{})
	j := manage(t, m, journals, "")
	k := manage(t, m, journals, "")
	pool := fibertest.NewPool(t, 2)
	fibertest.Warm(t, pool)
	var calls []*fiber.Future[int]
	calls = append(calls, fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{1, b}))
	must(t, b, awaitBell, "begun")
	calls = append(calls, fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{2, b}),
		fiber.ApplyAsync(fibertest.Soon(t), pool, writeHere, writing{Journal: k, Entry: entry{3, b}}))
	must(t, b, awaitBell, "begun")
	using := fiber.ApplyAsync(fibertest.Soon(t), pool, usingFails, j) // waits as well
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Running == 2 }, "both run")

	require.NoError(t, syscall.Kill(m.PID(), syscall.SIGKILL))
	check := func(err error, here bool) {
		var lost *fiber.WorkerLostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, m.Name(), lost.Worker)
		require.Equal(t, m.ID(), lost.ID)
		require.Contains(t, err.Error(), fmt.Sprintf("%s (process %d", m.Name(), m.PID()))
		require.NotContains(t, err.Error(), "exit code -1")
		if here { // where it was started its end is known
			require.Equal(t, "killed", lost.Signal)
		}
	}
	for i, f := range calls {
		_, err := f.Get(fibertest.Soon(t))
		check(err, i < 2)
	}
	_, err := using.Get(fibertest.Soon(t))
	check(err, false)
	for range 3 {
		_, err := fiber.Call(fibertest.Soon(t), j, writeEntry, entry{})
		check(err, true)
		_, err = fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{}).Get(fibertest.Soon(t))
		check(err, true)
		_, err = fiber.NewObject(fibertest.Soon(t), m, journals, "")
		check(err, true)
		_, err = fiber.Apply(fibertest.Soon(t), pool, writeHere, writing{Journal: j})
		check(err, false)
	}
	require.NoError(t, m.Close())
}

// suicide ends the manager's process from inside.
var suicide = fiber.RegisterMethod("Suicide", func(*naughty, context.Context, fibertest.None) (fibertest.None, error) {
	fmt.Fprintln(os.Stderr, "farewell")
	os.Exit(3)
	return fibertest.None{}, nil
})

func TestMethodEndsTheManager(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	_, err := fiber.Call(fibertest.Soon(t), manage(t, m, naughties, ""), suicide, fibertest.None{})
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 3, lost.ExitCode)
	require.Equal(t, []string{"farewell"}, lost.Stderr)
}

func TestManagerThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := fiber.NewManager(fibertest.Soon(t), fiber.WithMeta(meta.GPU(1000)))
	var launch *fiber.LaunchError
	require.ErrorAs(t, err, &launch)
	require.ErrorContains(t, err, "GPU")

	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = fiber.NewManager(over)
	require.ErrorIs(t, err, context.Canceled)
	_, err = fiber.NewManager(fibertest.Within(t, time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A manager's process that cannot listen says why.
var _ = fibertest.MainProgram("nowhere", func(ctx context.Context) error {
	_, err := fiber.NewManager(ctx)
	var launch *fiber.LaunchError
	fmt.Println(errors.As(err, &launch), len(fiber.ActiveChildren()))
	return err
})

func TestManagerThatCannotListen(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(deep, 0o700))
	x := fibertest.Start(t, "nowhere", "FIBER_RUNTIME_DIR="+deep)
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Equal(t, "true 0\n", x.Out.String())
	require.Contains(t, x.Err.String(), "Manager-1")
	require.Contains(t, x.Err.String(), "too deep")
	x.NobodyLeft()
}

// What is registered too late is unknown in other processes: using it says so.
// All else works, before and after.
//
//fiber:ignore register that is what is tested
func TestLateRegistration(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t) { // a second run would register the same again
		return
	}
	m := fibertest.NewManager(t)
	pool := fibertest.NewPool(t, 1)
	where := "manager_test.go:"
	none := func(context.Context, fibertest.None) (fibertest.None, error) { return fibertest.None{}, nil }
	lateType := fiber.RegisterType("late type", func(context.Context, fibertest.None) (*journal, error) { return nil, nil })
	lateMethod := fiber.RegisterMethod("Late", func(*journal, context.Context, fibertest.None) (fibertest.None, error) { return fibertest.None{}, nil })
	lateFunc := fiber.Register("late function", none)
	lateRing := fiber.RegisterRing("late ring", nil, func(context.Context, *fiber.RingNode, fibertest.None) error { return nil })
	for name, use := range map[string]func(ctx context.Context) error{
		"late type": func(ctx context.Context) error {
			_, err := fiber.NewObject(ctx, m, lateType, fibertest.None{})
			return err
		},
		"journal.Late": func(ctx context.Context) error {
			_, err := fiber.Call(ctx, manage(t, m, journals, ""), lateMethod, fibertest.None{})
			return err
		},
		"late ring": func(ctx context.Context) error { return fiber.NewRing(2, lateRing).Run(ctx, fibertest.None{}) },
	} {
		var mismatch *fiber.MismatchError
		err := use(fibertest.Soon(t))
		require.ErrorAs(t, err, &mismatch, name)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, where)
	}
	for how, use := range map[string]func(ctx context.Context) error{
		"Apply": func(ctx context.Context) error {
			_, err := fiber.Apply(ctx, pool, lateFunc, fibertest.None{})
			return err
		},
		"Map": func(ctx context.Context) error {
			_, err := fiber.Map(ctx, pool, lateFunc, make([]fibertest.None, 3))
			return err
		},
		"Process": func(ctx context.Context) error { return fiber.NewProcess(lateFunc, fibertest.None{}).Start(ctx) },
		"initializer": func(context.Context) error {
			_, err := fiber.NewPool(1, fiber.WithInitializer(lateFunc, fibertest.None{}))
			return err
		},
	} {
		var mismatch *fiber.MismatchError
		err := use(fibertest.Soon(t))
		require.ErrorAs(t, err, &mismatch, how)
		require.ErrorContains(t, err, `"late function"`)
		require.ErrorContains(t, err, where)
	}
	_, err := lateFunc.Call(fibertest.Soon(t), fibertest.None{})
	require.NoError(t, err)

	square, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 3)
	require.NoError(t, err)
	require.Equal(t, 9, square)
	p := fiber.NewProcess(fibertest.Square, 3)
	require.NoError(t, p.Start(fibertest.Soon(t)))
	require.NoError(t, p.Join(fibertest.Soon(t)))
	must(t, manage(t, fibertest.NewManager(t), journals, ""), readLines, fibertest.None{})
}

func TestNothingToManage(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	j := manage(t, m, journals, "")
	for name, call := range map[string]func() error{
		"no manager": func() error { _, err := fiber.NewObject(fibertest.Soon(t), nil, journals, ""); return err },
		"zero manager": func() error {
			_, err := fiber.NewObject(fibertest.Soon(t), new(fiber.Manager), journals, "")
			return err
		},
		"close none": func() error { return (*fiber.Manager)(nil).Close() },
		"close zero": func() error { return new(fiber.Manager).Close() },
		"no type": func() error {
			_, err := fiber.NewObject(fibertest.Soon(t), m, (*fiber.ObjectType[*journal, string])(nil), "")
			return err
		},
		"zero type": func() error {
			_, err := fiber.NewObject(fibertest.Soon(t), m, new(fiber.ObjectType[*journal, string]), "")
			return err
		},
		"no proxy": func() error { _, err := fiber.Call(fibertest.Soon(t), nil, writeEntry, entry{}); return err },
		"zero proxy": func() error {
			_, err := fiber.Call(fibertest.Soon(t), new(fiber.Proxy[*journal]), writeEntry, entry{})
			return err
		},
		"no method": func() error {
			_, err := fiber.Call(fibertest.Soon(t), j, (*fiber.ObjectMethod[*journal, entry, int])(nil), entry{})
			return err
		},
		"zero method": func() error {
			_, err := fiber.Call(fibertest.Soon(t), j, new(fiber.ObjectMethod[*journal, entry, int]), entry{})
			return err
		},
		"async": func() error {
			_, err := fiber.CallAsync(fibertest.Soon(t), nil, writeEntry, entry{}).Get(fibertest.Soon(t))
			return err
		},
	} {
		require.Error(t, call(), name)
	}
	require.Empty(t, new(fiber.Manager).Name())
	require.Zero(t, new(fiber.Manager).PID())
	require.Empty(t, new(fiber.Manager).ID())
	_, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), writeHere, writing{Journal: new(fiber.Proxy[*journal])})
	require.Error(t, err, "a zero proxy does not travel")
	_, err = fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), writeHere, writing{})
	require.ErrorContains(t, err, "uninitialised Proxy", "nil arrives as nil")
}

//fiber:ignore register that is what is tested
//fiber:ignore travels that is what is tested
func TestBadTypesAndMethods(t *testing.T) {
	t.Parallel()
	for text, register := range map[string]func(){
		`RegisterType("x"): the function is nil`: func() { fiber.RegisterType[int, int]("x", nil) },
		`RegisterType("x"): its argument`: func() {
			fiber.RegisterType("x", func(context.Context, chan int) (int, error) { return 0, nil })
		},
		"without a name": func() { fiber.RegisterType("", func(context.Context, int) (int, error) { return 0, nil }) },
		`named "journal" is already registered at`: func() {
			fiber.RegisterType("journal", func(context.Context, int) (int, error) { return 0, nil })
		},
		`RegisterMethod("x"): the method is nil`: func() { fiber.RegisterMethod[*journal, int, int]("x", nil) },
		`RegisterMethod(""): the name is empty`: func() {
			fiber.RegisterMethod("", func(*journal, context.Context, int) (int, error) { return 0, nil })
		},
		`RegisterMethod("x"): its argument`: func() {
			fiber.RegisterMethod("x", func(*journal, context.Context, chan int) (int, error) { return 0, nil })
		},
		`RegisterMethod("x"): its result`: func() {
			fiber.RegisterMethod("x", func(*journal, context.Context, int) (io.Reader, error) { return nil, nil })
		},
		`journal.Write" is already registered at`: func() { fiber.RegisterMethod("Write", (*journal).Write) },
	} {
		func() {
			defer func() {
				message := fmt.Sprint(recover())
				require.Contains(t, message, text)
				require.Contains(t, message, "manager_test.go:")
			}()
			register()
		}()
	}
}
