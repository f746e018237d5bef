package joined

import (
	"bytes"
	"io"
	"strconv"
)

// Reader takes a joined stream apart that is written to it. What has no marks at all is stdout.
type Reader struct {
	Stdout, Stderr io.Writer

	rest  []byte
	code  int
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

// Close gives out a last line that was not finished.
func (r *Reader) Close() {
	if len(r.rest) > 0 {
		r.line(r.rest)
		r.rest = nil
	}
}

// Ended is the exit code, once it was read.
func (r *Reader) Ended() (code int, ended bool) { return r.code, r.ended }

func (r *Reader) line(line []byte) {
	if text, ok := bytes.CutPrefix(line, []byte(markEnd)); ok {
		if code, err := strconv.Atoi(string(bytes.TrimSuffix(text, []byte("\n")))); err == nil {
			r.code, r.ended = code, true
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
