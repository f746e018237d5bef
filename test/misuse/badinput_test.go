//go:build unix

package misuse_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// A program that calls neither Main nor Init.
var _ = fibertest.Program("not initialised", func() {
	_, err := fiber.NewPool(2)
	fmt.Println("pool:", errors.Is(err, fiber.ErrNotInitialized), err)
	err = fiber.NewProcess(fibertest.Square, 1).Start(context.Background())
	fmt.Println("process:", errors.Is(err, fiber.ErrNotInitialized), err)
	_, err = fiber.Share(context.Background(), 1)
	fmt.Println("share:", errors.Is(err, fiber.ErrNotInitialized), err)
	fmt.Println("shutdown:", fiber.Shutdown(context.Background()))
	fmt.Println("children:", fiber.ActiveChildren(), fiber.ParentProcess(), fiber.CurrentProcess().Name())
})

func TestNotInitialised(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "not initialised")
	require.Zero(t, x.Wait(fibertest.Patience))
	said := strings.Split(x.Out.String(), "\n")
	for i, what := range []string{"pool", "process", "share"} {
		require.True(t, strings.HasPrefix(said[i], what+": true fiber: not initialised; "), said[i])
		require.Contains(t, said[i], "fiber.Main")
	}
	require.Equal(t, []string{"shutdown: <nil>", "children: [] <nil> MainProcess", ""}, said[3:])
}

var _ = fibertest.Program("initialised twice", func() {
	ctx := context.Background()
	fmt.Println(fiber.Init())
	fmt.Println(fiber.Init())
	fmt.Println(fiber.Shutdown(ctx))
	fmt.Println(fiber.Init())
	pool, err := fiber.NewPool(1)
	if err != nil {
		panic(err)
	}
	fmt.Println(fiber.Apply(ctx, pool, fibertest.Square, 5))
	old := fiber.NewProcess(fibertest.Nap, time.Hour)
	fmt.Println(old.Start(ctx))
	fmt.Println(fiber.Shutdown(ctx))
	fmt.Println(old.Alive())
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 5)
	fmt.Println(err != nil)
	_, err = fiber.NewPool(1)
	fmt.Println(errors.Is(err, fiber.ErrNotInitialized))
	pool.Close()
	fmt.Println(fiber.Shutdown(ctx))
})

func TestInitTwice(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "initialised twice")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, []string{"<nil>", "fiber: Init was called before; call it once, or call Shutdown in between", "<nil>", "<nil>",
		"25 <nil>", "<nil>", "<nil>", "false", "true", "true", "<nil>", ""}, strings.Split(x.Out.String(), "\n"))
}

type hidden struct{ a, b int }

type partly struct {
	A int
	b int
}

//fiber:ignore travels that is what is tested
type hook struct {
	Name  string
	Inner struct{ Hook func() }
}

