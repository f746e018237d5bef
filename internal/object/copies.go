package object

// Copies says which processes have values that this home keeps or lists: how many of them the process of a name has, and how many
// there are. A process has a value that it has made, or has fetched from here, which it may have forgotten since. has is nil if there
// are none.
func (s *Server) Copies(refs []Ref) (has func(process string) int, values int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*entry
	for _, ref := range refs {
		if m := s.made[ref]; m != nil {
			ref = m.at
		}
		if e := s.objects[ref.Object]; e != nil && s.mine(ref) {
			switch e.Object.(type) {
			case kept, *listed:
				all = append(all, e)
			}
		}
	}
	if all == nil {
		return nil, 0
	}
	return func(process string) (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p := s.named[process]
		for _, e := range all {
			if l, is := e.Object.(*listed); e.copies[p] || is && l.at.Process == process {
				n++
			}
		}
		return n
	}, len(all)
}
