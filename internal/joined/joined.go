// Package joined carries a program's stdout, its stderr and its exit code in one stream of lines.
//
// It is for logs that know one stream only. What stdout says stands in it as it is; a line of stderr begins with a
// mark that terminals do not show. The last line has the exit code.
package joined

const (
	// markErr begins a line of stderr: an escape sequence that changes nothing, and that nobody else writes so.
	markErr = "\x1b[;m"
	// markOn ends a piece of a line that goes on.
	markOn = "\x1b[;;;m"
	// markEnd begins the last line.
	markEnd = "\x1b[;;m"
	// longest is the longest piece of a line: engines cut longer ones.
	longest = 8 << 10
)