// What is registered wrongly.
//
//fiber:ignore travels that is what is tested
var wrong = []struct {
	what     string
	register func()
	words    []string
}{
	{"twice", func() {
		fiber.Register("square", func(context.Context, int) (int, error) { return 0, nil })
	}, []string{`"square"`, "already registered", "functions.go"}},
	{"a state that nothing opens", func() { fiber.RegisterState[int, int]("bad", nil, nil) }, []string{`RegisterState("bad")`, "the function that opens it is nil"}},
	{"a state whose argument cannot travel", func() {
		fiber.RegisterState("bad", func(context.Context, chan int) (int, error) { return 0, nil }, nil)
	}, []string{`RegisterState("bad")`, "chan"}},
	{"no name", func() { fiber.Register(" ", func(context.Context, int) (int, error) { return 0, nil }) }, []string{"without a name"}},
	{"nil", func() { fiber.Register[int, int]("bad", nil) }, []string{`"bad"`, "the function is nil"}},
	{"cpu", func() {
		fiber.Register("bad", func(context.Context, int) (int, error) { return 0, nil }, meta.CPU(-1))
	}, []string{"CPU(-1)", "above 0"}},
	{"cpu is no number", func() {
		fiber.Register("bad", func(context.Context, int) (int, error) { return 0, nil }, meta.CPU(math.NaN()))
	}, []string{"CPU(NaN)"}},
	{"memory", func() {
		fiber.Register("bad", func(context.Context, int) (int, error) { return 0, nil }, meta.Memory(-5))
	}, []string{"Memory(-5)", "above 0"}},
	{"gpu", func() {
		fiber.Register("bad", func(context.Context, int) (int, error) { return 0, nil }, meta.GPU(-2))
	}, []string{"GPU(-2)", "0 or more"}},
	{"channel", func() {
		fiber.Register("bad", func(context.Context, chan int) (int, error) { return 0, nil })
	}, []string{"its argument", "a chan cannot leave"}},
	{"func in a field of a field", func() {
		fiber.Register("bad", func(context.Context, int) (hook, error) { return hook{}, nil })
	}, []string{"its result", "Inner.Hook", "a func cannot leave"}},
	{"unexported fields alone", func() {
		fiber.Register("bad", func(context.Context, []hidden) (int, error) { return 0, nil })
	}, []string{"its argument", "hidden", "only unexported fields"}},
	{"nil option", func() {
		fiber.RegisterType("bad", func(context.Context, int) (int, error) { return 0, nil }, nil)
	}, []string{"fiber.RegisterType", "option 1 of 1 is nil; leave it out"}},
	{"sentinel", func() {
		fiber.RegisterError(errors.New("twice"))
		fiber.RegisterError(errors.New("twice"))
	}, []string{`"twice"`, "another error"}},
	{"error type", func() { fiber.RegisterErrorType[chanError]() }, []string{"fiber.RegisterErrorType[misuse_test.chanError]", "a chan cannot leave"}},
	{"error pointer", func() { fiber.RegisterErrorType[*codeError]() }, []string{"fiber.RegisterErrorType[*misuse_test.codeError]", "not to a struct"}},
	{"error interface", func() { fiber.RegisterErrorType[error]() }, []string{"fiber.RegisterErrorType[error]", "it is an interface"}},
}

// codeError is no struct.
type codeError int

func (*codeError) Error() string { return "" }

// chanError has a field that cannot travel.
type chanError struct{ C chan int }

func (chanError) Error() string { return "" }

var _ = fibertest.Program("wrong registrations", func() {
	for _, w := range wrong {
		func() {
			defer func() {
				fmt.Printf("%s: %v\n", w.what, recover())
			}()
			w.register()
		}()
	}
})

func TestWrongRegistrationsPanicWithTheirPlace(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "wrong registrations")
	require.Zero(t, x.Wait(fibertest.Patience))
	_, file, _, _ := runtime.Caller(0)
	said := strings.Split(x.Out.String(), "\n")
	require.Len(t, said, len(wrong)+1)
	for i, w := range wrong {
		require.Regexp(t, "^"+w.what+": .*"+filepath.Base(file)+`:\d+: `, said[i])
		for _, word := range w.words {
			require.Contains(t, said[i], word)
		}
	}
}

