package logmux

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// longestHeld is how much of an unfinished line a Reader holds back. A Writer's lines are shorter.
const longestHeld = 64 << 10

// Reader splits a joined stream, which is written to it, into Stdout and Stderr. Lines without a mark are stdout. If the
// first line is missing, for example because an engine has dropped it, the reader does not recognise the end.
type Reader struct {
	Stdout, Stderr io.Writer

	rest  []byte    // of an unfinished line
	on    io.Writer // takes the rest of a line whose beginning was written already
	begun bool
	mark  []byte // of the end, nil if the first line was not a mark
	end   End
	ended bool
}

// Write takes a piece of the stream. It never fails.
func (r *Reader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), longestHeld-len(r.rest))]
		n := bytes.IndexByte(piece, '\n') + 1
		if n > 0 {
			piece = piece[:n]
		}
		r.rest = append(r.rest, piece...)
		if n > 0 || len(r.rest) == longestHeld {
			r.line(r.rest)
			r.rest = r.rest[:0]
		}
		rest = rest[len(piece):]
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
	if text, ok := bytes.CutPrefix(line, r.mark); ok && r.mark != nil && r.on == nil {
		digits, oom := strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), outOfMemory)
		if code, err := strconv.Atoi(digits); err == nil {
			r.end, r.ended = End{code, oom}, true
			return
		}
	}
	to := r.on
	if to == nil {
		to = r.Stdout
		if text, ok := bytes.CutPrefix(line, []byte(markErr)); ok {
			line, to = text, r.Stderr
		}
	}
	r.on = nil
	if !bytes.HasSuffix(line, []byte("\n")) {
		r.on = to
	}
	if piece, ok := bytes.CutSuffix(line, []byte(markOn+"\n")); ok {
		line = piece
	}
	to.Write(line)
}
