package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/wire"
)

// A large value reaches many machines as a tree: its home sends it to a few, in pieces, and who has a piece passes it on. The home
// knows who has asked, and names the source for each. The hashes of the pieces come from the home, so that a source can't spoil them.

// The operations of a value in pieces. The last one is a relay's, too.
const (
	join  Op[joining, Ref] = 0x20 + iota
	tell  Op[joined, None] = 0x20 + iota
	piece Op[int, Value]   = 0x20 + iota
)

const (
	piecesMin  = 256 << 10 // how large a value is at least that goes in pieces
	pieceBytes = 256 << 10 // of each, but the last
	ahead      = 4         // how many pieces of a value a process asks for at once
	takersMost = 2         // to how many processes one sends a value at a time
	triesMost  = 3         // after so many sources have failed, the home itself sends
)

// layout describes a value in pieces: they are its frames, one behind the other.
type layout struct {
	sizes  []int // of the frames
	hashes []byte
}

// pieces returns how many pieces a value of these sizes has.
func pieces(sizes []int) int {
	total := 0
	for _, n := range sizes {
		total += n
	}
	return (total + pieceBytes - 1) / pieceBytes
}

// partsOf returns where the bytes of a piece are in the frames.
func partsOf(frames [][]byte, number int) (parts [][]byte) {
	from, to := number*pieceBytes, (number+1)*pieceBytes
	for _, f := range frames {
		if low, high := max(from, 0), min(to, len(f)); low < high {
			parts = append(parts, f[low:high])
		}
		from, to = from-len(f), to-len(f)
	}
	return parts
}

// hashOf returns the hash of a piece.
func hashOf(parts [][]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// joining asks for a source.
type joining struct {
	relay  Ref   // of the process that asks
	failed []Ref // sources that have failed it
}

// Append appends the packed request to b.
func (q *joining) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	b = wire.AppendUvarint(q.relay.Append(b), uint64(len(q.failed)))
	for _, ref := range q.failed {
		b = ref.Append(b)
	}
	return b, frames
}

// Read takes a packed request.
func (q *joining) Read(in *wire.Reader) {
	q.relay.take(in)
	for n := in.Count(); len(q.failed) < n && in.Err == nil; {
		var ref Ref
		ref.take(in)
		q.failed = append(q.failed, ref)
	}
}

// joined says of a relay that it has the whole value, or passes nothing on any more.
type joined struct {
	Relay Ref
	Whole bool
}

// spread is who has a value in pieces, or gets it, as its home knows.
type spread struct {
	layout lock.Once[layout]

	mu      sync.Mutex
	members []*member // in the order in which they have come
	came    int       // how many there have been
	sent    int       // how often the home was named
}

// member is a process that has a value, or gets it.
type member struct {
	relay   Ref
	session *Session
	whole   bool
	from    *member // that sends to it, nil for the home
}

// spreadOf returns the spread of a value of these frames, nil if it does not go in pieces.
func spreadOf(frames [][]byte) *spread {
	if codec.Size(frames) < piecesMin {
		return nil
	}
	return new(spread)
}

// of returns the layout of a value.
func (p *spread) of(ctx context.Context, v Value) (*layout, error) {
	return p.layout.Make(ctx, func() (*layout, error) {
		frames := v.Frames()
		l := &layout{}
		for _, f := range frames {
			l.sizes = append(l.sizes, len(f))
		}
		l.hashes = make([]byte, pieces(l.sizes)*sha256.Size)
		var all errgroup.Group
		all.SetLimit(runtime.GOMAXPROCS(0))
		for i := range len(l.hashes) / sha256.Size {
			all.Go(func() error {
				copy(l.hashes[i*sha256.Size:], hashOf(partsOf(frames, i)))
				return nil
			})
		}
		return l, all.Wait()
	})
}