// refuses checks an error that comes at the call.
func refuses(t testing.TB, err error, words ...string) {
	t.Helper()
	require.Error(t, err)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words   []string
		workers int
		opt     fiber.PoolOption
	}{
		{[]string{"NewPool(-1)"}, -1, nil},
		{[]string{"WithMaxTasksPerChild(0)", "at least 1"}, 1, fiber.WithMaxTasksPerChild(0)},
		{[]string{"WithMaxTasksPerChild(-3)", "at least 1"}, 1, fiber.WithMaxTasksPerChild(-3)},
		{[]string{"WithMaxAttempts(-1)", "at least 1"}, 1, fiber.WithMaxAttempts(-1)},
		{[]string{"WithConcurrency(0)", "at least 1"}, 1, fiber.WithConcurrency(0)},
		{[]string{"WithAutoscale(-1, 2)", "min"}, 1, fiber.WithAutoscale(-1, 2)},
		{[]string{"WithAutoscale(3, 2)", "min <= max"}, 1, fiber.WithAutoscale(3, 2)},
		{[]string{"WithAutoscale(0, 0)", "max >= 1"}, 1, fiber.WithAutoscale(0, 0)},
		{[]string{"WithIdleTimeout(-1s)", "more than 0"}, 1, fiber.WithIdleTimeout(-time.Second)},
		{[]string{"WithName", "empty"}, 1, fiber.WithName(" ")},
		{[]string{"WithMeta", "CPU(-1)"}, 1, fiber.WithMeta(meta.CPU(-1))},
		{[]string{"WithMeta", "Memory(-1)"}, 1, fiber.WithMeta(meta.Memory(-1))},
		{[]string{"WithMeta", "GPU(-1)"}, 1, fiber.WithMeta(meta.GPU(-1))},
		{[]string{"WithInitializer", "uninitialised Func"}, 1, fiber.WithInitializer((*fiber.Func[int, int])(nil), 1)},
		{[]string{"swallow", "a chan cannot leave"}, 1, fiber.WithInitializer(swallow, any(make(chan int)))},
		{[]string{"WithState", "uninitialised State"}, 1, fiber.WithState((*fiber.State[int, int])(nil), 1)},
		{[]string{"the state stateless", "a chan cannot leave"}, 1, fiber.WithState(stateless, any(make(chan int)))},
	} {
		var opts []fiber.PoolOption
		if test.opt != nil {
			opts = append(opts, test.opt)
		}
		pool, err := fiber.NewPool(test.workers, opts...)
		refuses(t, err, test.words...)
		require.Nil(t, pool)
	}

	pool := fibertest.NewPool(t, 1)
	for _, test := range []struct {
		words []string
		opts  []fiber.CallOption
	}{
		{[]string{"Retries(-1)", "at least 0"}, []fiber.CallOption{fiber.Retries(-1)}},
		{[]string{"RetryIf", "nil"}, []fiber.CallOption{fiber.Retries(1), fiber.RetryIf(nil)}},
		{[]string{"RetryIf without Retries"}, []fiber.CallOption{fiber.RetryIf(func(error) bool { return true })}},
		{[]string{"Backoff without Retries"}, []fiber.CallOption{fiber.Backoff(0, 0)}},
		{[]string{"Backoff(2s, 1s)", "first <= longest"}, []fiber.CallOption{fiber.Retries(1), fiber.Backoff(2*time.Second, time.Second)}},
		{[]string{"Backoff(-1s, 1s)"}, []fiber.CallOption{fiber.Retries(1), fiber.Backoff(-time.Second, time.Second)}},
	} {
		_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(3), test.opts...)
		refuses(t, err, test.words...)
	}
	_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1, fiber.Timeout(-time.Second))
	refuses(t, err, "Timeout(-1s)", "more than 0")
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1, fiber.Timeout(0))
	refuses(t, err, "Timeout(0s)")
	_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(3), fiber.ChunkSize(-1))
	refuses(t, err, "ChunkSize(-1)", "at least 1")
	_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(3), fiber.ChunkSize(0))
	refuses(t, err, "ChunkSize(0)", "leave the option out")
	_, err = fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(3), fiber.ChunkSize(-1)).Get(fibertest.Soon(t))
	refuses(t, err, "ChunkSize(-1)")
	for _, err = range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, func(yield func(int) bool) { yield(1) }, fiber.ChunkSize(-1)) {
		refuses(t, err, "ChunkSize(-1)")
	}
	refuses(t, pool.Resize(fibertest.Soon(t), -1), "Resize(-1)", "at least 1")
	refuses(t, pool.Resize(fibertest.Soon(t), 0), "Resize(0)")
	var nobody *fiber.Func[int, int]
	_, err = fiber.Apply(fibertest.Soon(t), pool, nobody, 1)
	refuses(t, err, "uninitialised Func", "Register")
	_, err = fiber.Map(fibertest.Soon(t), pool, nobody, nil)
	refuses(t, err, "uninitialised Func")
	_, err = fiber.Apply(fibertest.Soon(t), nil, fibertest.Square, 1)
	refuses(t, err, "uninitialised Pool", "NewPool")
	require.Zero(t, pool.Stats().WorkersStarted)
	fibertest.StillWorks(t, pool)

	for _, test := range []struct {
		p     *fiber.Process
		words []string
	}{
		{fiber.NewProcess(nobody, 1), []string{"uninitialised Func", "Register"}},
		{fiber.NewProcess(fibertest.Square, 1, fiber.WithName("")), []string{"WithName", "empty"}},
		{fiber.NewProcess(fibertest.Square, 1, fiber.WithMeta(meta.CPU(-1))), []string{"WithMeta", "CPU(-1)"}},
		{fiber.NewProcess(fibertest.Square, 1, fiber.WithMeta(meta.Memory(0))), []string{"WithMeta", "Memory(0)"}},
		{fiber.NewProcess(fibertest.Square, 1, fiber.WithMeta(meta.GPU(-1))), []string{"WithMeta", "GPU(-1)"}},
		{fiber.NewProcess(fibertest.Square, 1, fiber.WithMeta(meta.GPU(1000))), []string{"more GPUs than the machine has", "meta.GPU(1000)", "CUDA_VISIBLE_DEVICES"}},
	} {
		refuses(t, test.p.Start(fibertest.Soon(t)), test.words...)
		require.False(t, test.p.Alive())
		require.ErrorIs(t, test.p.Join(fibertest.Soon(t)), fiber.ErrNotStarted)
	}
}

