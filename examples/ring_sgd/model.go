package main

import "math"

const (
	pixels = 64
	digits = 10
	row    = pixels + 1 // the last weight is the bias
)

// model is softmax regression: a row of weights for each digit.
type model [digits * row]float64

// scores returns the logarithms of the digits' likelihoods, up to a constant.
func (m *model) scores(p *picture) (s [digits]float64) {
	for d := range s {
		w := m[d*row : (d+1)*row]
		s[d] = w[pixels]
		for i, x := range p.pixels {
			s[d] += w[i] * x
		}
	}
	return s
}

// loss returns the cross entropy of one picture and adds its gradient to
// gradient, unless that is nil.
func (m *model) loss(p *picture, gradient *model) float64 {
	s := m.scores(p)
	most := s[0]
	for _, x := range s {
		most = max(most, x)
	}
	total := 0.0
	for d, x := range s {
		s[d] = math.Exp(x - most)
		total += s[d]
	}
	if gradient != nil {
		for d := range s {
			slope := s[d] / total
			if d == p.digit {
				slope--
			}
			g := gradient[d*row : (d+1)*row]
			for i, x := range p.pixels {
				g[i] += slope * x
			}
			g[pixels] += slope
		}
	}
	return math.Log(total) - math.Log(s[p.digit])
}

// guess returns the likeliest digit.
func (m *model) guess(p *picture) int {
	s := m.scores(p)
	best := 0
	for d, x := range s {
		if x > s[best] {
			best = d
		}
	}
	return best
}
