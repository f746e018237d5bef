package job

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/container/logmux"
	"github.com/fiber-go/fiber/internal/container/output"
)

// Passing is the output of a job, as it is passed on. It is for backends whose jobs' two outputs are joined in one stream.
type Passing struct {
	apart   logmux.Reader
	writing atomic.Int32 // to what takes it
	read    chan struct{}
}

// Pass passes on what a job writes: to its log, and to stdout and stderr, unless they are nil, as they take it; behind its
// end they are closed where they are io.Closers. Read reads it, until there is no more: it writes the joined stream to
// apart, and to errs what is known to be stderr's.
func (l *Life) Pass(stdout, stderr io.Writer, read func(apart *logmux.Reader, errs io.Writer)) *Passing {
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

// End is called once the job has ended, and returns how its program's init says that the program has. It waits for the
// rest of the output, for as long as grace: then stop has to end the reading. What is read and not taken is not waited
// for, it follows when somebody takes it.
func (p *Passing) End(grace time.Duration, stop func()) (end logmux.End, said bool) {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-p.read:
	case <-late.C:
		if p.writing.Load() > 0 {
			return logmux.End{}, false
		}
		stop()
		select {
		case <-p.read:
		case <-time.After(grace): // somebody does not take what was left
			return logmux.End{}, false
		}
	}
	return p.apart.Ended()
}

// stream is one of the two that a job writes.
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
