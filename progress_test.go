package fiber

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The rate is that of late, and falls to nothing when no task ends any more.
func TestPace(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	p := pace{began: begun, at: begun, over: paceSeconds}
	require.Zero(t, p.rate())
	require.EqualValues(t, -1, p.left(5, true))
	require.Zero(t, p.left(0, true))
	for i := range 20 {
		p.count(10, begun.Add(time.Duration(i+1)*time.Second))
	}
	require.InDelta(t, 10, p.rate(), 0.5)
	require.InDelta(t, 100*time.Second, p.left(1000, true), float64(5*time.Second))
	require.EqualValues(t, -1, p.left(1000, false), "the total isn't known")
	for i := range 60 {
		p.count(40, begun.Add(time.Duration(21+i)*time.Second))
	}
	require.InDelta(t, 40, p.rate(), 3, "what was slower is forgotten")
	p.tasks = 1e-300
	require.Positive(t, p.left(math.MaxInt, true), "what takes longer than any time")
	for i := range 300 {
		p.count(0, begun.Add(time.Duration(81+i)*time.Second))
	}
	require.Zero(t, p.rate())
	require.EqualValues(t, -1, p.left(5, true))

	p = pace{began: begun, at: begun, over: paceSeconds}
	for i := range 10 {
		p.count(1, begun.Add(time.Duration(i+1)*time.Minute))
	}
	p.count(0, begun.Add(10*time.Minute+50*time.Second))
	require.InDelta(t, 60, 1/p.rate(), 10, "tasks of a minute")
}
