package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Planted faults show in the figures.
func TestPlantedLeaks(t *testing.T) {
	for plant, figure := range map[string]string{"goroutine": "goroutines", "descriptor": "descriptors", "memory": "heap MiB"} {
		s := &soak{ground: &ground{}}
		series := func(faults int) (figures []float64) {
			for range 30 {
				for range faults {
					s.planted = append(s.planted, plants[plant](s, t.Context()))
				}
				figures = append(figures, s.take(t.Context())[figure])
			}
			return figures
		}
		_, _, grown := trend(series(0), floors[figure])
		require.False(t, grown, "%s without a fault", figure)
		_, _, grown = trend(series(1), floors[figure])
		require.True(t, grown, figure)
	}
}

// An item that was acknowledged but not received is lost.
func TestLostItem(t *testing.T) {
	t.Parallel()
	a := &account{acked: []item{{0, 0}, {0, 1}, {1, 1}}, taken: map[item][]int{{0, 0}: {1}, {1, 1}: {2}, {1, 2}: {1}}}
	require.Equal(t, []item{{0, 1}}, a.lost())
}
