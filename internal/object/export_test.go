package object

// Bound sets what other processes may have open here: requests, and bytes in them.
func (s *Server) Bound(requests int, bytes int64) { s.maxOpen, s.maxBytes = requests, bytes }
