package object_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/test/objecttest"
)

// lender answers under its lock, which every request takes, as a queue does.
type lender struct {
	mu      sync.Mutex
	waiting []object.Asked[object.None]
	back    int
}

const (
	lend object.Op[object.None, object.None] = iota
	back object.Op[object.None, object.None] = iota
)

var lending = object.Ops(
	object.Awaited(lend, func(l *lender, r object.Asked[object.None], _ object.None) { l.waiting = append(l.waiting, r) }),
	object.On(back, func(l *lender, _ object.Asked[object.None], _ object.None) { l.back++ }),
)

func (l *lender) Serve(r *object.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lending.Serve(l, r)
}

func (l *lender) GiveUp(r *object.Request)   { r.Fail(object.GivenUp, "") }
func (l *lender) Left(*object.Session, bool) {}
func (l *lender) Drop()                      {}
func (l *lender) lendTo(ended context.CancelFunc) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended()
	for _, r := range l.waiting {
		r.Reply(object.None{})
	}
	n, l.waiting = len(l.waiting), nil
	return n
}

// An answer that comes to a caller of the object's own process, just as the
// caller's context ends, is given back, although the object holds its lock.
func TestLateAnswerOfAnObjectOfOnesOwn(t *testing.T) {
	t.Parallel()
	h := objecttest.NewRun(t).Home("Home")
	l := new(lender)
	ref, err := h.Make(l, true)
	require.NoError(t, err)
	for range 20_000 {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			object.Ask(ctx, h, ref, lend, object.None{}, func(object.None) { object.Post(h, ref, back, object.None{}) })
		}()
		for l.lendTo(cancel) == 0 {
			select {
			case <-asked: // it has ended before it was asked
			default:
				continue
			}
			break
		}
		<-asked
	}
	h.Close() // waits for what is still under way
}
