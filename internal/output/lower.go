package output

import (
	"bytes"
	"io"
	"slices"
)

// mark begins a line that a process passes on for one that it has started. Such
// lines share the pipe with the process's own output, and may come in the middle
// of one of its own lines.
var mark = []byte("\x00fiber\x00")

const (
	// longest is how many bytes of a line that was passed on are kept until its end has come. Lines of Fiber's are shorter.
	longest = 128 << 10
	// longestName is how many bytes of its writer's name count.
	longestName = 1 << 10
)

// Mark returns a line, given without its newline, in the form that Split tells
// from the writer's own. The name is that of the process that wrote the line.
func Mark(name string, line []byte) []byte {
	marked := append(bytes.Clone(mark), name...)
	marked = append(append(marked, 0), line...)
	return append(marked, '\n')
}

// Split separates what a process writes from the lines that it passes on for
// others. A line that is too long comes in pieces, as if it were several.
type Split struct {
	Own   io.Writer // receives the process's own output as it comes
	Lower func(name string, line []byte)

	rest  []byte // a possible beginning of a mark, or the line after one
	lower bool   // rest is such a line
}

// Write never fails.
func (s *Split) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 && s.next() {
	}
	return len(p), nil
}

// next passes on a piece of the rest. It returns false if more has to come first.
func (s *Split) next() bool {
	if s.lower {
		line, after, whole := bytes.Cut(s.rest, []byte("\n"))
		if len(line) > longest {
			line, after, whole = s.rest[:longest], s.rest[longest:], false
		} else if !whole {
			return false
		}
		name := s.line(line)
		if s.lower = !whole; s.lower {
			after = slices.Concat(name, []byte{0}, after)
		}
		s.rest = after
		return true
	}
	if own, after, marked := bytes.Cut(s.rest, mark); marked {
		s.own(own)
		s.rest, s.lower = after, true
		return true
	}
	begun := len(mark) - 1 // how much of a mark is at the end
	for begun > 0 && !bytes.HasSuffix(s.rest, mark[:begun]) {
		begun--
	}
	s.own(s.rest[:len(s.rest)-begun])
	s.rest = append(s.rest[:0], s.rest[len(s.rest)-begun:]...)
	return false
}

// line passes on a line, or a piece of one, and returns its writer's name.
func (s *Split) line(line []byte) (name []byte) {
	name, text, _ := bytes.Cut(line, []byte{0})
	name = name[:min(len(name), longestName)]
	s.Lower(string(name), text)
	return name
}

func (s *Split) own(p []byte) {
	if len(p) > 0 {
		s.Own.Write(p)
	}
}

// End passes on an unfinished line: the process may have been killed in it.
func (s *Split) End() {
	if s.lower {
		s.line(s.rest)
	} else {
		s.own(s.rest)
	}
	s.rest, s.lower = nil, false
}
