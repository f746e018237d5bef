package object

// The operation of a kept value, and the notice that it is withdrawn.
const (
	Fetch     Op[None, Value] = iota
	withdrawn Op[None, None]  = iota
)

// kept is an object that only holds a value.
type kept Value

// Keep makes a pinned object of a value, which Fetch returns.
func (s *Server) Keep(v Value) (Ref, error) { return s.Make(kept(v), true) }

// Withdraw removes a kept value, and notifies its holders.
func (s *Server) Withdraw(ref Ref) {
	holders := s.Holders(ref.Object)
	s.Remove(ref.Object)
	for _, p := range holders {
		Notify(p, ref.Object, withdrawn, None{})
	}
}

// Serve replies with the value.
func (v kept) Serve(r *Request) { Asked[Value]{r}.Reply(Value(v)) }

// GiveUp refuses a request that was not served.
func (v kept) GiveUp(r *Request) { r.Fail(GivenUp, "") }

// Left does nothing.
func (v kept) Left(*Session, bool) {}

// Drop does nothing.
func (v kept) Drop() {}