// join returns the source for a process: the zero Ref for the home. The home sends at most twice for each doubling of the processes, as
// long as others can.
func (p *spread) join(session *Session, q joining) Ref {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = slices.DeleteFunc(p.members, func(m *member) bool {
		gone, _ := m.session.Gone()
		return gone
	})
	var me *member
	takers := map[*member]int{}
	for _, m := range p.members {
		if m.relay == q.relay {
			me = m
		} else if !m.whole {
			takers[m.from]++
		}
	}
	if me == nil {
		me = &member{relay: q.relay}
		p.members = append(p.members, me)
		p.came++
	}
	me.session, me.from = session, nil
	if len(q.failed) < triesMost && (takers[nil] >= takersMost || p.sent >= 2*bits.Len(uint(p.came))) {
		for _, m := range p.members {
			if takers[m] < takersMost && !m.below(me) && !slices.Contains(q.failed, m.relay) {
				me.from = m
				return m.relay
			}
		}
	}
	p.sent++
	return Ref{}
}

// below says whether a member is another one, or gets the value by way of that.
func (m *member) below(other *member) bool {
	for ; m != nil; m = m.from {
		if m == other {
			return true
		}
	}
	return false
}

// told notes what a member says of itself.
func (p *spread) told(q joined) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.relay == q.Relay })
	switch {
	case i < 0:
	case q.Whole:
		p.members[i].whole, p.members[i].from = true, nil
	default:
		p.members = slices.Delete(p.members, i, i+1)
	}
}

// join answers with a source.
func (v kept) join(r Asked[Ref], q joining) {
	if v.spread == nil {
		r.Malformed()
		return
	}
	r.Reply(v.spread.join(r.Peer, q))
}

// told notes what a relay says.
func (v kept) told(_ Asked[None], q joined) {
	if v.spread != nil {
		v.spread.told(q)
	}
}

// piece answers with a piece.
func (v kept) piece(r Asked[Value], number int) {
	parts := partsOf(v.value.Frames(), number)
	if parts == nil {
		r.Malformed()
		return
	}
	r.Reply(Encoded(parts))
}

// relay is a value that comes in pieces, or has come, and is passed on.
type relay struct {
	home *Server
	at   Ref // of the relay
	of   Ref // the value in the home that was asked last; of who fills
	layout
	frames [][]byte

	mu      sync.Mutex
	here    []bool                 // which pieces are
	next    int                    // all before it are here, or asked for
	waiting map[int][]Asked[Value] // for pieces
	dropped bool
}

// newRelay makes a relay for a value that is to come.
func (s *Server) newRelay(l layout) (*relay, error) {
	r := &relay{home: s, layout: l, here: make([]bool, pieces(l.sizes)), waiting: map[int][]Asked[Value]{}}
	total := int64(0)
	for _, n := range l.sizes {
		total += int64(n)
		if n < 0 || total > s.opts.MaxMessage {
			return nil, wire.ErrMalformed
		}
		r.frames = append(r.frames, make([]byte, n))
	}
	if len(l.hashes) != len(r.here)*sha256.Size {
		return nil, wire.ErrMalformed
	}
	var err error
	r.at, err = s.Make(r, true)
	return r, err
}

// fill gets a value in pieces, of which r has some unless it is nil. came says that some have come.
func (s *Server) fill(ctx context.Context, r *relay, l *layout, home Ref) (_ *relay, came bool, err error) {
	if r == nil || !bytes.Equal(r.hashes, l.hashes) {
		if r != nil {
			r.end()
		}
		if r, err = s.newRelay(*l); err != nil {
			return nil, false, err
		}
	}
	before := r.left()
	err = r.fill(ctx, home)
	return r, r.left() < before, err
}

// left returns how many pieces are missing.
func (r *relay) left() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, here := range r.here {
		if !here {
			n++
		}
	}
	return n
}

// end passes nothing on any more.
func (r *relay) end() {
	Post(r.home, r.of, tell, joined{Relay: r.at})
	r.home.Remove(r.at.Object)
}

