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
	changed *sync.Cond    // something has changed, or a wait may be over
}

// NewSender returns a sender without a reader.
func NewSender() *Sender {
	s := new(Sender)
	s.changed = sync.NewCond(&s.mu)
	s.abandon()
	return s
}

// abandon notes that there is no reader any more. The wait for another one ends after patience.
func (s *Sender) abandon() {
	s.reader, s.left = nil, time.Now()
	time.AfterFunc(patience, s.wake)
}

// wake has those that wait look again.
func (s *Sender) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// givenUp reports whether the wait for a reader has ended.
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
		s.changed.Wait()
	}
	s.kept = append(s.kept, lines...)
	s.changed.Broadcast()
	return len(lines), nil
}

func (s *Sender) drop(n int) {
	s.kept = s.kept[n:]
	s.first += int64(n)
}

// Ending makes room for the output that is still in the pipes of a program that has ended.
func (s *Sender) Ending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.changed.Broadcast()
}

// End ends the stream and waits until the reader has all of it, there was no reader for patience, or ctx ends.
func (s *Sender) End(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
	defer context.AfterFunc(ctx, s.wake)()
	for !s.passed && !s.givenUp() && ctx.Err() == nil {
		s.changed.Wait()
	}
}

// serve sends the stream over a connection until that breaks, or the next one begins, and closes it. It reports whether
// the other end has read.
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
	s.changed.Broadcast()
	return true
}

func (s *Sender) leave(conn *transport.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == conn {
		s.abandon()
		s.changed.Broadcast()
	}
}

// heard notes what the reader has passed on. It returns false if that is all, or can't be.
func (s *Sender) heard(r wire.Reading) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && r.Passed == s.end()+1 {
		s.passed = true
		s.changed.Broadcast()
	}
	if r.Passed > s.end() {
		return false
	}
	s.drop(int(max(0, r.Passed-s.first)))
	s.changed.Broadcast()
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

// next waits for a piece of whole lines at a position. It returns nil once the connection is not the reader's any more, as serve
// finds out when it breaks.
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
		s.changed.Wait()
	}
	return nil, nil
}