func idle(context.Context, *fiber.RingNode, fibertest.None) error { return nil }

var (
	manyGPUs = fiber.RegisterRing("manyGPUs", nil, idle, meta.GPU(1000))
	allGPUs  = fiber.RegisterRing("allGPUs", nil, idle, meta.GPU(math.MaxInt/2))
)

func TestRingWithTooManyGPUs(t *testing.T) {
	t.Parallel()
	refuses(t, fiber.NewRing(2, manyGPUs).Run(fibertest.Soon(t), fibertest.None{}), "Ring-", "more GPUs than the machine has", "meta.GPU(2000)")
	refuses(t, fiber.NewRing(4, allGPUs).Run(fibertest.Soon(t), fibertest.None{}), "NewRing(4)", "allGPUs", "too many GPUs")
}

func TestMoreGPUsThanTheMachineHas(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithMeta(meta.GPU(1000)))
	_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1)
	refuses(t, err, "more GPUs than the machine has", "meta.GPU(1000)")
	var launch *fiber.LaunchError
	require.ErrorAs(t, err, &launch)
	refuses(t, pool.WaitUntilWorkersUp(fibertest.Soon(t)), "more GPUs")
}

var (
	stateless = fiber.RegisterState("stateless", func(context.Context, any) (int, error) { return 0, nil }, nil)

	oneCore  = fiber.Register("oneCore", func(context.Context, fibertest.None) (int, error) { return runtime.GOMAXPROCS(0), nil }, meta.CPU(1))
	twoCores = fiber.Register("twoCores", func(context.Context, fibertest.None) (int, error) { return runtime.GOMAXPROCS(0), nil }, meta.CPU(2))
)

func TestPoolWithOtherResources(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	cores, err := fiber.Apply(fibertest.Soon(t), pool, oneCore, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, 1, cores)
	_, err = fiber.Apply(fibertest.Soon(t), pool, twoCores, fibertest.None{})
	refuses(t, err, "twoCores needs cpu 2", "have cpu 1", "since it ran oneCore first", "another pool")
	_, err = fiber.Map(fibertest.Soon(t), pool, twoCores, make([]fibertest.None, 5))
	refuses(t, err, "twoCores needs cpu 2")
	fibertest.StillWorks(t, pool) // a function that asks for nothing runs anywhere

	pool = fibertest.NewPool(t, 1, fiber.WithMeta(meta.CPU(2)))
	_, err = fiber.Apply(fibertest.Soon(t), pool, oneCore, fibertest.None{})
	refuses(t, err, "oneCore needs cpu 1", "have cpu 2", "WithMeta")
	cores, err = fiber.Apply(fibertest.Soon(t), pool, twoCores, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, 2, cores)

	// Those that need nothing come first: the workers have nothing, then.
	pool = fibertest.NewPool(t, 2)
	fibertest.Warm(t, pool)
	_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(10))
	require.NoError(t, err)
	before := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Nap, fibertest.SlicesOf(50*time.Millisecond, 10))
	cores, err = fiber.Apply(fibertest.Soon(t), pool, oneCore, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, 1, cores)
	_, err = before.Get(fibertest.Soon(t))
	require.NoError(t, err)
	s := pool.Stats()
	require.Zero(t, s.Retried, "what the replaced workers had was run again")
	require.Zero(t, s.WorkersLost)
	_, err = fiber.Apply(fibertest.Soon(t), pool, twoCores, fibertest.None{})
	refuses(t, err, "twoCores needs cpu 2", "have cpu 1", "since it ran oneCore first")

	// The resources of one pool do not leak into the next.
	pool = fibertest.NewPool(t, 1)
	cores, err = fiber.Apply(fibertest.Soon(t), pool, twoCores, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, 2, cores)
}

