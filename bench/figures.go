//go:build unix

package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The lines of figures.md between which the results of -peers are.
const (
	figuresBegin = "<!-- make bench-peers -->"
	figuresEnd   = "<!-- the end of make bench-peers -->"
)

// writeFigures writes the results of -peers into a directory: a table into its figures.md, and peers.svg, a picture of it.
func (r *report) writeFigures(dir string) error {
	path := filepath.Join(dir, "figures.md")
	before, after, err := aroundFigures(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(before+r.table()+after), 0o644); err != nil {
		return err
	}
	svg := filepath.Join(dir, "peers.svg")
	if err := os.WriteFile(svg, []byte(r.picture()), 0o644); err != nil {
		return err
	}
	fmt.Println("written to", path, "and", svg)
	return nil
}

// aroundFigures returns what stands before and after the results of -peers in a file.
func aroundFigures(path string) (before, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	before, rest, begins := strings.Cut(string(text), figuresBegin)
	_, after, ends := strings.Cut(rest, figuresEnd)
	if !begins || !ends {
		return "", "", fmt.Errorf("%s has no lines %q and %q, between which the results belong", path, figuresBegin, figuresEnd)
	}
	return before + figuresBegin + "\n", figuresEnd + after, nil
}

// table returns what figures.md says of the peers.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s: %d CPUs (%s), %s, %s, Linux %s. Medians; in brackets, how many times Fiber's time or memory.\n",
		r.Time.Format("2 January 2006"), r.Machine.CPUs, r.Machine.CPU, gibibytes(r.Machine.Memory), r.Machine.Go, r.Machine.Kernel)
	var columns []string
	var absent, lost []string
	for _, res := range r.Results {
		if names := res.peers(); !slices.Equal(names, columns) {
			columns = names
			fmt.Fprintf(&b, "\n| | Fiber | %s |\n|---|---|%s\n", strings.Join(res.titles(), " | "), strings.Repeat("---|", len(columns)))
		}
		fmt.Fprintf(&b, "| %s | **%s** |", res.Row, res.unit.show(res.Median))
		for _, c := range res.Comparisons {
			if c.Absent != "" {
				b.WriteString(" - |")
				absent = append(absent, fmt.Sprintf("- %s, %s: %s\n", res.Row, c.Reference, c.Absent))
				continue
			}
			fmt.Fprintf(&b, " %s (%s) |", res.unit.show(c.Median), times(c.Ratio))
			if c.Ratio < 1 {
				lost = append(lost, fmt.Sprintf("- %s: %s takes %s of what Fiber takes.\n", res.Row, c.Reference, times(c.Ratio)))
			}
		}
		b.WriteString("\n")
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n%s", title, strings.Join(lines, ""))
		}
	}
	section("Where Fiber loses:", lost)
	section("Not measured, and why:", absent)
	return b.String()
}

// gibibytes shows an amount that the kernel has said in kB.
func gibibytes(text string) string {
	var kib float64
	fmt.Sscan(text, &kib)
	return fmt.Sprintf("%.0f GiB", kib/(1<<20))
}

// times shows a ratio of costs.
func times(ratio float64) string {
	if ratio < 10 {
		return fmt.Sprintf("%.2gx", ratio)
	}
	return fmt.Sprintf("%.0fx", ratio)
}

// peers returns the names of those that a result has comparisons with.
func (r *result) peers() (names []string) {
	for _, c := range r.Comparisons {
		names = append(names, c.Reference)
	}
	return names
}

// titles returns them with their versions.
func (r *result) titles() (titles []string) {
	for _, c := range r.Comparisons {
		titles = append(titles, strings.TrimSpace(c.Reference+" "+c.Version))
	}
	return titles
}

// The picture: a line for each work, and on it a mark for each peer, on a logarithmic axis of how many times as much as Fiber it takes.
const (
	pictureLeft, pictureRight, pictureWidth = 290, 44, 900
	pictureTop, pictureLine                 = 72, 32
	pictureApart                            = 3 // between the marks of two peers, which would hide one another
)

var marks = []string{"#d97706", "#7c3aed", "#0284c7", "#dc2626", "#059669", "#be185d", "#4d7c0f"}

func (r *report) picture() string {
	least, most := 1.0, 10.0
	var names []string
	for _, res := range r.Results {
		for _, c := range res.Comparisons {
			if !slices.Contains(names, c.Reference) {
				names = append(names, c.Reference)
			}
			if c.Absent == "" && c.Ratio > 0 {
				least, most = min(least, c.Ratio), max(most, c.Ratio)
			}
		}
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	x := func(ratio float64) float64 {
		return pictureLeft + (math.Log10(ratio)-from)/(to-from)*(pictureWidth-pictureLeft-pictureRight)
	}
	height := pictureTop + pictureLine*len(r.Results) + 40
	bottom := height - 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<title>Fiber beside its peers</title>
<style>svg{background:#fff}text{fill:#222}.grid{stroke:#ddd}.one{stroke:#222;stroke-width:2}
@media(prefers-color-scheme:dark){svg{background:#16181d}text{fill:#ddd}.grid{stroke:#333}.one{stroke:#ddd}}</style>
`, pictureWidth, height)
	at := 20.0
	for i, name := range names {
		fmt.Fprintf(&b, `<circle cx="%.0f" cy="18" r="6" fill="%s"/><text x="%.0f" y="22">%s</text>`+"\n", at, color(i), at+11, html.EscapeString(name))
		at += 32 + 7.2*float64(len(name))
	}
	for p := from; p <= to; p++ {
		ratio, class := math.Pow(10, p), "grid"
		if p == 0 {
			class = "one"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%gx</text>`+"\n",
			class, x(ratio), x(ratio), pictureTop-16, bottom, x(ratio), bottom+18, ratio)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">Fiber</text>`+"\n", x(1), pictureTop-20)
	for i, res := range r.Results {
		y := pictureTop + pictureLine*i + pictureLine/2
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			pictureLeft, pictureWidth-pictureRight, y, y, pictureLeft-10, y+4, html.EscapeString(res.Row))
		shown := slices.Clone(res.Comparisons)
		slices.SortStableFunc(shown, func(a, b *comparison) int { return cmp.Compare(b.Ratio, a.Ratio) })
		for _, c := range shown {
			if c.Absent == "" && c.Ratio > 0 {
				i := slices.Index(names, c.Reference)
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="5" fill="%s"><title>%s: %s</title></circle>`+"\n",
					x(c.Ratio), float64(y)+(float64(i%len(inPython))-float64(len(inPython)-1)/2)*pictureApart, color(i), html.EscapeString(c.Reference), times(c.Ratio))
			}
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">times as much as Fiber: further right is slower, or more memory</text>`+"\n</svg>\n", pictureWidth-pictureRight, bottom+34)
	return b.String()
}

func color(i int) string { return marks[i%len(marks)] }
