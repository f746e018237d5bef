package object

// Fetch is the operation of a kept value.
const Fetch Op[None, Value] = iota

// NoticeDropped tells the processes that keep a copy of an object that it
// exists no longer.
const NoticeDropped = 0xfe

// kept is an object that only holds a value.
type kept Value

// Keep makes an object of a value, which Fetch returns. Whoever has fetched it
// gets NoticeDropped when it goes, whether it holds the object or not.
func (s *Server) Keep(v Value) (Ref, error) { return s.Make(kept(v), false) }

// Serve replies with the value.
func (v kept) Serve(r *Request) {
	if r.copied() {
		Asked[Value]{r}.Reply(Value(v))
	} else {
		r.Fail(Gone, "")
	}
}

// copied says that the requester gets a copy of the object, unless that is gone.
func (r *Request) copied() bool {
	s, e := r.Peer.home, r.object
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[e.id] != e {
		return false
	}
	if e.copies == nil {
		e.copies = map[*Session]bool{}
	}
	e.copies[r.Peer] = true
	return true
}

// GiveUp refuses a request that was not served.
func (v kept) GiveUp(r *Request) { r.Fail(GivenUp, "") }

// Left does nothing.
func (v kept) Left(*Session, bool) {}

// Drop does nothing.
func (v kept) Drop() {}
