// Package logmux carries a program's stdout, its stderr and its end in one stream of lines.
//
// It is for logs that have only one stream. Lines of stdout are unchanged, unless they begin as another kind of line does; a line
// of stderr begins with a mark that terminals do not show. The first line is a random mark, and the last line repeats it before the exit code and the length
// of all that came before: the program does not know that mark, so it cannot forge an end.
package logmux

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"regexp"
)

const (
	// markErr begins a line of stderr: an escape sequence without effect, in a form that programs do not write.
	markErr = "\x1b[;m"
	// markOut begins a line of stdout that would else begin with markErr or with markOut.
	markOut = "\x1b[;;;;m"
	// markOn ends a piece of a line whose next piece follows.
	markOn = "\x1b[;;;m"
	// longest is the longest piece of a line: engines cut longer ones.
	longest = 8 << 10
)

// End is how a program has ended.
type End struct {
	Code        int  // 128+n if signal n ended it
	OutOfMemory bool // the kernel killed it for the memory used
}

const outOfMemory = " out of memory" // after the code

// mark is the form of the mark for the end.
const mark = `\x1b\[;;[0-9]{10};[0-9]{10};[0-9]{10}m`

// newMark returns a mark for the end: an escape sequence with 93 random bits. Terminals ignore such large numbers.
func newMark() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	n := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) | 1<<31 }
	return fmt.Sprintf("\x1b[;;%d;%d;%dm", n(0), n(1), n(2))
}

var (
	firstLine = regexp.MustCompile(`^` + mark + `\n$`) // of a stream that has an end
	lastLine  = regexp.MustCompile(`^(` + mark + `)([0-9]{1,3})(` + outOfMemory + `)?(?:\x1b\[;;;;([0-9]{1,18})m)?\n$`)
)

// Begins reports whether a line is the first one of a stream that has an end.
func Begins(line []byte) bool { return firstLine.Match(line) }
