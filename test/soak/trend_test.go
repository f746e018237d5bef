package main

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrend(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	series := func(at func(i int) float64) (figures []float64) {
		for i := range 60 {
			figures = append(figures, at(i))
		}
		return figures
	}
	underWay := func(i int) float64 { // a value of 4 MiB, in a third of the looks at first, and in two thirds at last
		if i%3 <= i/30 {
			return 11
		}
		return 7
	}
	for name, test := range map[string]struct {
		figures []float64
		q       float64
		floor   float64
		grown   bool
	}{
		"none":                    {nil, 0.5, 0, false},
		"too few":                 {[]float64{1, 2}, 0.5, 0, false},
		"constant":                {series(func(int) float64 { return 200 }), 0.5, 0, false},
		"noise":                   {series(func(int) float64 { return 200 + 10*r.NormFloat64() }), 0.5, 10, false},
		"shrinks":                 {series(func(i int) float64 { return 200 - float64(i) }), 0.5, 0, false},
		"grows by 4 %":            {series(func(i int) float64 { return 1000 + 1.0*float64(i) }), 0.5, 0, false},
		"grows by 8 %":            {series(func(i int) float64 { return 1000 + 2.0*float64(i) }), 0.5, 0, true},
		"grows by 8 % in noise":   {series(func(i int) float64 { return 1000 + 2.0*float64(i) + 10*r.NormFloat64() }), 0.5, 10, true},
		"one peak":                {append(series(func(int) float64 { return 200 }), 5000), 0.5, 0, false},
		"a low start":             {append([]float64{1, 5, 50}, series(func(int) float64 { return 200 })...), 0.5, 0, false},
		"a count of 3 becomes 4":  {series(func(i int) float64 { return 3 + float64(i/30) }), 0.5, 2, false},
		"a count of 3 becomes 10": {series(func(i int) float64 { return 3 + float64(i/8) }), 0.5, 2, true},
		"a count of 0 becomes 3":  {series(func(i int) float64 { return float64(i / 15) }), 0.5, 2, true},
		"values under way":        {series(underWay), 0.1, 2, false},
		"their median":            {series(underWay), 0.5, 2, true},
		"a leak below them":       {series(func(i int) float64 { return underWay(i) + float64(i)/10 }), 0.1, 2, true},
	} {
		_, _, grown := trend(test.figures, test.q, test.floor)
		require.Equal(t, test.grown, grown, name)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, quantile([]float64{3, 1, 2}, 0.5), 0)
	require.InDelta(t, 2, quantile([]float64{5, 3, 1, 2, 4}, 0.25), 0)
	require.InDelta(t, 1, quantile([]float64{1}, 0.1), 0)
}
