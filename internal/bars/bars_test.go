package bars_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/bars"
)

// A line leaves out what has no room, and keeps what matters.
func TestLine(t *testing.T) {
	t.Parallel()
	half := bars.Progress{Done: 500, Total: 1000, Failed: 3, Retried: 2, Rate: 12.34, Left: 40 * time.Second, Starting: 2, Ready: 6, Lost: 1}
	for _, test := range []struct {
		bar   bars.Bar
		width int
		want  string
	}{
		{bars.Bar{Label: "evaluating", Progress: half}, 200,
			"evaluating  [####################--------------------]   50%  500/1000  12.3/s  40s left  6 up  2 starting  1 lost  3 failed  2 retried"},
		{bars.Bar{Label: "evaluating", Progress: half}, 80, "evaluating   50%  500/1000  12.3/s  40s left  6 up  1 lost  3 failed  2 retried"},
		{bars.Bar{Label: "evaluating", Progress: half}, 40, "evaluating   50%  500/1000  3 failed"},
		{bars.Bar{Label: "evaluating", Progress: half}, 12, "500/1000"},
		{bars.Bar{Progress: half}, 40, " 50%  500/1000  40s left  3 failed"},
		{bars.Bar{Label: "all that\nis to be done to day", Progress: half}, 80, "all that is to be done to~   50%  500/1000  12.3/s  40s left  1 lost  3 failed"},
		{bars.Bar{Label: "评估评估评估评估", Progress: bars.Progress{Done: 1, Total: -1, Left: -1, Rate: 0.1}}, 40, "评估评估评估~  1  6.0/min"},
		{bars.Bar{Label: "\x1b[2Jx\u202ey\x00", Progress: bars.Progress{Left: -1}}, 40, "[2Jx y  0/0  0.0/s"},
		{bars.Bar{Label: "none", Progress: bars.Progress{Left: -1}}, 40, "none  0/0  0.0/s"},
		{bars.Bar{Label: "x", Progress: bars.Progress{Done: 7, Total: 7, Ready: 3, Over: true}, Took: 3723 * time.Second}, 60, "x  [################################]  100%  7/7  in 1h2m3s"},
		{bars.Bar{Label: "x", Progress: bars.Progress{Done: 7, Total: 9, Failed: 1, Over: true}, Took: time.Second}, 60, "x  [#############----]   77%  7/9  ended after 1s  1 failed"},
	} {
		line, wide := test.bar.Line(test.width)
		require.Equal(t, test.want, line)
		require.Equal(t, runewidth.StringWidth(line), wide)
	}
	half.Total, half.Left = math.MaxInt, math.MaxInt64
	for width := range 300 {
		line, wide := bars.Bar{Label: "evaluating all", Progress: half}.Line(width)
		require.Equal(t, runewidth.StringWidth(line), wide)
		require.LessOrEqual(t, wide, max(width-1, 1), "it would be wrapped")
	}
}

// shown returns what bars write while calls go on, in a second of so many steps. Time is simulated.
func shown(t *testing.T, terminal bool, seconds, perSecond int) string {
	file := filepath.Join(t.TempDir(), "shown")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	synctest.Test(t, func(t *testing.T) {
		bar := bars.Bar{Label: "evaluating", Progress: bars.Progress{Call: 2, Total: seconds * perSecond}}
		s := bars.NewScreen(f, terminal, bar)
		for bar.Done < bar.Total {
			time.Sleep(time.Second / time.Duration(perSecond))
			bar.Done++
			s.Show(bar)
			if bar.Done%perSecond == 0 { // another call comes and goes
				s.Show(bars.Bar{Label: "short", Progress: bars.Progress{Call: 3, Over: true}})
			}
		}
		time.Sleep(time.Minute)
		require.True(t, s.Idle(), "a change is shown once")
		bar.Done--
		s.Show(bar)
		bar.Done, bar.Over = bar.Total, true
		s.Show(bar)
		require.True(t, s.Idle(), "a timer is left")
	})
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// When the program has ended its bars, a call that has begun before is shown no more, however late it ends.
func TestLeave(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "shown"))
	require.NoError(t, err)
	defer f.Close()
	bar := bars.Bar{Label: "late", Progress: bars.Progress{Began: time.Now(), Total: 2}}
	s := bars.NewScreen(f, true, bar)
	s.Show(bar)
	s.Leave()
	s.Show(bar)
	require.Zero(t, s.Bars())
	s.Leave()
	text, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "ended after 0s"), "%q", text)
	require.True(t, strings.HasSuffix(string(text), "\n"), "%q", text)
}

// Without a terminal there is a line every ten seconds, and one at the end.
func TestPlainLines(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(shown(t, false, 35, 10)), "\n")
	var ours []string
	for _, l := range lines {
		if strings.HasPrefix(l, "evaluating") {
			ours = append(ours, l)
		}
	}
	require.Len(t, lines, len(ours)+35)
	require.Equal(t, "evaluating  100%  350/350  in 0s", ours[len(ours)-1])
	require.Len(t, ours, 6, "after 10, 20, 30 and 40 seconds, when it goes on, and at the end: %q", ours)
	require.Regexp(t, `^evaluating   28%  (99|100)/350  0.0/s  0s left$`, ours[0])
}

// However fast tasks end, a terminal is drawn ten times a second at most, but for calls that are over.
func TestRedraws(t *testing.T) {
	t.Parallel()
	text := shown(t, true, 5, 1000)
	require.LessOrEqual(t, strings.Count(text, "evaluating"), 5*10+5+5)
	require.GreaterOrEqual(t, strings.Count(text, "evaluating"), 5*9)
	require.True(t, strings.HasSuffix(text, "5000/5000  in 0s\n"), "%q", text[len(text)-100:])
}