// link can be made a ring.
type link struct {
	Name string
	Next *link
}

func ring() *link {
	l := &link{Name: "a", Next: &link{Name: "b"}}
	l.Next.Next = l
	return l
}

// unsendable are values that cannot travel, and what is to be said of them.
var unsendable = map[string]struct {
	make  func() any
	words []string
}{
	"channel":            {func() any { return make(chan int) }, []string{"chan int", "cannot leave its process"}},
	"function":           {func() any { return func() {} }, []string{"func()", "cannot leave its process"}},
	"channel in a map":   {func() any { return map[string]any{"key": make(chan int)} }, []string{"key", "cannot leave its process"}},
	"function, deep":     {func() any { return []any{1, []any{2, func() {}}} }, []string{"[1]: func()", "cannot leave its process"}},
	"cyclic pointer":     {func() any { return ring() }, []string{"Next"}},
	"cyclic map":         {func() any { m := map[string]any{}; m["self"] = m; return m }, []string{"self"}},
	"unexported fields":  {func() any { return hidden{1, 2} }, []string{"hidden", "unexported"}},
	"an unexported one":  {func() any { return partly{1, 2} }, []string{"b: int", "not exported", "export it"}},
	"nil pointer inside": {func() any { return []any{(chan int)(nil)} }, []string{"cannot leave its process"}},
}

var (
	swallow = fiber.Register("swallow", func(context.Context, any) (int, error) { return 1, nil })

	emit = fiber.Register("emit", func(_ context.Context, what string) (any, error) {
		if u, ok := unsendable[what]; ok {
			return u.make(), nil
		}
		return what, nil
	})

	links = fiber.Register("links", func(_ context.Context, l *link) (*link, error) {
		if l == nil {
			return ring(), nil
		}
		return l, nil
	})
)

