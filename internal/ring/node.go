package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

const (
	// verdictTime is how long a rank whose connection to a neighbour has ended
	// waits for the parent to say why.
	verdictTime = 5 * time.Second
	// lastWords bounds the time for goodbyes, since a neighbour may not read them.
	lastWords = time.Second
)

// ErrClosed is the error of using a node after its function has returned.
var ErrClosed = errors.New("fiber: the ring's function has returned in this process")

// Options are what a node needs of the process around it.
type Options struct {
	Name       string // of the ring
	Rank, Size int
	MaxMessage int64 // bytes

	Post   func(frames ...[]byte) error // to the parent
	Listen func() (*transport.Listener, error)
	Dial   func(ctx context.Context, endpoint string) (*transport.Conn, error)
	// Break tells the parent that this rank cannot go on with the others, and
	// returns the error as the others will see it.
	Break func(err error) error
	// Failed is called once, when the ring fails.
	Failed func(err error)
}

// Node is a rank in its own process.
type Node struct {
	opts        Options
	Members     []wire.Member // of all ranks, after Join
	Left, Right *Neighbour

	in, out     *transport.Conn // collectives: from the left, to the right; nil in a ring of one
	scratch     []byte
	busy        atomic.Bool   // a collective runs
	serial      uint64        // collectives begun
	done        atomic.Uint64 // collectives done
	table       chan []wire.Member
	rightLeft   atomic.Uint64 // 1 + how many collectives the right neighbour had done when it said goodbye; 0 before
	rightEnded  chan struct{} // closed when nothing more comes from it
	readers     sync.WaitGroup
	releasePort func()

	broken chan struct{} // closed when err is set
	over   chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	err    error
	conns  []*transport.Conn
}

// New makes a node, which has no connections before Join.
func New(opts Options) *Node {
	n := &Node{opts: opts, table: make(chan []wire.Member, 1), broken: make(chan struct{}), over: make(chan struct{}),
		rightEnded:  make(chan struct{}),
		releasePort: func() {}}
	n.Left = newNeighbour(n, (opts.Rank+opts.Size-1)%opts.Size)
	n.Right = newNeighbour(n, (opts.Rank+1)%opts.Size)
	return n
}

// Rank is this node's rank, from 0.
func (n *Node) Rank() int { return n.opts.Rank }

// Size is the number of ranks.
func (n *Node) Size() int { return n.opts.Size }

// Meet hands over the parent's list of all ranks, which Join waits for. It does
// not block.
func (n *Node) Meet(all []wire.Member) {
	select {
	case n.table <- all:
	default: // the list comes only once
	}
}

// Fail ends the ring in this process. From now on all operations return err. Only
// the first call counts.
func (n *Node) Fail(err error) {
	n.mu.Lock()
	if n.err != nil || n.closed {
		n.mu.Unlock()
		return
	}
	n.err = err
	conns := n.conns
	n.mu.Unlock()
	close(n.broken)
	n.opts.Failed(err)
	for _, c := range conns {
		c.Close()
	}
}

// failure returns the error that has ended the ring, nil while it goes on.
func (n *Node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return n.err
	}
	if n.closed {
		return ErrClosed
	}
	return nil
}

// Close says goodbye to the neighbours and ends the connections.
func (n *Node) Close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	conns, failed := n.conns, n.err != nil
	n.mu.Unlock()
	close(n.over)
	if !failed {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		for _, c := range conns {
			var count uint64 // of the messages that have come over c, or of the collectives done
			switch c {
			case n.Left.conn:
				count = n.Left.read.Load()
			case n.Right.conn:
				count = n.Right.read.Load()
			default:
				count = n.done.Load()
			}
			c.Post(binary.AppendUvarint([]byte{byte(wire.KindBye)}, count))
		}
		for _, c := range conns {
			c.Flush(ctx)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	n.readers.Wait()
	n.releasePort()
}

// own keeps a connection, which Fail and Close then close. After them, own closes
// it at once, and returns an error.
func (n *Node) own(c *transport.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil || n.closed {
		c.Close()
		return errors.Join(n.err, ErrClosed)
	}
	n.conns = append(n.conns, c)
	return nil
}

// lostError reports that the connection to a neighbour has ended.
type lostError struct {
	rank     int
	returned bool   // the neighbour said goodbye
	count    uint64 // how many of this rank's messages it then said it had read
	err      error
}

func (e *lostError) Error() string {
	if e.returned {
		return fmt.Sprintf("rank %d has returned from the ring's function", e.rank)
	}
	return fmt.Sprintf("the connection to rank %d has ended: %v", e.rank, e.err)
}

func (e *lostError) Unwrap() error { return e.err }

// explain waits for the parent to say why a neighbour has gone, for verdictTime at
// most, and returns that error. Otherwise it returns ctx's error, or err.
func (n *Node) explain(ctx context.Context, err error) error {
	var lost *lostError
	if errors.As(err, &lost) && !lost.returned {
		wait := time.NewTimer(verdictTime)
		defer wait.Stop()
		select {
		case <-n.broken:
		case <-ctx.Done():
		case <-wait.C:
		}
	}
	if failed := n.failure(); failed != nil {
		return failed
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
