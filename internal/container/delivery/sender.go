package delivery

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// Sender keeps what is written to it until its reader has passed it on.
type Sender struct {
	mu      sync.Mutex
	kept    []byte
	first   int64 // the position of kept[0]
	ending  bool  // the program has ended
	ended   bool  // nothing more is written
	passed  bool  // the reader has everything, and knows that
	reader  *transport.Conn
	left    time.Time     // when the last reader went, if there is none
	away    time.Duration // how long there was none before this one
	changed chan struct{} // closed when something has changed; nil while nobody waits
}

// NewSender returns a sender that nobody reads.
func NewSender() *Sender { return &Sender{left: time.Now()} }

// await blocks until something changes, done is closed, or nobody has read for patience. The lock is held at the call and on
// return.
func (s *Sender) await(done <-chan struct{}) {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	var late <-chan time.Time
	if s.reader == nil {
		late = time.After(time.Until(s.left.Add(patience)))
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-late:
	case <-done:
	}
}

// change wakes those that wait.
func (s *Sender) change() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// givenUp reports whether nobody has read for so long that nobody is waited for.
func (s *Sender) givenUp() bool { return s.reader == nil && time.Since(s.left) >= patience }

// Write adds whole lines. It blocks while the sender is full. It never fails.
func (s *Sender) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		room := window - len(s.kept)
		if s.ending {
			room += rest
		}
		if room >= len(lines) || len(s.kept) == 0 {
			break
		}
		if s.givenUp() {
			over := min(len(lines)-room, len(s.kept))
			s.drop(over + bytes.IndexByte(s.kept[over-1:], '\n'))
			break
		}
		s.await(nil)
	}
	s.kept = append(s.kept, lines...)
	s.change()
	return len(lines), nil
}

func (s *Sender) drop(n int) {
	s.kept = s.kept[n:]
	s.first += int64(n)
}

// Ending makes room for what the program has written and nobody has taken: the program has ended.
func (s *Sender) Ending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.change()
}

// End ends the stream and waits until the reader has all of it, nobody has read for patience, or ctx ends.
func (s *Sender) End(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change()
	for !s.passed && !s.givenUp() && ctx.Err() == nil {
		s.await(ctx.Done())
	}
}

// serve sends the stream over a connection until that breaks, or the next one begins, and closes it. It reports whether
// somebody has read.
func (s *Sender) serve(conn *transport.Conn) (read bool) {
	defer conn.Close()
	conn.LimitMessages(maxMessage)
	from, err := said(conn)
	if err != nil || !s.enter(conn, from) {
		return false
	}
	var sending sync.WaitGroup
	at := from.From
	sending.Go(func() { s.send(conn, at) })
	for err == nil && s.heard(from) {
		from, err = said(conn)
	}
	s.leave(conn)
	conn.Close()
	sending.Wait()
	return true
}

func said(conn *transport.Conn) (r wire.Reading, err error) {
	frames, err := conn.Recv()
	if err == nil && wire.KindOf(frames) != wire.KindReading {
		err = wire.ErrMalformed
	}
	if err == nil {
		err = wire.Unpack(frames, &r)
	}
	return r, err
}

func (s *Sender) end() int64 { return s.first + int64(len(s.kept)) }

// enter makes a connection the reader's, in place of the one before. It returns false for a position that the stream has not
// reached.
func (s *Sender) enter(conn *transport.Conn, from wire.Reading) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from.From < 0 || from.From > s.end() {
		return false
	}
	s.away = time.Since(s.left)
	if s.reader != nil {
		s.away = 0
	}
	s.reader = conn
	s.change()
	return true
}

func (s *Sender) leave(conn *transport.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == conn {
		s.reader, s.left = nil, time.Now()
		s.change()
	}
}

// heard notes what the reader has passed on. It returns false if that is all, or can't be.
func (s *Sender) heard(r wire.Reading) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && r.Passed == s.end()+1 {
		s.passed = true
		s.change()
	}
	if r.Passed > s.end() {
		return false
	}
	s.drop(int(max(0, r.Passed-s.first)))
	s.change()
	return true
}

// send sends what there is from a position on, and what comes.
func (s *Sender) send(conn *transport.Conn, at int64) {
	for last := false; !last; {
		out, lines := s.next(conn, at)
		if out == nil || conn.Send(context.Background(), wire.MustPack(wire.KindOutput, *out, lines)...) != nil {
			conn.Close()
			return
		}
		at, last = out.At+int64(len(lines)), out.Last
	}
}

// next waits for a piece of whole lines at a position. It returns nil once the connection is not the reader's any more.
func (s *Sender) next(conn *transport.Conn, at int64) (*wire.Output, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.reader == conn && conn.Err() == nil {
		out := &wire.Output{At: max(at, s.first)}
		if out.At > at {
			out.Away = s.away
		}
		lines := s.kept[out.At-s.first:] // which nothing overwrites
		if out.Last = s.ended && len(lines) == 0; out.Last || len(lines) > 0 {
			if len(lines) > piece {
				whole := bytes.LastIndexByte(lines[:piece], '\n')
				lines = lines[:max(whole, bytes.IndexByte(lines, '\n'))+1]
			}
			return out, lines
		}
		s.await(conn.Done())
	}
	return nil, nil
}
