package output

import (
	"bytes"
	"io"
)

// mark begins a line that a process passes on for one that it has started. What
// it writes itself shares the pipe with these lines, and may end in the middle of
// one of its own when such a line comes.
var mark = []byte("\x00fiber\x00")

// Mark makes a line, which has no newline, one that Split tells from the writer's
// own. The name is that of the process that wrote it.
func Mark(name string, line []byte) []byte {
	marked := append(bytes.Clone(mark), name...)
	marked = append(append(marked, 0), line...)
	return append(marked, '\n')
}

// Split tells what a process writes from what it passes on for others.
type Split struct {
	Own   io.Writer // as it comes
	Lower func(name string, line []byte)

	rest  []byte // what may be the beginning of a mark, or the line behind one
	lower bool   // it is the line
}

// Write never fails.
func (s *Split) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 && s.next() {
	}
	return len(p), nil
}

// next passes on a piece of the rest; false when there must be more of it first.
func (s *Split) next() bool {
	if s.lower {
		line, after, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return false
		}
		name, text, _ := bytes.Cut(line, []byte{0})
		s.Lower(string(name), text)
		s.rest, s.lower = after, false
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

func (s *Split) own(p []byte) {
	if len(p) > 0 {
		s.Own.Write(p)
	}
}

// End passes on what has no end: the process may have been killed there.
func (s *Split) End() {
	if s.lower {
		name, text, _ := bytes.Cut(s.rest, []byte{0})
		s.Lower(string(name), text)
	} else {
		s.own(s.rest)
	}
	s.rest, s.lower = nil, false
}
