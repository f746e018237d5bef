package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fiber-go/fiber/internal/retry"
)

// Output reads what the program of a pod writes. It reopens broken connections, and writes each line once.
//
// Each connection begins with the whole log, of which it skips as many bytes as were read before. If the log was rotated
// meanwhile, which its first line shows, it skips all lines up to the time of the last one. Asking only for the lines since a time
// would lose lines: if the node's clock is put back, the node drops all that follow until the clock has caught up. So a reopened
// connection costs as much as the node keeps of the log, usually 10 MiB.
type Output struct {
	Client *Client
	Pod    *corev1.Pod
	To     io.Writer   // its errors are ignored
	Lost   func(error) // called for a broken connection, once until output comes again, and for the node's errors in the log; may be nil

	opened bool      // at least once
	said   string    // the node's last error in the log
	first  time.Time // of the log's first line
	read   int64     // how many bytes of the log were read, or seeking
	last   time.Time // of the last line that was written
	part   int       // how many bytes of that line were written
}

// seeking takes the place of the number of bytes that were read until the last line that was written is found.
const seeking = math.MaxInt64

// followGrace is how long the followed output may lag behind the end of the program: the node looks only now and then
// whether there is more.
const followGrace = 500 * time.Millisecond

// Follow writes the output until ended is closed, which tells that the program has ended, and all of the output is written.
func (o *Output) Follow(ctx context.Context, ended <-chan struct{}) error {
	var refusals Refusals
	told := false
	for again := (retry.Pauses{Longest: LongestPause}); ; {
		over := isClosed(ended)
		before := o.read
		err := o.once(ctx, !over, ended)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case over && (err == nil || noLogsYet(err)), apierrors.IsNotFound(err):
			return nil
		case refusals.Final(err, o.opened):
			return err
		case !over && isClosed(ended):
			continue
		case err != nil && !noLogsYet(err) && !told && o.Lost != nil:
			o.Lost(fmt.Errorf("%w; trying again", err))
			told = true
		}
		if o.read != before {
			told = false
			again.Reset()
		}
		wake := ended
		if over {
			wake = nil
		}
		select {
		case <-again.Next():
		case <-wake:
		case <-ctx.Done():
		}
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

// copy writes the lines of r that are new, without their times.
func (o *Output) copy(r io.Reader) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(o.To, 64<<10)
	at := int64(0) // how much of the log this connection has read
	begins, own := true, false
	for {
		if in.Buffered() == 0 {
			out.Flush()
		}
		piece, err := in.ReadSlice('\n')
		text := piece
		if begins {
			stamp, rest, _ := bytes.Cut(piece, []byte(" "))
			t, bad := time.Parse(time.RFC3339Nano, string(stamp))
			if own = bad == nil && len(stamp) < len(piece); own {
				text = rest
				o.begin(t, at, len(piece)-len(rest))
			}
		}
		begins = bytes.HasSuffix(piece, []byte("\n"))
		if own {
			at += int64(len(piece))
			text = text[max(0, len(text)-int(max(0, at-o.read))):]
			o.read, o.part = max(o.read, at), o.part+len(text)
			out.Write(text)
		} else if begins {
			o.say(strings.TrimSpace(string(piece)))
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			out.Flush()
			return nil
		default:
			out.Flush()
			return fmt.Errorf("the connection was lost: %w", err)
		}
	}
}

// begin begins a line of time t at a position of the log; stamp is the length of its time. If the log was rotated, and the clock
// put back as well, times do not tell which lines were written, and lines come twice. If both happened since the last connection,
// Output can't tell, and lines are lost.
func (o *Output) begin(t time.Time, at int64, stamp int) {
	if at == 0 {
		switch {
		case o.first.IsZero() || t.Equal(o.first):
		case t.Before(o.first):
			o.read = 0
		default:
			o.read = seeking
		}
		o.first = t
	}
	begun := at + int64(stamp)
	switch {
	case o.read != seeking || t.Before(o.last):
	case t.Equal(o.last):
		o.read = begun + int64(o.part)
	default:
		o.read = at
	}
	if o.read <= begun {
		o.last, o.part = t, 0
	}
}

// say reports a line of the log that is the node's own, such as an error.
func (o *Output) say(words string) {
	if words != o.said && o.Lost != nil {
		o.said = words
		o.Lost(errors.New(words))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
