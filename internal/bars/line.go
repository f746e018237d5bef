package bars

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
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
		add(3, "", "in %s", clock(b.Took))
	case b.Over:
		add(3, red, "ended after %s", clock(b.Took))
	default:
		add(5, "", "%s", rate(b.Rate))
		if b.Left >= 0 {
			add(3, "", "%s left", clock(b.Left))
		}
		some(b.Ready, 6, "", "up")
		some(b.Starting, 7, "", "starting")
	}
	some(b.Lost, 4, red, "lost")
	some(b.Failed, 1, red, "failed")
	some(b.Retried, 8, "", "retried")
	return all
}

// label returns the label, cut off at a third of a terminal's width.
func (b *Bar) label(width int) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(b.Label))
	return runewidth.Truncate(text, max(width/3, 8), "~")
}

func (b *Bar) labelWidth(width int) int { return runewidth.StringWidth(b.label(width)) }

// line returns a line of a terminal, and its width, which is width at most. Its label has a column of that width.
func (b *Bar) line(width, column int, color bool) (line string, wide int) {
	paint := func(text, with string) string {
		if !color || with == "" {
			return text
		}
		return with + text + reset
	}
	parts := b.parts()
	if column > 0 {
		parts = slices.Insert(parts, 0, part{text: runewidth.FillRight(b.label(width+1), column), rank: 2})
	}
	byRank := slices.Clone(parts)
	slices.SortStableFunc(byRank, func(x, y part) int { return cmp.Compare(x.rank, y.rank) })
	stays := map[part]bool{}
	used := -len(gap)
	for _, p := range byRank {
		if n := len(gap) + runewidth.StringWidth(p.text); used+n <= width {
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

// text returns a plain line.
func (b *Bar) text() string {
	var texts []string
	for _, p := range b.parts() {
		texts = append(texts, strings.TrimSpace(p.text))
	}
	text := strings.Join(texts, ", ")
	if label := b.label(1 << 10); label != "" {
		text = label + ": " + text
	}
	return text
}

// rate returns a number of tasks a second in readable form.
func rate(perSecond float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{1, "s"}, {60, "min"}, {3600, "h"}} {
		switch n := perSecond * unit.seconds; {
		case n >= 100:
			return fmt.Sprintf("%.0f/%s", n, unit.name)
		case n >= 1:
			return fmt.Sprintf("%.1f/%s", n, unit.name)
		}
	}
	return "0/s"
}

// clock returns a time as 0:09, or 1:02:03.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
