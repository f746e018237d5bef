package object

import "context"

// Bound sets what other processes may have open here: requests, and bytes in them.
func (s *Server) Bound(requests int, bytes int64) { s.maxOpen, s.maxBytes = requests, bytes }

// KeepAtMost sets after how many answers that are not taken garbage is collected.
func (s *Server) KeepAtMost(n int64) { s.maxKept = n }

// Join has a process ask for a source of a value, as one that passes its pieces on by means of relay.
func Join(ctx context.Context, s *Server, ref Ref, relay Object) error {
	at, err := s.Make(relay, true)
	if err == nil {
		_, err = Ask(ctx, s, ref, join, joining{relay: at}, nil)
	}
	return err
}

// Members returns how many processes have a value in pieces, or get it, as its home knows.
func (s *Server) Members(ref Ref) int {
	p := s.Local(ref).(kept).spread
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.members)
}
