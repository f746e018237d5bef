package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Output reads what the program of a pod writes. It reopens broken connections, and writes each line once.
//
// Each connection begins with the whole log, and skips the lines that were written before: by their times, and by their
// number if times are equal. Asking only for the lines since a time would lose lines: if the node's clock is put back, the
// node drops all that follow until the clock has caught up. So a reopened connection costs as much as the node keeps of the
// log, usually 10 MiB.
type Output struct {
	Client *Client
	Pod    *corev1.Pod
	To     io.Writer
	Lost   func(error) // called for a broken connection, once until output comes again, and for the node's errors in the log; may be nil

	opened bool      // at least once
	said   string    // the node's last error in the log
	first  time.Time // of the log's first line
	mark   mark
}

// mark is how far the output has been written.
type mark struct {
	at    time.Time // of the last line
	lines int       // how many of that time were written in full
	part  int       // how many bytes of the next one were written
	back  bool      // the node's clock was put back: the lines since then count as of that time
}

// setBack is how much earlier than its predecessor a line must be to show that the clock was put back. Smaller steps back
// occur if the program writes two streams: the node may read the later line first.
const setBack = time.Minute

// writeError means that the output's reader is gone.
type writeError struct{ error }

func (w writeError) Unwrap() error { return w.error }

// Unread reports whether err means that the output's reader is gone.
func Unread(err error) bool { return errors.As(err, new(writeError)) }

// followGrace is how long the followed output may lag behind the end of the program: the node looks only now and then
// whether there is more.
const followGrace = 500 * time.Millisecond

// Follow writes the output until ended is closed, which tells that the program has ended, and all of the output is written.
func (o *Output) Follow(ctx context.Context, ended <-chan struct{}) error {
	pause := Backoff{}
	var refusals refusals
	told := false
	for {
		over := isClosed(ended)
		before := o.mark
		err := o.once(ctx, !over, ended)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case Unread(err):
			return err
		case over && (err == nil || noLogsYet(err)), apierrors.IsNotFound(err):
			return nil
		case refusals.final(err, o.opened):
			return err
		case !over && isClosed(ended):
			continue
		case err != nil && !noLogsYet(err) && !told && o.Lost != nil:
			o.Lost(fmt.Errorf("%w; trying again", err))
			told = true
		}
		if o.mark != before {
			told = false
			pause.Reset()
		}
		if over {
			ended = nil
		}
		pause.Wait(ctx, ended)
	}
}

// Read writes the output so far.
func (o *Output) Read(ctx context.Context) error {
	if err := o.once(ctx, false, nil); !noLogsYet(err) {
		return err
	}
	return nil
}

// once opens the log and writes what is new. It stops following the log shortly after the program's end.
func (o *Output) once(ctx context.Context, follow bool, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if follow {
		go func() {
			select {
			case <-ended:
				time.AfterFunc(followGrace, cancel)
			case <-ctx.Done():
			}
		}()
	}
	opts := corev1.PodLogOptions{Container: Main(o.Pod).Name, Follow: follow, Timestamps: true}
	r, err := o.Client.REST.Get().Namespace(o.Client.Namespace).Resource("pods").Name(o.Pod.Name).SubResource("log").
		VersionedParams(&opts, Parameters()).Stream(ctx)
	if err != nil {
		return o.Client.Explain(err, "get", "pods/log")
	}
	defer r.Close()
	o.opened = true
	return o.copy(r)
}

// noLogsYet reports whether err says that a container has not started. The container may have started nevertheless.
func noLogsYet(err error) bool {
	return apierrors.IsBadRequest(err) && (strings.Contains(err.Error(), "waiting to start") ||
		strings.Contains(err.Error(), "is not available") || strings.Contains(err.Error(), "does not have a host assigned"))
}

// halfTime matches the beginning of a line's time.
var halfTime = regexp.MustCompile(`^[0-9][-0-9T:.Z+]*$`)

// copy writes the lines of r that are new, without their times.
func (o *Output) copy(r io.Reader) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(o.To, 64<<10)
	at, skip := o.mark.at, o.mark.lines
	begin, words, drop, part := true, false, 0, 0
	var last time.Time
	for {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return writeError{err}
			}
		}
		piece, err := in.ReadSlice('\n')
		if cut := begin && err != nil && len(piece) <= len(time.RFC3339Nano) && halfTime.Match(piece); len(piece) > 0 && !cut { // a line that is cut in its time will come again
			text := piece
			if begin {
				stamp, rest, ok := bytes.Cut(piece, []byte(" "))
				t, bad := time.Parse(time.RFC3339Nano, string(stamp))
				if words = !ok || bad != nil; words { // the node's own line, such as an error in the log
					drop = -1
					if said := strings.TrimSpace(string(piece)); said != o.said && o.Lost != nil {
						o.said = said
						o.Lost(errors.New(said))
					}
				} else {
					text = rest
					if last.IsZero() && o.begins(t) {
						at, skip = time.Time{}, 0
					}
					back := last.Sub(t) > setBack
					if t.Before(last) {
						t = last
					}
					last = t
					drop = o.begin(t, at, &skip)
					o.mark.back = o.mark.back || back && t.Equal(o.mark.at)
					part = 0
				}
			}
			begin = bytes.HasSuffix(piece, []byte("\n"))
			whole := len(text)
			switch {
			case drop < 0:
				text = nil
			case drop > 0:
				n := min(drop, len(text))
				text, drop = text[n:], drop-n
			}
			if _, err := out.Write(text); err != nil {
				return writeError{err}
			}
			if drop >= 0 && !words {
				if part += whole; begin {
					o.mark.lines, o.mark.part = o.mark.lines+1, 0
				} else {
					o.mark.part = max(o.mark.part, part)
				}
			}
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if err := out.Flush(); err != nil {
				return writeError{err}
			}
			return nil
		default:
			out.Flush()
			return fmt.Errorf("the connection was lost: %w", err)
		}
	}
}

// begins handles the time of the log's first line, and reports whether the whole log has to be written. After the log was
// rotated, the first line is another one. If the clock was put back as well, the times do not tell what was written, and
// the line that they were counted from is gone: then lines come twice. If both happened since the last connection, that is
// not noticed, and lines are lost.
func (o *Output) begins(t time.Time) bool {
	anew := !o.first.IsZero() && !t.Equal(o.first) && (o.mark.back || t.Before(o.first))
	o.first = t
	if anew {
		o.mark = mark{}
	}
	return anew
}

// begin begins a line of time t. It returns how many bytes of the line were written before, -1 for all. The mark with which
// this connection began is in at and skip.
func (o *Output) begin(t, at time.Time, skip *int) int {
	switch {
	case t.Before(at):
		return -1
	case t.Equal(at) && *skip > 0:
		*skip--
		return -1
	case t.Equal(o.mark.at):
		return o.mark.part
	}
	o.mark = mark{at: t}
	return 0
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
