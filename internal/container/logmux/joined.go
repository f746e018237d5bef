// Package joined carries a program's stdout, its stderr and its end in one stream of lines.
//
// It is for logs that know one stream only. What stdout says stands in it as it is; a line of stderr begins with a
// mark that terminals do not show. The first line is a mark made at random, and the last one has it before the exit
// code: the program, which does not know the mark, can't write an end.
package logmux

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"regexp"
)

const (
	// markErr begins a line of stderr: an escape sequence that changes nothing, and that nobody else writes so.
	markErr = "\x1b[;m"
	// markOn ends a piece of a line that goes on.
	markOn = "\x1b[;;;m"
	// longest is the longest piece of a line: engines cut longer ones.
	longest = 8 << 10
)

// End is how a program has ended.
type End struct {
	Code        int  // 128+n where signal n ended it
	OutOfMemory bool // that was a SIGKILL of the kernel, for the memory that is used
}

const outOfMemory = " out of memory" // behind the code

// newMark makes a mark for the end: an escape sequence with 93 random bits. Terminals know no such large numbers.
func newMark() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	n := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) | 1<<31 }
	return fmt.Sprintf("\x1b[;;%d;%d;%dm", n(0), n(1), n(2))
}

// firstLine is a stream's that has an end.
var firstLine = regexp.MustCompile(`^\x1b\[;;[0-9]{10};[0-9]{10};[0-9]{10}m\n$`)
