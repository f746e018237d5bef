package logmux

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// Reader splits a joined stream, which is written to it, into Stdout and Stderr. Lines without a mark are stdout. If the
// first line is missing, for example because an engine has dropped it, the reader does not recognise the end.
type Reader struct {
	Stdout, Stderr io.Writer

	rest  []byte
	begun bool
	mark  []byte // of the end, nil if the first line was not a mark
	end   End
	ended bool
}

// Write takes a piece of the stream. It never fails.
func (r *Reader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			r.rest = append(r.rest, rest...)
			break
		}
		line := rest[:n]
		if len(r.rest) > 0 {
			line = append(r.rest, line...)
			r.rest = nil
		}
		r.line(line)
		rest = rest[n:]
	}
	return len(p), nil
}

// Close writes out an unfinished last line.
func (r *Reader) Close() {
	if len(r.rest) > 0 {
		r.line(r.rest)
		r.rest = nil
	}
}

// Ended returns how the program has ended, once that has been read.
func (r *Reader) Ended() (e End, ended bool) { return r.end, r.ended }

func (r *Reader) line(line []byte) {
	if !r.begun {
		r.begun = true
		if firstLine.Match(line) {
			r.mark = bytes.Clone(line[:len(line)-1])
			return
		}
	}
	if text, ok := bytes.CutPrefix(line, r.mark); ok && r.mark != nil {
		digits, oom := strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), outOfMemory)
		if code, err := strconv.Atoi(digits); err == nil {
			r.end, r.ended = End{code, oom}, true
			return
		}
	}
	to := r.Stdout
	if text, ok := bytes.CutPrefix(line, []byte(markErr)); ok {
		line, to = text, r.Stderr
	}
	if piece, ok := bytes.CutSuffix(line, []byte(markOn+"\n")); ok {
		line = piece
	}
	to.Write(line)
}
