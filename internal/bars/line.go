package bars

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/fiber-go/fiber/internal/names"
)

const (
	// shortest and longest are the widths of what shows the share that is done.
	shortest, longest = 12, 42
	gap               = "  "
)

// part is a part of a line. What has the lowest rank stays on a narrow terminal.
type part struct {
	rank  int
	text  string
	color string
}

const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

// parts returns what is said of the call, from left to right.
func (b *Bar) parts() (all []part) {
	add := func(rank int, color string, format string, args ...any) {
		all = append(all, part{rank, fmt.Sprintf(format, args...), color})
	}
	some := func(n, rank int, color string, what string) {
		if n > 0 {
			add(rank, color, "%d %s", n, what)
		}
	}
	if b.Total > 0 {
		add(2, "", "%3d%%", int(100*float64(b.Done)/float64(b.Total)))
	}
	if b.Total >= 0 {
		add(0, "", "%d/%d", b.Done, b.Total)
	} else {
		add(0, "", "%d", b.Done)
	}
	switch {
	case b.Over && b.Done == b.Total:
		add(3, "", "in %v", b.Took.Round(time.Second))
	case b.Over:
		add(3, red, "ended after %v", b.Took.Round(time.Second))
	default:
		if b.Rate >= 1 || b.Rate == 0 {
			add(5, "", "%.1f/s", b.Rate)
		} else {
			add(5, "", "%.1f/min", 60*b.Rate)
		}
		if b.Left >= 0 {
			add(3, "", "%v left", b.Left.Round(time.Second))
		}
		some(b.Ready, 6, "", "up")
		some(b.Starting, 7, "", "starting")
	}
	some(b.Lost, 4, red, "lost")
	some(b.Failed, 1, red, "failed")
	some(b.Retried, 8, "", "retried")
	return all
}

// label returns the label in one line, cut off at a third of a terminal's width.
func (b *Bar) label(width int) string {
	text := names.Printable(b.Label, ' ')
	return runewidth.Truncate(strings.Join(strings.Fields(text), " "), max(width/3, 8), "~")
}

func (b *Bar) labelWidth(width int) int { return runewidth.StringWidth(b.label(width)) }

// line returns a line of a terminal, and its width, which is width at most, and whose label has a column of that width; for 0, a
// plain line.
func (b *Bar) line(width, column int, color bool) (line string, wide int) {
	paint := func(text, with string) string {
		if !color || with == "" {
			return text
		}
		return with + text + reset
	}
	space := width
	if width == 0 {
		space = math.MaxInt
	}
	parts := b.parts()
	if label := runewidth.FillRight(b.label(space), column); label != "" {
		parts = slices.Insert(parts, 0, part{2, label, ""})
	}
	byRank := slices.Clone(parts)
	slices.SortStableFunc(byRank, func(x, y part) int { return cmp.Compare(x.rank, y.rank) })
	stays := map[part]bool{}
	used := -len(gap)
	for _, p := range byRank {
		if n := len(gap) + runewidth.StringWidth(p.text); used+n <= space {
			used += n
			stays[p] = true
		}
	}
	var texts []string
	for _, p := range parts {
		if stays[p] {
			texts = append(texts, paint(p.text, p.color))
		}
	}
	if room := min(width-used-len(gap), longest); b.Total > 0 && room >= shortest {
		inside := room - 2
		full := inside * min(b.Done, b.Total) / b.Total
		bar := "[" + paint(strings.Repeat("#", full), green) + strings.Repeat("-", inside-full) + "]"
		texts = slices.Insert(texts, min(column, 1), bar)
		used += len(gap) + room
	}
	return strings.Join(texts, gap), max(used, 0)
}
