package object

// Bound sets what other processes may have open here: requests, and bytes in them.
func (s *Server) Bound(requests int, bytes int64) { s.maxOpen, s.maxBytes = requests, bytes }

// KeepAtMost sets after how many answers that are not taken garbage is collected.
func (s *Server) KeepAtMost(n int64) { s.maxKept = n }
