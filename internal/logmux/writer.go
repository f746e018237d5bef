package logmux

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// lineTime is how long a line may stay unfinished before its beginning is written.
const lineTime = 100 * time.Millisecond

// Writer joins two streams. Several goroutines may write to its streams.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	mark string // of the end, "" for none
	size int64  // of what was written
}

// NewWriter returns a writer onto a stream. Nothing else may write to that stream.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Begin writes the mark of a stream that reports how the program ends. It must be called before anything else. From then on
// the mark is in this process's memory, which the program must not be able to read.
func (w *Writer) Begin() error {
	w.mark = newMark()
	return w.write([]byte(w.mark + "\n"))
}

// write writes whole lines.
func (w *Writer) write(lines []byte) error {
	w.size += int64(len(lines))
	_, err := w.to.Write(lines)
	return err
}

// Stdout returns the stream whose lines are not marked.
func (w *Writer) Stdout() *Stream { return &Stream{writer: w} }

// Stderr returns the stream whose lines are marked.
func (w *Writer) Stderr() *Stream { return &Stream{writer: w, mark: markErr} }

// End writes how the program has ended, and returns that line; without Begin it does nothing. Nothing may be written
// afterwards.
func (w *Writer) End(e End) (line []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mark == "" {
		return nil, nil
	}
	line = append([]byte(w.mark), strconv.Itoa(e.Code)...)
	if e.OutOfMemory {
		line = append(line, outOfMemory...)
	}
	line = fmt.Appendf(line, "\x1b[;;;;%dm\n", w.size)
	return line, w.write(line)
}

// Stream is the program's stdout or stderr.
type Stream struct {
	writer *Writer
	mark   string
	rest   []byte // of an unfinished line
	late   *time.Timer
}

func (s *Stream) Write(p []byte) (int, error) {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	s.rest = append(s.rest, p...)
	err := s.put(false)
	if len(s.rest) > 0 && s.late == nil {
		s.late = time.AfterFunc(lineTime, func() { s.Flush() })
	}
	return len(p), err
}

// Flush writes the beginning of an unfinished line, if there is one.
func (s *Stream) Flush() error {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.put(true)
}

// put writes the finished lines; if all is true, also the unfinished one.
func (s *Stream) put(all bool) error {
	if all && s.late != nil {
		s.late.Stop()
		s.late = nil
	}
	var out []byte
	for len(s.rest) > 0 {
		piece := s.rest[:min(len(s.rest), longest)]
		n := bytes.IndexByte(piece, '\n') + 1
		if n > 1 && bytes.HasSuffix(piece[:n-1], []byte(markOn)) { // the program's: its line's end comes by itself
			piece, n = piece[:n-1], 0
		} else if n == 0 && !all && len(piece) < longest {
			break
		}
		out = append(out, s.mark...)
		if s.mark == "" && (bytes.HasPrefix(piece, []byte(markErr)) || bytes.HasPrefix(piece, []byte(markOut))) {
			out = append(out, markOut...)
		}
		if n > 0 {
			piece = piece[:n]
			out = append(out, piece...)
		} else {
			out = append(append(out, piece...), markOn+"\n"...)
		}
		s.rest = s.rest[len(piece):]
	}
	s.rest = bytes.Clone(s.rest)
	if len(out) == 0 {
		return nil
	}
	return s.writer.write(out)
}
