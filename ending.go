package fiber

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
)

// lastWords bounds the sending of a child's outcome to a parent that does
// not read.
const lastWords = 5 * time.Second

// stopping is how this process ends at a SIGTERM.
type stopping struct {
	node   *tree.Node
	parent *tree.Parent
	cancel func()

	mu     sync.Mutex
	told   bool
	leave  func() // called at a SIGTERM that is not the parent's
	before func() // called before contexts end
}

// obey waits for a SIGTERM: the function's context ends, and when it has not
// heeded that for half of the grace, so does the process. If the parent did not
// send it, a worker has a quarter of the grace before that to finish what it
// runs. The terminal's Ctrl-C is the root's to handle.
func (s *stopping) obey(signals <-chan os.Signal) {
	for sig := range signals {
		if sig != syscall.SIGTERM {
			continue
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
				case <-time.After(s.node.Config.ShutdownGrace / 4):
				}
			}
		}
		if before != nil {
			before()
		}
		s.cancel()
		s.node.Terminate()
		time.Sleep(s.node.Config.ShutdownGrace / 2)
		dieBySIGTERM()
	}
}

// at sets what is called at a SIGTERM; leave may be nil.
func (s *stopping) at(leave, before func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave, s.before = leave, before
	if s.told {
		before()
	}
}

// wasTold says whether the process was told to end.
func (s *stopping) wasTold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// conclude ends the process by the signal if it was told to end.
func (s *stopping) conclude() {
	if s.wasTold() {
		dieBySIGTERM()
	}
}

// dieBySIGTERM ends this process as the signal does where nobody handles it,
// so that its exit status says what happened.
func dieBySIGTERM() {
	signal.Reset(syscall.SIGTERM)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(syscall.SIGTERM) == nil {
		select {}
	}
	os.Exit(128 + int(syscall.SIGTERM))
}

// endWithParent ends this process when its parent is gone.
func endWithParent(parent *tree.Parent) {
	for {
		if _, _, err := parent.Next(false); err != nil {
			os.Exit(1)
		}
	}
}

// finish sends a child's outcome.
func finish(parent *tree.Parent, failure *wire.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	parent.Send(ctx, wire.MustPack(wire.KindDone, wire.Done{Err: failure})...)
}

// failureOf calls a function of the user's.
func failureOf(name string, fn func() error) *wire.Error {
	if err := guard.Call(fn); err != nil {
		return flatten(name, err)
	}
	return nil
}
