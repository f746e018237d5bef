package codec

import (
	"fmt"
	"reflect"
	"strings"
)

// Error says what cannot be encoded or decoded, and where in the value.
type Error struct {
	Path   string // fields, elements and keys, such as "Layers[3].Hook"; "" for the value itself
	Type   string // the Go type at Path
	Reason string
	Index  int   // element of the outermost slice, which is not part of Path; -1 if the value is not a slice
	Err    error // what a type's own method returned, or nil
}

// Error returns one line: the element, the path and the type, if any, and the
// reason.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Index >= 0 {
		fmt.Fprintf(&b, "element %d: ", e.Index)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	if e.Type != "" {
		b.WriteString(e.Type + ": ")
	}
	return b.String() + e.Reason
}

// Unwrap returns the error of a type's own method, or nil.
func (e *Error) Unwrap() error { return e.Err }

func fail(t reflect.Type, format string, args ...any) error {
	e := &Error{Index: -1, Reason: fmt.Sprintf(format, args...)}
	if t != nil {
		e.Type = t.String()
	}
	return e
}

const maxPath = 200 // bytes; a longer path keeps its outer part

// within prepends a step to the path of err, which may be nil.
func within(err error, step string) error {
	e, ok := err.(*Error)
	switch {
	case !ok:
		return err
	case e.Path == "":
		e.Path = step
	case e.Path[0] == '[':
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
	if len(e.Path) > maxPath {
		e.Path = strings.ToValidUTF8(e.Path[:maxPath], "") + "…"
	}
	return e
}

// inElement is within for element i of a list. In the outermost slice it sets
// the index instead.
func inElement(err error, i int, outermost bool) error {
	e, ok := err.(*Error)
	switch {
	case !ok:
		return err
	case outermost:
		e.Index = i
		return e
	}
	return within(e, fmt.Sprintf("[%d]", i))
}
