package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// verdictTime is how long a rank whose connection to a neighbour has ended waits
// for the parent to say why.
const verdictTime = 5 * time.Second

// ErrClosed is the error of using a node after its function has returned.
var ErrClosed = errors.New("fiber: the ring's function has returned in this process")

// Options are what a node needs of the process around it.
type Options struct {
	Name       string // of the ring
	Rank, Size int
	MaxMessage int64 // bytes

	Patience time.Duration // how long a neighbour may take to connect

	Post   func(frames ...[]byte) error // to the parent
	Listen func(ctx context.Context) (*transport.Listener, error)
	Dial   func(ctx context.Context, endpoint string) (*transport.Conn, error)
	// Break tells the parent that this rank cannot go on with the others, and
	// returns the error as the others will see it.
	Break func(err error) error
	// Failed is called when the ring fails, at each call of Fail with the same error.
	Failed func(err error)
}

// Node is a rank in its own process.
type Node struct {
	opts        Options
	Members     []wire.Member // of all ranks, after Join
	Left, Right *Neighbour

	in, out     *transport.Conn // collectives: from the left, to the right
	scratch     []byte
	busy        atomic.Bool // a collective runs
	serial      uint64      // collectives begun
	table       chan []wire.Member
	readers     sync.WaitGroup
	talking     sync.WaitGroup // neighbours that have neither said goodbye nor gone
	releasePort func()

	life context.Context // ends with the ring, or with the function; the cause is what operations return from then on
	end  context.CancelCauseFunc

	mu    sync.Mutex
	conns []*transport.Conn
}

// New makes a node, which has no connections before Join.
func New(opts Options) *Node {
	n := &Node{opts: opts, table: make(chan []wire.Member, 1), releasePort: func() {}}
	n.life, n.end = context.WithCancelCause(context.Background())
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
	n.end(err)
	n.opts.Failed(n.failure())
	n.hangUp()
}

// hangUp ends all connections.
func (n *Node) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
}

// failure returns the error that has ended the ring, nil while it goes on.
func (n *Node) failure() error { return context.Cause(n.life) }

// Close says goodbye to the neighbours. It ends the connections when they have
// said goodbye, too: until then they may still be sending. A connection that ends
// without a goodbye is therefore always a loss.
func (n *Node) Close() {
	n.end(ErrClosed)
	n.mu.Lock()
	for _, c := range n.conns {
		c.Post([]byte{byte(wire.KindBye)})
	}
	n.mu.Unlock()
	n.talking.Wait()
	n.hangUp()
	n.readers.Wait()
	n.releasePort()
}

// own keeps a connection, which Fail and Close then close. After them, own closes
// it at once, and returns an error.
func (n *Node) own(c *transport.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.failure(); err != nil {
		c.Close()
		return err
	}
	n.conns = append(n.conns, c)
	return nil
}

// lostError reports that the connection to a neighbour has ended.
type lostError struct {
	rank     int
	returned bool // the neighbour said goodbye
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
		case <-n.life.Done():
		case <-ctx.Done():
		case <-wait.C:
		}
	}
	ended := ctx.Err() // asked first, since a failure may end ctx, too
	if failed := n.failure(); failed != nil {
		return failed
	}
	if ended != nil && !errors.Is(err, transport.ErrUnknownOutcome) {
		return ended
	}
	return err
}
