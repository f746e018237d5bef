package bars

import (
	"os"
	"time"
)

// Line is a bar's line on a terminal, without colors, and its width.
func (b Bar) Line(width int) (string, int) {
	return b.line(max(width-1, 1), b.labelWidth(width), false)
}

// Screen shows bars in a file, as on a terminal or elsewhere.
type Screen struct{ screen }

// NewScreen makes one. As long as a first bar goes on, it does not look what the file is.
func NewScreen(to *os.File, terminal bool, first Bar) *Screen {
	s := &Screen{}
	s.to, s.way, s.last = to, &plain, time.Now()
	if terminal {
		s.way = &drawn
	}
	s.bars = []Bar{first}
	return s
}

func (s *Screen) Show(b Bar) { s.show(b, b.Began) }

// Bars returns how many there are.
func (s *Screen) Bars() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bars)
}

// Idle reports whether nothing is to be shown later.
func (s *Screen) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timer == nil
}
