package logmux

import (
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"
)

// lineTime is how long a line may stay unfinished before what there is of it is written.
const lineTime = 100 * time.Millisecond

// Writer joins two streams. Its streams may be written to by several goroutines.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	mark string // of the end, "" for none
}

// NewWriter makes a writer onto a stream that nobody else writes to.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Begin has the stream say how the program ends. Nothing may be written before. The mark that tells the end from all else
// is in this process's memory from then on, which the program must not be able to read.
func (w *Writer) Begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark = newMark()
	_, err := io.WriteString(w.to, w.mark+"\n")
	return err
}

// Stdout is the stream that is written as it is.
func (w *Writer) Stdout() *Stream { return &Stream{writer: w} }

// Stderr is the stream that is marked.
func (w *Writer) Stderr() *Stream { return &Stream{writer: w, mark: markErr} }

// End says how the program has ended, unless the stream was not begun. Nothing may be written afterwards.
func (w *Writer) End(e End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mark == "" {
		return nil
	}
	line := w.mark + strconv.Itoa(e.Code)
	if e.OutOfMemory {
		line += outOfMemory
	}
	_, err := io.WriteString(w.to, line+"\n")
	return err
}

// Stream is one of the two.
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

// Flush writes what there is of an unfinished line.
func (s *Stream) Flush() error {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.put(true)
}

// put writes the finished lines, and with all the rest.
func (s *Stream) put(all bool) error {
	if all && s.late != nil {
		s.late.Stop()
		s.late = nil
	}
	var out []byte
	for len(s.rest) > 0 {
		n := bytes.IndexByte(s.rest, '\n') + 1
		switch finished := n > 0 && n <= longest; {
		case finished:
			out = append(append(out, s.mark...), s.rest[:n]...)
		case n > longest || len(s.rest) >= longest:
			n = longest
			out = s.unfinished(out, s.rest[:n])
		case all:
			n = len(s.rest)
			out = s.unfinished(out, s.rest)
		default:
			n = 0
		}
		if n == 0 {
			break
		}
		s.rest = s.rest[n:]
	}
	s.rest = append([]byte(nil), s.rest...)
	if len(out) == 0 {
		return nil
	}
	_, err := s.writer.to.Write(out)
	return err
}

func (s *Stream) unfinished(out, piece []byte) []byte {
	out = append(append(out, s.mark...), piece...)
	return append(append(out, markOn...), '\n')
}
