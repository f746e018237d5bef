package guard

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// stack returns the frames of this goroutine, whose function panics, as a text:
// a line for each function, and below it where it was. It begins and ends with
// the user's own frames; what the runtime and Fiber do around them is left out.
func stack() []byte {
	var counters [maxFrames]uintptr
	n := runtime.Callers(2, counters[:])
	var all []runtime.Frame
	for frames, more := runtime.CallersFrames(counters[:n]), true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function != "" {
			all = append(all, f)
		}
	}
	lo, hi := 0, len(all)
	for lo < hi && (ofRuntime(all[lo]) || ofFiber(all[lo])) {
		lo++
	}
	for hi > lo && (ofRuntime(all[hi-1]) || ofFiber(all[hi-1])) {
		hi--
	}
	if lo == hi { // the panic is Fiber's own
		lo, hi = 0, len(all)
	}
	var text []byte
	for _, f := range all[lo:hi] {
		text = fmt.Appendf(text, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	if n == maxFrames {
		text = append(text, "...\n"...)
	}
	return text
}

// maxFrames bounds the stack of a function that calls itself.
const maxFrames = 128

func ofRuntime(f runtime.Frame) bool {
	return strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "internal/runtime/")
}

// module is the path of Fiber's module.
var module = strings.TrimSuffix(reflect.TypeFor[Panic]().PkgPath(), "/internal/guard")

// ofFiber says whether a function is the library's. The module's tests and
// examples are users of it.
func ofFiber(f runtime.Frame) bool {
	inside, ok := strings.CutPrefix(f.Function, module)
	if !ok || strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	for _, of := range []string{".", "/internal/", "/transport.", "/backend.", "/backend/", "/meta."} {
		if strings.HasPrefix(inside, of) {
			return true
		}
	}
	return false
}