func TestValuesThatCannotTravel(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	check := func(t *testing.T, err error, words []string, index int) {
		t.Helper()
		refuses(t, err, words...)
		var encode *fiber.EncodeError
		require.ErrorAs(t, err, &encode)
		require.Equal(t, index, encode.Index, err)
	}
	for what, u := range unsendable {
		t.Run(what, func(t *testing.T) {
			_, err := fiber.Apply(fibertest.Soon(t), pool, swallow, u.make())
			check(t, err, append(u.words, "the argument of swallow"), -1)
			require.NotContains(t, err.Error(), "element", "there is no list here")
			_, err = fiber.ApplyAsync(fibertest.Soon(t), pool, swallow, u.make()).Get(fibertest.Soon(t))
			check(t, err, u.words, -1)
			ins := make([]any, 100)
			ins[57], ins[80] = u.make(), u.make()
			_, err = fiber.Map(fibertest.Soon(t), pool, swallow, ins)
			check(t, err, append(u.words, "57"), 57)
			_, err = fiber.Map(fibertest.Soon(t), pool, swallow, ins, fiber.ChunkSize(1))
			check(t, err, append(u.words, "57"), 57)

			i := 0
			for out, err := range fiber.IMap(fibertest.Soon(t), pool, swallow, func(yield func(any) bool) {
				for _, in := range ins {
					if !yield(in) {
						return
					}
				}
			}) {
				if i == 57 || i == 80 {
					check(t, err, u.words, i)
				} else {
					require.NoError(t, err)
					require.Equal(t, 1, out)
				}
				i++
			}
			require.Equal(t, 100, i, "the stream ended early")

			err = fiber.NewProcess(swallow, u.make()).Start(fibertest.Soon(t))
			check(t, err, append(u.words, "the argument of swallow"), -1)
			require.NotContains(t, err.Error(), "element", "there is no list here")
			_, err = fiber.Share(fibertest.Soon(t), u.make())
			refuses(t, err, append(u.words, "the shared value")...)

			// As a result.
			_, err = fiber.Apply(fibertest.Soon(t), pool, emit, what)
			var remote *fiber.RemoteError
			require.ErrorAs(t, err, &remote)
			require.Equal(t, "emit", remote.Func)
			refuses(t, err, append(u.words, "the result")...)
			var encode *fiber.EncodeError
			require.ErrorAs(t, err, &encode)
			require.Equal(t, -1, encode.Index)
			require.NotContains(t, err.Error(), "element", "there is no list here")
			whats := make([]string, 100)
			whats[3] = what
			_, err = fiber.Map(fibertest.Soon(t), pool, emit, whats)
			require.ErrorAs(t, err, &remote)
			refuses(t, err, append(u.words, "task 3")...)
			fibertest.StillWorks(t, pool)
		})
	}
	_, err := fiber.Apply(fibertest.Soon(t), pool, links, ring())
	refuses(t, err, "the argument of links", "Next")
	_, err = fiber.Apply(fibertest.Soon(t), pool, links, nil)
	refuses(t, err, "the result", "Next")
	l, err := fiber.Apply(fibertest.Soon(t), pool, links, &link{"a", &link{"b", nil}})
	require.NoError(t, err)
	require.Equal(t, "b", l.Next.Name)
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		env   string
		words []string
	}{
		{"unknown backend", "FIBER_BACKEND=nosuch", []string{"backend", "nosuch", "FIBER_BACKEND", "local"}},
		{"unknown level in the file", "fiberconfig=log_level = loud\n", []string{"log_level", "loud", ".fiberconfig:1", "info"}},
		{"no duration", "FIBER_HEARTBEAT_TIMEOUT=soon", []string{"heartbeat_timeout", "soon", "FIBER_HEARTBEAT_TIMEOUT", "such as"}},
		{"no unit", "FIBER_HEARTBEAT_TIMEOUT=20", []string{"heartbeat_timeout", `"20"`, "such as 500ms"}},
		{"negative", "FIBER_START_TIMEOUT=-3s", []string{"start_timeout", "-3s", "at least 1ms"}},
		{"no size", "FIBER_MAX_MESSAGE=lots", []string{"max_message", "lots", "such as"}},
		{"no switch", "FIBER_FORWARD_LOGS=maybe", []string{"forward_logs", "maybe", "on"}},
		{"no executable", "FIBER_EXECUTABLE=/no/such/program", []string{"executable", "/no/such/program"}},
		{"unparsable in the file", "fiberconfig=log_level = info\ncancel_grace = never\n", []string{"cancel_grace", "never", ".fiberconfig:2"}},
		{"unknown key in the file", "fiberconfig=bakend = local\n", []string{"bakend", ".fiberconfig:1", "did you mean backend?"}},
		{"nonsense in the file", "fiberconfig=what is this\n", []string{".fiberconfig:1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			x := fibertest.Start(t, "fine", test.env)
			require.Equal(t, 1, x.Wait(fibertest.Patience))
			require.Empty(t, x.Out.String())
			for _, w := range append(test.words, "fiber: ") {
				require.Contains(t, x.Err.String(), w)
			}
			require.NotContains(t, x.Err.String(), "goroutine")
		})
	}
	// What Kubernetes makes of a service that is called fiber is no error.
	x := fibertest.Start(t, "fine", "FIBER_PORT=tcp://10.0.0.1:80", "FIBER_BAKEND=local")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "squares 100 9801\n", x.Out.String())
	require.Contains(t, x.Err.String(), "level=WARN")
	require.Contains(t, x.Err.String(), "FIBER_PORT")
	require.Contains(t, x.Err.String(), "FIBER_BAKEND")
	require.Equal(t, 1, strings.Count(x.Err.String(), "FIBER_PORT"), "each process warns")
}

