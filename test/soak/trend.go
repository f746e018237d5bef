package main

import "slices"

// growth is how much a figure may grow between the first third of a run and the last.
const growth = 1.05

// trend reports whether a figure has grown by more than it may: the median of its last third against that of its first.
// Differences up to floor are noise.
func trend(figures []float64, floor float64) (first, last float64, grown bool) {
	third := len(figures) / 3
	if third == 0 {
		return 0, 0, false
	}
	first, last = median(figures[:third]), median(figures[len(figures)-third:])
	return first, last, last > first*growth && last-first > floor
}

func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
