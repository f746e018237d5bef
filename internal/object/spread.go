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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/self"
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
	piecesMin    = 256 << 10 // how large a value is at least that goes in pieces
	pieceBytes   = 256 << 10 // of each, but the last
	ahead        = 4         // how many pieces of a value a process asks for at once
	takersMost   = 2         // for how many processes at a time one is named as their source
	triesMost    = 3         // after so many sources have failed, the home itself sends
	failuresMost = 2         // who has failed so many is a source no more
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
	members map[Ref]*member // by their relays
	order   []*member       // as they have come
	direct  []*member       // to which the home sends
	came    int             // how many there have been
	sent    int             // how often the home was named
}

// member is a process that has a value, or gets it.
type member struct {
	relay   Ref
	session *Session // the last in which it has said something
	from    *member  // that sends to it, nil for the home
	takers  int      // to whom it sends
	failed  int      // how many it has failed
	ended   bool     // it passes nothing on any more
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
	me := p.members[q.relay]
	if me == nil {
		if p.came++; p.came%sweepEvery == 0 {
			p.sweep()
		}
		me = &member{relay: q.relay}
		if p.members == nil {
			p.members = map[Ref]*member{}
		}
		p.members[q.relay] = me
		p.order = append(p.order, me)
	}
	me.session = session
	p.detach(me)
	if n := len(q.failed); n > 0 {
		if m := p.members[q.failed[n-1]]; m != nil {
			m.failed++
		}
	}
	p.direct = slices.DeleteFunc(p.direct, (*member).gone)
	if len(q.failed) < triesMost && (len(p.direct) >= takersMost || p.sent >= 2*bits.Len(uint(p.came))) {
		for _, m := range p.order {
			if m.takers < takersMost && m.failed < failuresMost && !m.ended && !slices.Contains(q.failed, m.relay) && !m.below(me) && !m.gone() {
				me.from = m
				m.takers++
				return m.relay
			}
		}
	}
	p.direct = append(p.direct, me)
	p.sent++
	return Ref{}
}

// detach ends what a member gets from its source.
func (p *spread) detach(m *member) {
	if m.from != nil {
		m.from.takers--
		m.from = nil
	}
	if i := slices.Index(p.direct, m); i >= 0 {
		p.direct = slices.Delete(p.direct, i, i+1)
	}
}

// gone says whether a member is not connected any more. It may come back, and what others get from it may have come before.
func (m *member) gone() bool {
	gone, _ := m.session.Gone()
	return gone
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

// sweepEvery is after how many new members those are forgotten that have gone, and to whom nobody listens: others may be below them.
const sweepEvery = 64

func (p *spread) sweep() {
	p.order = slices.DeleteFunc(p.order, func(m *member) bool {
		over := m.takers == 0 && (m.ended || m.gone())
		if over {
			p.detach(m)
			delete(p.members, m.relay)
		}
		return over
	})
}

// told notes what a member says of itself.
func (p *spread) told(session *Session, q joined) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[q.Relay]; m != nil {
		m.session = session
		p.detach(m)
		m.ended = !q.Whole
	}
}

// join answers with a source.
func (v kept) join(r Asked[Ref], q joining) {
	if v.spread == nil || q.relay.Process != r.Peer.Name {
		r.Malformed()
		return
	}
	r.Reply(v.spread.join(r.Peer, q))
}

// told notes what a relay says.
func (v kept) told(r Asked[None], q joined) {
	if v.spread != nil && q.Relay.Process == r.Peer.Name {
		v.spread.told(r.Peer, q)
	}
}

// piece answers with a piece.
func (v kept) piece(r Asked[Value], number int) {
	if number < 0 || number > codec.Size(v.value.Frames())/pieceBytes {
		r.Malformed()
		return
	}
	r.Reply(Encoded(partsOf(v.value.Frames(), number)))
}

// relay is a value that comes in pieces, or has come, and is passed on.
type relay struct {
	home *Server
	at   Ref // of the relay
	of   Ref // the value in its home, as far as is known; of the one goroutine that fills or ends
	layout
	frames [][]byte

	mu      sync.Mutex
	here    []bool                 // which pieces are
	next    int                    // all before it are here, or asked for
	waiting map[int][]Asked[Value] // for pieces
	dropped bool
}

