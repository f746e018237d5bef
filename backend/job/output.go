package job

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/logmux"
	"github.com/fiber-go/fiber/internal/output"
)

// Passing passes on the output of a job. It is for backends that deliver a job's two outputs as one stream.
type Passing struct {
	apart   logmux.Reader
	writing atomic.Int32 // writes to stdout and stderr under way
	read    chan struct{}
}

// Apart takes what a job writes as its init joins it, in one stream, and takes the two
// outputs apart.
type Apart = logmux.Reader

// Pass passes on what a job writes: to its log, and to stdout and stderr unless they are nil. A slow stdout or stderr slows
// the reading down. If they are io.Closers, they are closed after the end of the output. The function read reads the output
// to its end: it writes the joined stream to apart, and what is known to be stderr's to errs.
func (l *Life) Pass(stdout, stderr io.Writer, read func(apart *Apart, errs io.Writer)) *Passing {
	p := &Passing{read: make(chan struct{})}
	out, errs := stream{l.Output, stdout, &p.writing}, stream{l.Output, stderr, &p.writing}
	p.apart = logmux.Reader{Stdout: out, Stderr: errs}
	go func() {
		defer close(p.read)
		read(&p.apart, errs)
		p.apart.Close()
		for _, w := range []io.Writer{stdout, stderr} {
			if c, ok := w.(io.Closer); ok {
				c.Close()
			}
		}
	}()
	return p
}

// Done is closed when all of the output has been passed on.
func (p *Passing) Done() <-chan struct{} { return p.read }

// End is called once the job has ended. It returns how the program ended, as its init reported; said is false without such a
// report. End waits for the rest of the output until none has come for grace, then calls stop, which has to end the reading. It
// does not wait for a stdout or stderr that blocks: that output follows later, when it unblocks.
func (p *Passing) End(grace time.Duration, stop func()) (end logmux.End, said bool) {
	late := time.NewTimer(grace)
	defer late.Stop()
	for before := p.apart.Came(); ; late.Reset(grace) {
		select {
		case <-p.read:
			return p.apart.Ended()
		case <-late.C:
		}
		if p.writing.Load() > 0 {
			return logmux.End{}, false
		}
		now := p.apart.Came()
		if now == before {
			break
		}
		before = now
	}
	stop()
	select {
	case <-p.read:
		return p.apart.Ended()
	case <-time.After(grace): // stdout or stderr blocks
		return logmux.End{}, false
	}
}

// stream is the stdout or the stderr of a job.
type stream struct {
	log     *output.Log
	to      io.Writer
	writing *atomic.Int32
}

func (s stream) Write(p []byte) (int, error) {
	s.log.Write(p)
	if s.to != nil {
		s.writing.Add(1)
		s.to.Write(p)
		s.writing.Add(-1)
	}
	return len(p), nil
}
