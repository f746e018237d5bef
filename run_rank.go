package fiber

import (
	"context"
	"errors"
	"os"

	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/ring"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
)

// runRing runs this process as a rank of a ring.
func runRing(ctx context.Context, parent *tree.Parent, stop *stopping) int {
	a := &parent.Assign
	entry, ok := registry.Find(registry.Ring, a.Func).(*ringEntry)
	if !ok {
		finish(parent, flatten(a.Func, errors.New("this ring function is not registered in this process")))
		return 1
	}
	proc := current.Load()
	name := ringName(a.Name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	node := ring.New(ring.Options{Name: name, Rank: a.Rank, Size: a.Size, MaxMessage: int64(a.Config.MaxMessage),
		Post: parent.Post, Listen: proc.node.Listen, Dial: proc.node.Dial, Failed: cancel,
		Break: func(err error) error {
			if !stop.wasTold() {
				parent.Post(wire.MustPack(wire.KindBroken, wire.Broken{Rank: a.Rank, Err: flatten(a.Func, err)})...)
			}
			return &RingError{Ring: name, Rank: a.Rank, Err: err}
		}})
	go obeyRing(parent, node, name)
	failure := runRank(ctx, node, entry, parent.Value)
	if !stop.wasTold() { // else the signal says what happened
		finish(parent, failure)
	}
	if failure != nil {
		node.Fail(ErrClosed) // the neighbours learn from the parent why
	}
	node.Close()
	leave(context.Background())
	if failure != nil {
		return 1
	}
	return 0
}

// ringName returns the ring's part of a rank's name.
func ringName(process string) string {
	for i := len(process) - 1; i >= 0; i-- {
		if process[i] == '/' {
			return process[:i]
		}
	}
	return process
}

// obeyRing handles the parent's messages.
func obeyRing(parent *tree.Parent, node *ring.Node, name string) {
	for {
		kind, frames, err := parent.Next(false)
		if err != nil {
			os.Exit(1)
		}
		switch kind {
		case wire.KindMembers:
			var m wire.Members
			if wire.Unpack(frames, &m) == nil {
				node.Meet(m.All)
			}
		case wire.KindBroken:
			var b wire.Broken
			if wire.Unpack(frames, &b) == nil && b.Err != nil {
				// The error of another rank is a RemoteError. The parent's own error is
				// unwrapped.
				node.Fail(&RingError{Ring: name, Rank: b.Rank, Err: unflattenCause(b.Err, b.Err.Worker != parent.Assign.ParentName)})
			}
		}
	}
}

// runRank connects a rank to the other ranks and runs its functions.
func runRank(ctx context.Context, node *ring.Node, entry *ringEntry, value [][]byte) *wire.Error {
	if err := node.Join(ctx); err != nil {
		return flatten(entry.name, err)
	}
	n := newRingNode(entry.name, node)
	if entry.init != nil {
		if failure := failureOf(entry.name, func() error { return entry.init(ctx, n) }); failure != nil {
			return failure
		}
	}
	if err := node.Do(ctx, ring.Start, 0, 0, ring.Vector{Width: 1}); err != nil {
		return flatten(entry.name, err)
	}
	return failureOf(entry.name, func() error { return entry.run(ctx, n, value) })
}