// newRelay makes a relay for a value that is to come. It serves nobody if this process can't be reached.
func (s *Server) newRelay(l layout) (*relay, error) {
	total := int64(0)
	for _, n := range l.sizes {
		if total += int64(n); n < 0 || total > s.opts.MaxMessage {
			return nil, wire.ErrMalformed
		}
	}
	if len(l.hashes) != pieces(l.sizes)*sha256.Size {
		return nil, wire.ErrMalformed
	}
	r := &relay{home: s, layout: l, here: make([]bool, pieces(l.sizes)), waiting: map[int][]Asked[Value]{}}
	for _, n := range l.sizes {
		r.frames = append(r.frames, make([]byte, n))
	}
	r.at, _ = s.Make(r, true)
	return r, nil
}

// fill gets a value in pieces, of which r has some unless it is nil. came says that some have come.
func (s *Server) fill(ctx context.Context, r *relay, l *layout, home Ref) (_ *relay, came bool, err error) {
	if r == nil || !bytes.Equal(r.hashes, l.hashes) {
		r.end()
		if r, err = s.newRelay(*l); err != nil {
			return nil, false, err
		}
	}
	r.isOf(home)
	before := r.left()
	err = r.fill(ctx)
	return r, r.left() < before, err
}

// isOf notes in which home the value is, whose connection is needed as long as the relay is.
func (r *relay) isOf(home Ref) {
	if home != (Ref{}) {
		r.home.visit(home)
	}
	if r.of != (Ref{}) {
		r.home.leaves(r.of)
	}
	r.of = home
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
	if r == nil || r.of == (Ref{}) {
		return
	}
	Post(r.home, r.of, tell, joined{Relay: r.at})
	r.home.Remove(r.at.Object)
	r.isOf(Ref{})
}

// fill gets what is missing from those that the value's home names. It fails when ctx ends, or the home itself does not send.
func (r *relay) fill(ctx context.Context) error {
	if r.at == (Ref{}) {
		return r.pull(ctx, r.of)
	}
	for q := (joining{relay: r.at}); ; {
		from, err := Ask(ctx, r.home, r.of, join, q, func(Ref) {})
		if err != nil {
			return err
		}
		if from == (Ref{}) {
			err = r.pull(ctx, r.of)
		} else {
			err = r.pull(ctx, from)
		}
		switch {
		case err == nil:
			Post(r.home, r.of, tell, joined{Relay: r.at, Whole: true})
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
	r.home.visit(from)
	defer r.home.leaves(from)
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
	came, parts := v.Frames(), partsOf(r.frames, number)
	if codec.Size(came) != codec.Size(parts) || !bytes.Equal(hashOf(came), r.hashes[number*sha256.Size:(number+1)*sha256.Size]) {
		return errSpoilt
	}
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
	if number < 0 || number >= len(r.here) {
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
func (r *relay) Left(*Session, bool) {}

// GiveUp forgets a request.
func (r *relay) GiveUp(q *Request) {
	r.mu.Lock()
	for number, all := range r.waiting {
		r.waiting[number] = slices.DeleteFunc(all, func(w Asked[Value]) bool { return w.Request == q })
	}
	r.mu.Unlock()
	q.Fail(GivenUp, "")
}

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

// visit notes that the connection to a home is needed to fetch a value, until leaves.
func (s *Server) visit(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits[ref.Endpoint]++
}

// leaves takes a visit back. A connection of which nothing else is needed ends soon: each value may have another source.
func (s *Server) leaves(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.visits[ref.Endpoint]--; s.visits[ref.Endpoint] > 0 {
		return
	}
	delete(s.visits, ref.Endpoint)
	if r := s.remotes[ref.Endpoint]; r != nil && !r.own() {
		r.visited = time.Now()
		self.AfterFunc(visitAgain, func() { s.hangUp(ref.Endpoint, r) })
	}
}

// visitAgain is how long after a visit the next one finds the connection.
const visitAgain = 5 * time.Second

// hangUp ends a connection, unless something needs it, or there was another visit.
func (s *Server) hangUp(endpoint string, r *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := r.connected()
	if s.remotes[endpoint] != r || conn == nil || s.uses[endpoint]+s.visits[endpoint] > 0 || time.Since(r.visited) < visitAgain || !r.idle() {
		return
	}
	for ref := range s.watchers {
		if ref.Endpoint == endpoint {
			return
		}
	}
	delete(s.remotes, endpoint)
	s.running.Go(func() { s.dismiss(conn) })
}
