//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A unit is the unit of a row's costs, and how they are shown.
type unit struct {
	name string
	show func(cost float64) string
}

var (
	duration = unit{"seconds per operation", func(s float64) string {
		switch {
		case s < 1e-3:
			return fmt.Sprintf("%.1f µs", s*1e6)
		case s < 1:
			return fmt.Sprintf("%.2f ms", s*1e3)
		}
		return fmt.Sprintf("%.3f s", s)
	}}
	rate      = unit{"seconds per task", func(s float64) string { return fmt.Sprintf("%.0f /s", 1/s) }}
	requests  = unit{"API requests", func(n float64) string { return fmt.Sprintf("%.0f", n) }}
	mebibytes = unit{"MiB", func(mib float64) string { return fmt.Sprintf("%.1f MiB", mib) }}
)

// A result is the outcome of a row: Fiber's costs, and the comparisons with others.
type result struct {
	Row         string        `json:"row"`
	Unit        string        `json:"unit"` // of all costs
	Subject     string        `json:"subject,omitempty"`
	Median      float64       `json:"median,omitempty"`
	Comparisons []*comparison `json:"comparisons,omitempty"`
	Samples     []float64     `json:"samples,omitempty"`
	Error       string        `json:"error,omitempty"`

	unit unit
}

// A report is the results of a whole run, as written to JSON.
type report struct {
	Time    time.Time `json:"time"`
	Machine machine   `json:"machine"`
	Results []result  `json:"results"`
}

const line = "%-23s %12s   %-16s %12s   %7s  %-16s  %-12s %s\n"

func printHeader(w io.Writer) {
	fmt.Fprintf(w, line, "row", "fiber", "against", "median", "ratio", "least..most", "bound", "")
}

// print shows a row, one line for each comparison. A ratio with a bound of <= is Fiber's cost divided
// by the other's; one with >=, or x, is how many times as fast as the other Fiber is.
func (r *result) print(w io.Writer) {
	name, median := r.Row, r.unit.show(r.Median)
	switch {
	case r.Error != "":
		fmt.Fprintf(w, "%-23s FAILED: %s\n", name, r.Error)
		return
	case len(r.Comparisons) == 0:
		fmt.Fprintf(w, line, name, median, "-", "", "", "", "", "done")
	}
	for _, c := range r.Comparisons {
		if c.Absent != "" {
			fmt.Fprintf(w, line, name, median, c.Reference, "-", "", "", c.Bound, "not measured: "+c.Absent)
		} else {
			fmt.Fprintf(w, line, name, median, c.Reference, r.unit.show(c.Median), c.show(c.Ratio),
				c.show(c.Least)+".."+c.show(c.Most), c.Bound, c.verdict())
		}
		name, median = "", ""
	}
}

func (c *comparison) show(ratio float64) string {
	if c.bound.speedup {
		return fmt.Sprintf("%.3gx", ratio)
	}
	return fmt.Sprintf("%.3g", ratio)
}

func (c *comparison) verdict() string {
	switch {
	case c.Reached == nil:
		return ""
	case *c.Reached:
		return "reached"
	}
	return "MISSED"
}

// summarize counts the bounds of all rows and returns an error if a row failed. A missed bound is not an
// error: the machine plays a part, too.
func (r *report) summarize(w io.Writer) error {
	reached, missed, absent, failed := 0, 0, 0, 0
	for _, res := range r.Results {
		if res.Error != "" {
			failed++
		}
		for _, c := range res.Comparisons {
			switch {
			case c.Absent != "" && c.Bound != "":
				absent++
			case c.Reached == nil:
			case *c.Reached:
				reached++
			default:
				missed++
			}
		}
	}
	fmt.Fprintf(w, "\nbounds: %d reached, %d missed, %d not measured\n", reached, missed, absent)
	if failed > 0 {
		return fmt.Errorf("%d of %d rows failed", failed, len(r.Results))
	}
	return nil
}

// write saves the report and makes its directory.
func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
