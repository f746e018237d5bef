package fiber

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
)

// lastWords limits how long a child tries to send its outcome to a parent that
// does not read.
const lastWords = 5 * time.Second

// stopping ends this process at a SIGTERM, or when its parent says so.
type stopping struct {
	node   *tree.Node
	parent *tree.Parent
	cancel func()
	over   chan struct{} // closed by conclude

	mu     sync.Mutex
	told   bool
	leave  func() // called at a SIGTERM that is not the parent's
	before func() // called before contexts end
}

// obey waits until the parent says that this process is to end, or for a SIGTERM: an engine's
// takes its time, and a process that does not read hears nothing else. It then ends the
// function's context, and half of the grace later the process. If the parent did
// not send the signal, a worker first has a quarter of the grace to finish its
// tasks. The root handles the terminal's Ctrl-C.
func (s *stopping) obey(signals <-chan os.Signal) {
	word := s.parent.Terminated()
	for {
		select {
		case sig, ok := <-signals:
			if !ok {
				return
			}
			if sig != syscall.SIGTERM {
				continue
			}
		case <-word:
			word = nil
		}
		s.mu.Lock()
		s.told = true
		leave, before := s.leave, s.before
		s.mu.Unlock()
		if leave != nil {
			select {
			case <-s.parent.Terminated():
			default:
				leave()
				select {
				case <-s.parent.Terminated():
				case <-s.over:
				case <-time.After(s.node.Config.ShutdownGrace / 4):
				}
			}
		}
		if before != nil {
			before()
		}
		s.cancel()
		s.node.Terminate()
		select {
		case <-time.After(s.node.Config.ShutdownGrace / 2):
			if p := here(); p != nil {
				p.handOver(s.node.Config.ShutdownGrace / 4)
			}
			self.Of().Die(syscall.SIGTERM)
		case <-s.over:
		}
	}
}

// at sets the functions that are called at a SIGTERM; leave may be nil.
func (s *stopping) at(leave, before func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave, s.before = leave, before
	if s.told {
		before()
	}
}

// wasTold reports whether the process was told to end.
func (s *stopping) wasTold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// conclude ends the process by a SIGTERM if the process was told to end.
func (s *stopping) conclude() {
	close(s.over)
	if s.wasTold() {
		self.Of().Die(syscall.SIGTERM)
	}
}

// obeyParent passes the parent's messages to handle, and ends this process when
// its parent is gone.
func obeyParent(parent *tree.Parent, handle func(kind wire.Kind, frames [][]byte)) {
	for {
		kind, frames, err := parent.Next(false)
		if err != nil {
			self.Of().Exit(1)
		}
		handle(kind, frames)
	}
}

// finish sends a child's outcome and returns the exit code that goes with it. An
// outcome that cannot be sent is a failure: the parent hears of it by the code.
func finish(parent *tree.Parent, failure *wire.Error) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	err := parent.Send(ctx, wire.MustPack(wire.KindDone, wire.Done{Err: failure})...)
	if err != nil {
		fmt.Fprintf(self.Of().Stderr, "fiber: %s has ended, but its parent cannot be told: %v\n", parent.Assign.Name, err)
		if failure != nil {
			fmt.Fprintf(self.Of().Stderr, "%+v\n", unflatten(failure))
		}
	}
	if err != nil || failure != nil {
		return 1
	}
	return 0
}

// failureOf calls a function of the user's and returns its error, or panic.
func failureOf(name string, fn func() error) *wire.Error {
	if err := guard.Call(fn); err != nil {
		return flatten(name, err)
	}
	return nil
}