// fill gets what is missing from those that the value's home names. It fails when ctx ends, or the home itself does not send.
func (r *relay) fill(ctx context.Context, home Ref) error {
	r.of = home
	for q := (joining{relay: r.at}); ; {
		from, err := Ask(ctx, r.home, home, join, q, func(Ref) {})
		if err != nil {
			return err
		}
		if from == (Ref{}) {
			err = r.pull(ctx, home)
		} else {
			err = r.pull(ctx, from)
			r.home.hangUp(from)
		}
		switch {
		case err == nil:
			Post(r.home, home, tell, joined{Relay: r.at, Whole: true})
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case from == (Ref{}):
			return err
		}
		q.failed = append(q.failed, from)
	}
}

// pull gets what is missing from a source.
func (r *relay) pull(ctx context.Context, from Ref) error {
	r.mu.Lock()
	r.next = 0
	r.mu.Unlock()
	all, ctx := errgroup.WithContext(ctx)
	for range ahead {
		all.Go(func() error {
			for {
				number, is := r.missing()
				if !is {
					return nil
				}
				v, err := Ask(ctx, r.home, from, piece, number, func(Value) {})
				if err == nil {
					err = r.put(number, v)
				}
				if err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

// missing returns the next piece to ask for.
func (r *relay) missing() (number int, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.next < len(r.here) && r.here[r.next] {
		r.next++
	}
	r.next++
	return r.next - 1, r.next <= len(r.here)
}

// put takes a piece that has come, and passes it on to those that wait for it.
func (r *relay) put(number int, v Value) error {
	came := v.Frames()
	if !bytes.Equal(hashOf(came), r.hashes[number*sha256.Size:(number+1)*sha256.Size]) {
		return errSpoilt
	}
	parts := partsOf(r.frames, number)
	for _, p := range parts {
		for n := 0; n < len(p); {
			m := copy(p[n:], came[0])
			if n += m; m == len(came[0]) {
				came = came[1:]
			} else {
				came[0] = came[0][m:]
			}
		}
	}
	r.mu.Lock()
	r.here[number] = true
	waiting := r.waiting[number]
	delete(r.waiting, number)
	r.mu.Unlock()
	for _, w := range waiting {
		w.Reply(Encoded(parts))
	}
	return nil
}

var errSpoilt = errors.New("a piece of a shared value has changed on its way")

var relayOps = Ops(On(piece, func(r *relay, q Asked[Value], number int) {
	if number >= len(r.here) {
		q.Malformed()
		return
	}
	r.mu.Lock()
	here, dropped := r.here[number], r.dropped
	if !here && !dropped {
		r.waiting[number] = append(r.waiting[number], q)
	}
	r.mu.Unlock()
	switch {
	case here:
		q.Reply(Encoded(partsOf(r.frames, number)))
	case dropped:
		q.Fail(Gone, "")
	}
}))

func (r *relay) Serve(q *Request)    { relayOps.Serve(r, q) }
func (r *relay) GiveUp(q *Request)   { q.Fail(GivenUp, "") }
func (r *relay) Left(*Session, bool) {}

// Drop refuses who waits for a piece: there are other sources.
func (r *relay) Drop() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting, r.dropped = nil, true
	r.mu.Unlock()
	for _, requests := range waiting {
		for _, q := range requests {
			q.Fail(Gone, "")
		}
	}
}

// hangUp ends the connection to a source of which nothing else is needed: each value may have another one.
func (s *Server) hangUp(from Ref) {
	s.mu.Lock()
	r := s.remotes[from.Endpoint]
	root := s.catalog.Made()
	ends := r != nil && r.connected() != nil && r.idle() && s.uses[from.Endpoint] == 0 && (root == nil || root.Endpoint != from.Endpoint)
	if ends {
		delete(s.remotes, from.Endpoint)
		s.running.Go(func() { s.dismiss(r.connected()) })
	}
	s.mu.Unlock()
}
