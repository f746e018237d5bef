package fiber

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
)

// OnProgress is called once a second at most while no task ends, no more when the rate has fallen to nothing, and a last time. No
// timer is left then. What a checkpoint had counts for no rate.
func TestProgressWithoutTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var all []Progress
		told := func() []Progress {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		last := func() Progress {
			now := told()
			return now[len(now)-1]
		}
		o := &callOptions{progress: func(p Progress) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p)
		}}
		var p progress
		p.of(o, &Pool{engine: engine.New(engine.Options{})}, 1000)
		p.had(500)
		time.Sleep(time.Second / 2)
		require.Equal(t, []Progress{{Call: last().Call, Done: 500, Total: 1000, Began: last().Began, Left: -1}}, told())
		for range 10 {
			time.Sleep(time.Second)
			p.add(10, 0)
		}
		require.Equal(t, 600, last().Done)
		rate := last().Rate
		require.InDelta(t, 10, rate, 1)
		require.InDelta(t, 40, last().Left.Seconds(), 4)
		before := len(told())
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10, len(told())-before, 1)
		require.Less(t, last().Rate, rate)
		time.Sleep(time.Hour)
		require.Less(t, len(told())-before, 200)
		require.Zero(t, last().Rate)
		require.EqualValues(t, -1, last().Left)
		before = len(told())
		var ended atomic.Bool
		p.end(func() { ended.Store(true) })
		p.add(1, 0)
		p.end(nil)
		require.False(t, p.timer.Stop(), "a timer is left")
		time.Sleep(time.Hour)
		require.True(t, ended.Load())
		require.Len(t, told(), before+1)
		require.True(t, told()[before].Over)
		require.Equal(t, 600, told()[before].Done)
	})
}

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
