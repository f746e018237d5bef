//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// A bound limits the ratio of Fiber's cost and a reference's.
type bound struct {
	factor  float64 // 0 for no bound
	speedup bool    // the reference's cost over Fiber's is at least factor; else Fiber's over the reference's is at most factor
	slack   float64 // subtracted from Fiber's cost before the comparison
}

// atMost allows Fiber factor times the reference's cost.
func atMost(factor float64) bound { return bound{factor: factor} }

// atLeast requires Fiber to be factor times as fast as the reference.
func atLeast(factor float64) bound { return bound{factor: factor, speedup: true} }

// forInformation shows how many times as fast as the reference Fiber is, and
// requires nothing.
var forInformation = bound{speedup: true}

// plus allows Fiber d in addition: at most factor times the reference's cost,
// plus d.
func (b bound) plus(d time.Duration) bound {
	b.slack = d.Seconds()
	return b
}

func (b bound) String() string {
	var s string
	switch {
	case b.factor == 0:
		return ""
	case b.speedup:
		s = fmt.Sprintf(">= %g", b.factor)
	default:
		s = fmt.Sprintf("<= %g", b.factor)
	}
	if b.slack > 0 {
		s += fmt.Sprintf(" + %g ms", b.slack*1e3)
	}
	return s
}

// ratio returns the ratio of the costs of one turn of Fiber and one of the
// reference.
func (b bound) ratio(subject, reference float64) float64 {
	if b.speedup {
		return reference / subject
	}
	return max(0, subject-b.slack) / reference
}

func (b bound) reached(ratio float64) bool {
	if b.speedup {
		return ratio >= b.factor
	}
	return ratio <= b.factor
}

// A comparison is Fiber against one reference: the costs of each turn and their ratios.
type comparison struct {
	Reference string    `json:"reference"`
	Median    float64   `json:"median,omitempty"`
	Ratio     float64   `json:"ratio,omitempty"` // the median of the pairwise ratios
	Least     float64   `json:"least,omitempty"`
	Most      float64   `json:"most,omitempty"`
	Bound     string    `json:"bound,omitempty"`
	Reached   *bool     `json:"reached,omitempty"` // nil without a bound
	Version   string    `json:"version,omitempty"`
	Absent    string    `json:"absent,omitempty"`
	Samples   []float64 `json:"samples,omitempty"`

	bound bound
}

// settle computes the ratios, turn by turn, against Fiber's costs of the same turns.
func (c *comparison) settle(subject []float64) {
	ratios := make([]float64, len(subject))
	for i := range subject {
		ratios[i] = c.bound.ratio(subject[i], c.Samples[i])
	}
	c.Median, c.Ratio = median(c.Samples), median(ratios)
	c.Least, c.Most = slices.Min(ratios), slices.Max(ratios)
	if c.bound.factor > 0 {
		reached := c.bound.reached(c.Ratio)
		c.Reached = &reached
	}
}
