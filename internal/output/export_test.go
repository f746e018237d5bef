package output

// Held returns how many bytes have not been passed on.
func (s *Split) Held() int { return len(s.rest) }

// Kept returns how many bytes a log takes.
func (l *Log) Kept() int { return cap(l.kept) }
