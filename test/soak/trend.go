package main

import "slices"

// growth is how much a figure may grow between the first third of a run and the last.
const growth = 1.05

// trend reports whether a figure has grown by more than it may: the lower quartile of its last third against that of its
// first. What comes and goes, such as values of 4 MiB that are under way in half of the looks, is no growth; what stays is.
// Differences up to floor are noise.
func trend(figures []float64, floor float64) (first, last float64, grown bool) {
	third := len(figures) / 3
	if third == 0 {
		return 0, 0, false
	}
	first, last = quartile(figures[:third]), quartile(figures[len(figures)-third:])
	return first, last, last > first*growth && last-first > floor
}

// quartile returns the lower one.
func quartile(figures []float64) float64 {
	return slices.Sorted(slices.Values(figures))[len(figures)/4]
}
