package logmux

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// longestHeld is how much of an unfinished line a Reader holds back. A Writer's lines are shorter.
const longestHeld = 64 << 10

// Reader splits a joined stream, which is written to it, into Stdout and Stderr. Lines without a mark are stdout. If the
// first line is missing, for example because an engine has dropped it, the reader does not recognise the end. A line on
// Stderr says how many bytes of the stream are missing, as soon as that is known.
type Reader struct {
	Stdout, Stderr io.Writer

	read  int64   // bytes of the stream before rest, with those that are missing
	rest  []byte  // of an unfinished line
	on    int     // which output takes the rest of a line whose beginning was written already, 0 for none
	open  [3]bool // by output: its last line has no end yet
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

// Missing says that n bytes are missing, where and why. Here is between two lines.
func (r *Reader) Missing(n int64, why string) {
	for _, to := range []int{toStdout, toStderr} {
		if r.open[to] {
			io.WriteString(r.output(to), "\n")
			r.open[to] = false
		}
	}
	r.read, r.on = r.read+n, 0
	fmt.Fprintf(r.Stderr, "fiber: %d bytes of output are missing %s\n", n, why)
}

// Again returns a writer for the same stream from its beginning, as another source has it. The reader takes what it has
// not read yet. If that source has lost the beginning, nobody knows which part that is, and the reader takes nothing.
func (r *Reader) Again() io.Writer { return &again{Reader: r, skip: r.read + int64(len(r.rest))} }

type again struct {
	*Reader
	skip        int64
	begun, lost bool
}

func (a *again) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		if a.lost = a.skip > 0 && !bytes.HasPrefix(p, a.mark[:min(len(a.mark), len(p))]); a.lost {
			fmt.Fprintln(a.Stderr, "fiber: what follows of the output is missing: it was not read in time, and has left the log as well")
		}
	}
	skipped := min(a.skip, int64(len(p)))
	a.skip -= skipped
	if !a.lost {
		a.Reader.Write(p[skipped:])
	}
	return len(p), nil
}

func (r *Reader) line(line []byte) {
	before := r.read
	r.read += int64(len(line))
	if !r.begun {
		r.begun = true
		if Begins(line) {
			r.mark = bytes.Clone(line[:len(line)-1])
			return
		}
	}
	if r.on == 0 && r.last(line, before) {
		return
	}
	to := r.on
	if to == 0 {
		to = toStdout
		if text, ok := bytes.CutPrefix(line, []byte(markErr)); ok {
			line, to = text, toStderr
		}
	}
	r.on = 0
	if !bytes.HasSuffix(line, []byte("\n")) {
		r.on = to
	}
	if piece, ok := bytes.CutSuffix(line, []byte(markOn+"\n")); ok {
		line = piece
	}
	r.open[to] = !bytes.HasSuffix(line, []byte("\n"))
	r.output(to).Write(line)
}

// last reports whether a line is the end of the stream, and takes it. It knows how many bytes came before. Without the mark
// it may be the program's, but is most likely the end of a stream that has lost its beginning.
func (r *Reader) last(line []byte, before int64) bool {
	if !bytes.HasPrefix(line, []byte("\x1b[;;")) {
		return false
	}
	m := lastLine.FindSubmatch(line)
	if m == nil || r.mark != nil && !bytes.Equal(m[1], r.mark) {
		return false
	}
	if size, _ := strconv.ParseInt(string(m[4]), 10, 64); size > before {
		r.Missing(size-before, "above: they had left the log before they were read")
	}
	if r.mark == nil {
		return false
	}
	r.end.Code, _ = strconv.Atoi(string(m[2])) // three digits
	r.end.OutOfMemory, r.ended = len(m[3]) > 0, true
	return true
}

// The outputs of a Reader.
const (
	toStdout = 1 + iota
	toStderr
)

func (r *Reader) output(to int) io.Writer {
	return [...]io.Writer{toStdout: r.Stdout, toStderr: r.Stderr}[to]
}
