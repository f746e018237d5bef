package main

import "slices"

// growth is how much a figure may grow between the first third of a run and the last.
const growth = 1.05

// trend reports whether a figure has grown by more than it may: the quantile q of its last third against that of its first,
// 0.5 for the median. Differences up to floor are noise.
func trend(figures []float64, q, floor float64) (first, last float64, grown bool) {
	third := len(figures) / 3
	if third == 0 {
		return 0, 0, false
	}
	first, last = quantile(figures[:third], q), quantile(figures[len(figures)-third:], q)
	return first, last, last > first*growth && last-first > floor
}

// quantile returns the figure below which a part q of the others is.
func quantile(figures []float64, q float64) float64 {
	return slices.Sorted(slices.Values(figures))[int(q*float64(len(figures)-1))]
}
