package logmux

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
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
	came  atomic.Int64
}

// Came returns how many bytes have come, from wherever. It may be called while others come.
func (r *Reader) Came() int64 { return r.came.Load() }

// Write takes a piece of the stream. It never fails.
func (r *Reader) Write(p []byte) (int, error) {
	r.came.Add(int64(len(p)))
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

// Missing says that n bytes of the stream, some of which are marks, are missing, where and why. Here is between two lines.
func (r *Reader) Missing(n int64, why string) {
	for _, to := range []int{toStdout, toStderr} {
		if r.open[to] {
			io.WriteString(r.output(to), "\n")
			r.open[to] = false
		}
	}
	r.read, r.on = r.read+n, 0
	fmt.Fprintf(r.Stderr, "fiber: about %d bytes of output are missing %s\n", n, why)
}

// Again returns a writer for the same stream from its beginning, as another source has it. The reader takes what it has
// not read yet.
func (r *Reader) Again() *Again { return &Again{r: r, skip: r.read + int64(len(r.rest))} }

// Again takes a stream once more; see [Reader.Again].
type Again struct {
	r          *Reader
	skip       int64
	begun, cut bool
	kept       []byte // what waits; of a source that has lost the beginning, for the end, which says where it begins
}

// mostKept bounds what is kept of such a source, which has about 10 MiB: the log of a node.
const mostKept = 64 << 20

func (a *Again) Write(p []byte) (int, error) {
	a.r.came.Add(int64(len(p)))
	a.kept = append(a.kept, p...)
	if !a.begun {
		begins := append(bytes.Clone(a.r.mark), '\n')
		if len(a.kept) < len(begins) && bytes.HasPrefix(begins, a.kept) {
			return len(p), nil // what it is shows later
		}
		a.begun, a.cut = true, a.r.mark != nil && !bytes.HasPrefix(a.kept, begins)
	}
	if !a.cut {
		skipped := min(a.skip, int64(len(a.kept)))
		a.skip -= skipped
		a.r.Write(a.kept[skipped:])
		a.kept = a.kept[:0]
	} else if over := len(a.kept) - mostKept; over > 0 {
		a.kept = a.kept[over+bytes.IndexByte(a.kept[over:], '\n')+1:]
	}
	return len(p), nil
}

// Close tells the reader that the source has no more. The last line of the stream may be known otherwise. A line says how much
// is missing.
func (a *Again) Close(last string) {
	r := a.r
	end := max(0, bytes.LastIndex(a.kept, r.mark))
	m := r.ending(a.kept[end:])
	switch {
	case r.ended:
	case a.cut && m != nil:
		missing := sizeIn(m) - int64(end) - r.read - int64(len(r.rest))
		if missing > 0 {
			r.Close()
			r.Missing(missing, "here: they had left the log before they were read")
		}
		r.Write(a.kept[max(0, -missing):])
	case r.ending([]byte(last)) != nil:
		if strings.HasPrefix(last, string(r.rest)) {
			r.rest = nil
		}
		r.Close()
		r.on = 0
		r.Write([]byte(last))
	case a.cut:
		fmt.Fprintln(r.Stderr, "fiber: what follows of the output is missing: it was not read in time, and has left the log as well")
	}
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
		} else {
			line = bytes.TrimPrefix(line, []byte(markOut))
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
	m := r.ending(line)
	if m == nil {
		return false
	}
	if size := sizeIn(m); size > before {
		r.Missing(size-before, "above: they had left the log before they were read")
	}
	if r.mark == nil {
		return false
	}
	r.end.Code, _ = strconv.Atoi(string(m[2])) // three digits
	r.end.OutOfMemory, r.ended = len(m[3]) > 0, true
	return true
}

// ending returns the parts of a line that may be the last one, nil for another line.
func (r *Reader) ending(line []byte) [][]byte {
	if !bytes.HasPrefix(line, []byte("\x1b[;;")) {
		return nil
	}
	m := lastLine.FindSubmatch(line)
	if m != nil && r.mark != nil && !bytes.Equal(m[1], r.mark) {
		return nil
	}
	return m
}

// sizeIn returns how many bytes come before a last line.
func sizeIn(ending [][]byte) int64 {
	size, _ := strconv.ParseInt(string(ending[4]), 10, 64)
	return size
}

// The outputs of a Reader.
const (
	toStdout = 1 + iota
	toStderr
)

func (r *Reader) output(to int) io.Writer {
	return [...]io.Writer{toStdout: r.Stdout, toStderr: r.Stderr}[to]
}
