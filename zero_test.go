package fiber_test

import (
	"context"
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// unmade are zero values of all exported types that a constructor makes.
var unmade = []any{
	new(fiber.Array[int]), new(fiber.BoundedSemaphore), new(fiber.Condition), new(fiber.Conn[int]), new(fiber.Barrier),
	new(fiber.Dict[string, int]), new(fiber.Event), new(fiber.Func[int, int]), new(fiber.Future[int]), new(fiber.JoinableQueue[int]),
	new(fiber.List[int]), new(fiber.Lock), new(fiber.Manager), new(fiber.ObjectMethod[int, int, int]), new(fiber.Namespace),
	new(fiber.Neighbour), new(fiber.Pool), new(fiber.Process), new(fiber.Proxy[int]), new(fiber.Queue[int]), new(fiber.RLock),
	new(fiber.Receiver[int]), new(fiber.Ring[int]), new(fiber.RingFunc[int]), new(fiber.RingNode), new(fiber.Semaphore),
	new(fiber.Sender[int]), new(fiber.Shared[int]), new(fiber.SimpleQueue[int]), new(fiber.State[int, int]), new(fiber.ObjectType[int, int]), new(fiber.Value[int]),
}

// plain are the exported types with methods that anybody may make.
var plain = []string{"ByteSize", "EncodeError", "ExitError", "LaunchError", "MismatchError", "Op", "RemoteError", "RingError", "Switch", "TaskError", "WorkerLostError"}

// Each method of a nil pointer, or of a zero value, returns at once, with an error that says how to make one if it returns an error.
func TestUnmade(t *testing.T) {
	t.Parallel()
	functions := map[string]bool{}
	for _, f := range packages(t)["."] {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				functions[fn.Name.Name] = true
			}
		}
	}
	var names []string
	for _, v := range unmade {
		typ := reflect.TypeOf(v)
		name, _, _ := strings.Cut(typ.Elem().Name(), "[")
		names = append(names, name)
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			for state, receiver := range map[string]reflect.Value{"zero": reflect.ValueOf(v), "nil": reflect.Zero(typ)} {
				if m.Name == "UnmarshalBinary" && state == "zero" {
					continue // makes one
				}
				outs := call(m, receiver)
				if len(outs) == 0 || outs[len(outs)-1].Type() != reflect.TypeFor[error]() {
					continue
				}
				err, _ := outs[len(outs)-1].Interface().(error)
				require.Error(t, err, "%s of a %s %s", m.Name, state, name)
				require.Regexp(t, `^fiber: use of an uninitialised [\w ]+; create it with [\w. ,]+$`, err.Error(), "%s of a %s %s", m.Name, state, name)
				_, how, _ := strings.Cut(err.Error(), "create it with ")
				for _, constructor := range regexp.MustCompile(`[A-Z][\w.]+`).FindAllString(how, -1) {
					require.True(t, functions[constructor[strings.LastIndexByte(constructor, '.')+1:]], err)
				}
			}
		}
	}
	require.Equal(t, withMethods(t), slices.Sorted(slices.Values(append(names, plain...))))
}

// call calls a method with arguments that it takes.
func call(m reflect.Method, receiver reflect.Value) []reflect.Value {
	args := []reflect.Value{receiver}
	for i := 1; i < m.Type.NumIn(); i++ {
		arg := reflect.New(m.Type.In(i)).Elem()
		switch arg.Kind() {
		case reflect.Int:
			arg.SetInt(1)
		case reflect.Interface:
			if arg.Type() == reflect.TypeFor[context.Context]() {
				arg.Set(reflect.ValueOf(context.Background()))
			} else {
				arg.Set(reflect.ValueOf(new(int)))
			}
		case reflect.Func:
			arg.Set(reflect.MakeFunc(arg.Type(), func([]reflect.Value) (outs []reflect.Value) {
				for i := range arg.Type().NumOut() {
					outs = append(outs, reflect.Zero(arg.Type().Out(i)))
				}
				return outs
			}))
		}
		args = append(args, arg)
	}
	return m.Func.Call(args)
}

// withMethods returns the names of the exported types that have exported methods, of their own or of a type that they embed.
func withMethods(t *testing.T) []string {
	found := map[string]bool{}
	for _, f := range packages(t)["."] {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.IsExported() {
				typ := fn.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				switch of := typ.(type) {
				case *ast.IndexExpr:
					typ = of.X
				case *ast.IndexListExpr:
					typ = of.X
				}
				if name := typ.(*ast.Ident).Name; ast.IsExported(name) {
					found[name] = true
				}
			}
		}
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A zero value is no argument, either.
func TestUnmadeArguments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool, fn := new(fiber.Pool), new(fiber.Func[int, int])
	unusable := map[string]error{}
	_, unusable["Apply to a zero Func"] = fiber.Apply(ctx, pool, fn, 1)
	_, unusable["Apply to a nil Func"] = fiber.Apply[int, int](ctx, pool, nil, 1)
	_, unusable["Apply in a zero Pool"] = fiber.Apply(ctx, pool, zeroTested, 1)
	_, unusable["Map in a nil Pool"] = fiber.Map(ctx, nil, zeroTested, []int{1})
	for _, err := range fiber.IMap(ctx, pool, zeroTested, slices.Values([]int{1})) {
		unusable["IMap in a zero Pool"] = err
	}
	unusable["Start of a zero Func"] = fiber.NewProcess(fn, 1).Start(ctx)
	unusable["Run of a zero RingFunc"] = fiber.NewRing(1, new(fiber.RingFunc[int])).Run(ctx, 1)
	_, unusable["NewPool with a zero initializer"] = fiber.NewPool(1, fiber.WithInitializer(fn, 1))
	_, unusable["NewLock in a zero Manager"] = fiber.NewLock(ctx, new(fiber.Manager))
	_, unusable["New in a nil Manager"] = fiber.NewObject(ctx, nil, new(fiber.ObjectType[int, int]), 1)
	_, unusable["Call of a nil Proxy"] = fiber.Call[int, int, int](ctx, nil, nil, 1)
	_, unusable["CallAsync of a zero Proxy"] = fiber.CallAsync(ctx, new(fiber.Proxy[int]), new(fiber.ObjectMethod[int, int, int]), 1).Get(ctx)
	_, unusable["NewCondition with a zero RLock"] = fiber.NewCondition(ctx, nil, new(fiber.RLock))
	unusable["AllReduce of a zero RingNode"] = fiber.AllReduce(ctx, new(fiber.RingNode), []float64{1})
	_, unusable["AllGather of a nil RingNode"] = fiber.AllGather[float64](ctx, nil, nil)
	unusable["Barrier of a zero RingNode"] = new(fiber.RingNode).Barrier(ctx)
	for what, err := range unusable {
		require.ErrorContains(t, err, "use of an uninitialised ", what)
	}
	require.PanicsWithValue(t, "zero_test.go", func() {
		defer func() {
			text, _ := recover().(string)
			require.Contains(t, text, "fiber.RegisterError: the error is nil")
			file, _, _ := strings.Cut(text[strings.LastIndex(text[:strings.Index(text, ": fiber")], "/")+1:], ":")
			panic(file)
		}()
		fiber.RegisterError(nil) //fiber:ignore register it panics
	})
}

var zeroTested = fiber.Register("zero tested", func(_ context.Context, x int) (int, error) { return x, nil })
