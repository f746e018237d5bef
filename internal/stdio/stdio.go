// Package stdio writes to this program's stdout and stderr, above what stays at the bottom of the terminal. What Fiber prints
// in the root, and passes on for other processes, goes through it.
package stdio

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bottom is what stays at the bottom of the terminal.
type Bottom interface {
	// Above writes p to f, above it if that is its terminal.
	Above(f *os.File, p []byte) (int, error)
	// Leave draws it a last time: it scrolls away like any other line.
	Leave()
}

var (
	bottom  atomic.Pointer[Bottom]
	writing atomic.Int32 // writes that know of none
)

// longest is how long Stay waits for writes: an output may be read by nobody.
const longest = 50 * time.Millisecond

// Stay has b stay at the bottom; nil for nothing. When it returns, nothing is under way any more that doesn't know of b.
func Stay(b Bottom) {
	if b == nil {
		bottom.Store(nil)
		return
	}
	bottom.Store(&b)
	for begun := time.Now(); writing.Load() > 0 && time.Since(begun) < longest; {
		time.Sleep(longest / 50)
	}
}

// Taken reports whether something stays there.
func Taken() bool { return bottom.Load() != nil }

// patience bounds the wait for a terminal that takes nothing.
const patience = time.Second

// Leave ends what stays there. It is called before the program ends, and returns after a second at the latest.
func Leave() {
	b := bottom.Load()
	if b == nil {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		(*b).Leave()
	}()
	select {
	case <-left:
	case <-time.After(patience):
	}
}

// Stream returns a file as it is when something is written.
type Stream func() *os.File

// This program's outputs.
var (
	Stdout Stream = func() *os.File { return os.Stdout }
	Stderr Stream = func() *os.File { return os.Stderr }
)

func (s Stream) Write(p []byte) (int, error) {
	writing.Add(1)
	b := bottom.Load()
	if b == nil {
		defer writing.Add(-1)
		return s().Write(p)
	}
	writing.Add(-1)
	return (*b).Above(s(), p)
}

// Takers take what a program on a cluster sends to who follows it, amid its stderr, by its kind: see output.Mark. They are set
// while packages are initialised.
var Takers = map[string]func(payload []byte){}

// A variable with this key and value tells a program that who follows it has a terminal, and Takers.
const (
	FollowerKey = "FIBER_FOLLOWER"
	Terminal    = "terminal"
)

// Followed reports whether this program has that variable. It removes the variable, since nobody follows the programs that
// this one starts.
var Followed = sync.OnceValue(func() bool {
	value := os.Getenv(FollowerKey)
	os.Unsetenv(FollowerKey)
	return value == Terminal
})

const (
	// ReturnKey is a variable that tells a program which of its files, by their settings, it sends to who follows it.
	ReturnKey = "FIBER_RETURN"
	// ReturnKind is the kind of such a message: a setting and, in base64, a piece of its file; or, at the end, = and its size.
	ReturnKind = "file"
)

// Returned are the settings of that variable, which it removes.
var Returned = sync.OnceValue(func() []string {
	value := os.Getenv(ReturnKey)
	os.Unsetenv(ReturnKey)
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
})
