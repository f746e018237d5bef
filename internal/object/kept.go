package object

// The operation of a kept value, and the notice that it is withdrawn.
const (
	Fetch     Op[None, Frames] = iota // the value
	withdrawn Op[None, None]   = iota
)

// kept is an object that is an encoded value, and nothing else.
type kept [][]byte

// Keep makes a pinned object of an encoded value, which Fetch gets.
func (s *Server) Keep(frames [][]byte) (Ref, error) { return s.Make(kept(frames), true) }

// Withdraw removes a value, and tells those who hold it.
func (s *Server) Withdraw(ref Ref) {
	holders := s.Holders(ref.Object)
	s.Remove(ref.Object)
	for _, p := range holders {
		Notify(p, ref.Object, withdrawn, None{})
	}
}

// Serve replies with the value.
func (v kept) Serve(r *Request) { r.Reply(nil, v) }

// GiveUp has nothing to do: the reply is on its way.
func (v kept) GiveUp(*Request) {}

// Left has nothing to do.
func (v kept) Left(*Session, bool) {}

// Drop has nothing to do.
func (v kept) Drop() {}
