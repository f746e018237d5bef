// Package bars shows how far calls have come: on a terminal as a line for each at its bottom, elsewhere as plain lines now and then.
package bars

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Progress is fiber.Progress.
type Progress struct {
	Call                         uint64
	Done, Failed, Retried, Total int
	Began                        time.Time
	Rate                         float64
	Left                         time.Duration
	Starting, Ready, Lost        int
	Over                         bool
}

// Bar is what is shown of a call.
type Bar struct {
	Label string
	Took  time.Duration // so far
	Progress

	fresh bool // it has changed since it was shown
}

// kind is that of a Bar on its way to who follows the program.
const kind = "progress"

func init() {
	stdio.Takers[kind] = func(payload []byte) {
		var b Bar
		if json.Unmarshal(payload, &b) == nil {
			shown.show(b, time.Time{})
		}
	}
}

// Show shows how far a call has come. The call of p with Over is the last one.
func Show(label string, p Progress) {
	shown.show(Bar{Label: label, Took: time.Since(p.Began), Progress: p}, p.Began)
}

// way is how bars are shown.
type way struct {
	every time.Duration     // at most so often, but for what is over
	line  func(*Bar) []byte // of each that has changed; nil if they are drawn
}

var (
	drawn = way{100 * time.Millisecond, nil}
	plain = way{10 * time.Second, func(b *Bar) []byte {
		line, _ := b.line(0, 0, false)
		return []byte(line + "\n")
	}}
	marked = way{time.Second, func(b *Bar) []byte { // for who follows the program
		payload, _ := json.Marshal(b) // never fails
		return output.Mark(kind, payload)
	}}
)

// maxRest bounds what is kept of a line that does not end.
const maxRest = 64 << 10

// screen shows the bars of the calls that go on.
type screen struct {
	mu    sync.Mutex
	way   *way
	to    *os.File
	bars  []Bar  // in the order in which their calls began
	lines []int  // the widths of the lines that are drawn; the cursor is behind the last one
	rest  []byte // of what is written above, a line that has not ended
	last  time.Time
	timer *time.Timer // nil unless something is to be shown later
	left  time.Time   // when the bars were left last: calls that had begun by then are shown no more
}

var shown screen

// begin finds out how the first bar is to be shown.
func (s *screen) begin() {
	s.to = os.Stderr
	switch {
	case stdio.Followed():
		s.way = &marked
	case term.IsTerminal(int(s.to.Fd())) && os.Getenv("TERM") != "dumb":
		s.way = &drawn
	default:
		s.way, s.last = &plain, time.Now()
	}
	stdio.Stay(s)
}

// show shows a bar, whose call has begun here at that time, or elsewhere.
func (s *screen) show(b Bar, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !began.IsZero() && !began.After(s.left) {
		return
	}
	if len(s.bars) == 0 {
		s.begin()
	}
	b.fresh = true
	i, known := slices.BinarySearchFunc(s.bars, b.Call, func(b Bar, call uint64) int { return cmp.Compare(b.Call, call) })
	if !known {
		s.bars = slices.Insert(s.bars, i, b)
	}
	s.bars[i] = b
	switch wait := s.way.every - time.Since(s.last); {
	case b.Over, wait <= 0:
		s.put(nil, wait <= 0)
	case s.timer == nil:
		s.timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.timer != nil { // nil when it comes too late to be stopped
				s.put(nil, true)
			}
		})
	}
}

// put writes text, and shows the bars that are over, for the last time, or all if that is due.
func (s *screen) put(text []byte, due bool) (err error) {
	if s.way == &drawn {
		due, err = true, s.draw(text)
	}
	for i := range s.bars {
		if b := &s.bars[i]; b.fresh && (due || b.Over) {
			if b.fresh = false; s.way.line != nil {
				_, err = s.to.Write(s.way.line(b))
			}
		}
	}
	if s.bars = slices.DeleteFunc(s.bars, func(b Bar) bool { return b.Over }); due {
		s.last = time.Now()
	}
	if s.timer != nil && (due || len(s.bars) == 0) {
		s.timer.Stop()
		s.timer = nil
	}
	if len(s.bars) == 0 {
		stdio.Stay(nil)
		s.to.Write(s.rest)
		s.rest = nil
	}
	return err
}

// draw draws the bars anew, under the text and those that are over.
func (s *screen) draw(text []byte) error {
	width, height, err := term.GetSize(int(s.to.Fd()))
	if err != nil || width <= 0 {
		width, height = 80, 24
	}
	out := append(s.erase(width), text...)
	column := 0
	for _, b := range s.bars {
		column = max(column, b.labelWidth(width))
	}
	for _, over := range []bool{true, false} {
		for _, b := range s.bars {
			if b.Over != over || len(s.lines) == max(1, height-1) {
				continue
			}
			line, wide := b.line(max(width-1, 1), column, os.Getenv("NO_COLOR") == "")
			if !over && len(s.lines) > 0 {
				out = append(out, '\n')
			}
			if out = append(out, line...); over {
				out = append(out, '\n')
			} else {
				s.lines = append(s.lines, wide)
			}
		}
	}
	_, err = s.to.Write(out)
	return err
}

// erase returns what erases the lines that are drawn. A terminal that is narrower by now has wrapped them.
func (s *screen) erase(width int) (out []byte) {
	up := -1
	for _, wide := range s.lines {
		up += max(1, (wide+width-1)/width)
	}
	if s.lines = s.lines[:0]; up >= 0 {
		out = append(bytes.Repeat([]byte("\x1b[2K\x1b[A"), up), "\r\x1b[2K"...) // not "\x1b[J", of which tmux keeps what it erases at the top
	}
	return out
}

// Above implements [stdio.Bottom].
func (s *screen) Above(f *os.File, p []byte) (int, error) {
	s.mu.Lock()
	if len(s.bars) == 0 || s.way != &drawn || !term.IsTerminal(int(f.Fd())) {
		s.mu.Unlock()
		return f.Write(p)
	}
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	n := bytes.LastIndexByte(s.rest, '\n') + 1
	if n == 0 && len(s.rest) > maxRest {
		s.rest = append(s.rest, '\n')
		n = len(s.rest)
	}
	if n == 0 {
		return len(p), nil
	}
	text := s.rest[:n]
	s.rest = bytes.Clone(s.rest[n:])
	return len(p), s.put(text, true)
}

// Leave implements [stdio.Bottom].
func (s *screen) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = time.Now()
	for i := range s.bars {
		s.bars[i].Over, s.bars[i].fresh = true, true
	}
	if len(s.bars) > 0 {
		s.put(nil, true)
	}
}