var _ = fibertest.Program("bad code", func() {
	for _, cfg := range []fiber.Config{{Backend: "nosuch"}, {HeartbeatTimeout: -1}, {MaxMessage: 5}, {HeartbeatInterval: time.Minute}} {
		fmt.Println(fiber.Init(cfg))
	}
	fmt.Println(fiber.Init())
})

func TestBadConfigurationInCode(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "bad code")
	require.Zero(t, x.Wait(fibertest.Patience))
	said := strings.Split(x.Out.String(), "\n")
	require.Len(t, said, 6)
	for i, words := range [][]string{{"backend", "nosuch", "Config.Backend"}, {"heartbeat_timeout", "Config.HeartbeatTimeout"},
		{"max_message", "Config.MaxMessage"}, {"heartbeat_timeout", "heartbeat_interval"}} {
		for _, w := range words {
			require.Contains(t, said[i], w)
		}
	}
	require.Equal(t, "<nil>", said[4], "a failed Init can be tried again")
}

var grow = fiber.Register("grow", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })

// Messages over a limit of 64 KiB.
var _ = fibertest.MainProgram("large messages", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	big := make([]byte, 100<<10)
	ins := make([][]byte, 60)
	for i := range ins {
		ins[i] = make([]byte, 10<<10)
	}
	ins[33] = big
	ns := make([]int, 60)
	for i := range ns {
		ns[i] = 10 << 10
	}
	ns[33] = len(big)
	say := func(what string, err error) {
		fmt.Printf("%s: %v", what, err)
		if errors.As(err, new(*fiber.EncodeError)) {
			fmt.Print(" is an EncodeError")
		}
		fmt.Println()
	}
	fitting, err := fiber.Map(ctx, pool, fibertest.Shrink, ins[:33])
	say("small ones", err)
	fmt.Println(len(fitting))
	grown, err := fiber.Map(ctx, pool, grow, ns[:33])
	say("small results", err)
	fmt.Println(len(grown))
	_, err = fiber.Apply(ctx, pool, fibertest.Shrink, big)
	say("apply", err)
	_, err = fiber.Map(ctx, pool, fibertest.Shrink, ins)
	say("map", err)
	n := 0
	for _, err := range fiber.IMap(ctx, pool, fibertest.Shrink, func(yield func([]byte) bool) {
		for _, in := range ins {
			if !yield(in) {
				return
			}
		}
	}) {
		if err != nil {
			say("imap "+fmt.Sprint(n), err)
		}
		n++
	}
	_, err = fiber.Apply(ctx, pool, grow, len(big))
	say("result", err)
	_, err = fiber.Map(ctx, pool, grow, ns)
	say("map's result", err)
	say("process", fiber.NewProcess(fibertest.Shrink, big).Start(ctx))
	_, err = fiber.Share(ctx, big)
	say("share", err)
	_, err = fiber.NewPool(1, fiber.WithInitializer(fibertest.Shrink, big))
	say("initializer", err)
	squares, err := fiber.Map(ctx, pool, fibertest.Square, fibertest.Numbers(100))
	if err != nil {
		return err
	}
	s := pool.Stats()
	fmt.Println("fine", n, squares[99], "lost", s.WorkersLost, "running", s.Running)
	return nil
})

func TestMessagesOverTheLimit(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "large messages", "FIBER_MAX_MESSAGE=64KiB")
	require.Zero(t, x.Wait(fibertest.Patience))
	said := strings.Split(x.Out.String(), "\n")
	require.Len(t, said, 14, x.Out.String())
	require.Equal(t, []string{"small ones: <nil>", "33", "small results: <nil>", "33"}, said[:4])
	for i, begin := range []string{"apply: ", "map: fiber: task 33: ", "imap 33: fiber: task 33: ", "result: fiber: grow in Pool1Worker-", "map's result: fiber: task 33: ", "process: ", "share: ", "initializer: "} {
		line := said[4+i]
		require.True(t, strings.HasPrefix(line, begin), line)
		require.Contains(t, line, "exceeds the limit of 65536")
		require.Contains(t, line, "max_message", "it does not say what to do")
		require.True(t, strings.HasSuffix(line, " is an EncodeError"), line)
	}
	require.Equal(t, "fine 60 9801 lost 0 running 0", said[12])
}
