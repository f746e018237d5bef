package object

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
)

// joins are the processes that join a spread, by name.
type joins struct {
	spread
	sessions map[string]*Session
}

func (j *joins) join(name string, failed ...string) (source string) {
	if j.sessions == nil {
		j.sessions = map[string]*Session{}
	}
	if j.sessions[name] == nil {
		j.sessions[name] = &Session{}
	}
	q := joining{relay: Ref{Process: name}}
	for _, f := range failed {
		q.failed = append(q.failed, Ref{Process: f})
	}
	return j.spread.join(j.sessions[name], q).Process
}

func (j *joins) whole(name string) {
	j.told(j.sessions[name], joined{Relay: Ref{Process: name}, Whole: true})
}

func (j *joins) breaks(name string) {
	j.sessions[name].left = true
	j.sessions[name] = nil
}

// Who asks again is not sent to those that wait for it, whatever became of its connection.
func TestAMemberThatComesBack(t *testing.T) {
	var j joins
	for _, is := range []struct{ name, source string }{{"x", ""}, {"y", ""}, {"a", "x"}, {"b", "x"}, {"c", "y"}, {"d", "y"}, {"e", "a"}, {"f", "a"},
		{"g", "b"}, {"h", "b"}, {"i", "c"}, {"j", "c"}, {"k", "d"}, {"l", "d"}} {
		require.Equal(t, is.source, j.join(is.name), is.name)
	}
	j.breaks("a")
	j.sweep()
	require.Equal(t, "g", j.join("a", "x"), "e and f would be next, but wait for a")
}

// Sources that fail those who ask are not named to everybody, and the home sends no more often for it.
func TestSourcesThatSpoil(t *testing.T) {
	var j joins
	bad := map[string]bool{"bad0": true, "bad1": true, "bad2": true}
	for name := range bad {
		j.join(name)
		j.whole(name)
	}
	const processes = 1000
	tries := 0
	for i := range processes {
		name := fmt.Sprint(i)
		var failed []string
		for source := j.join(name); bad[source]; source = j.join(name, failed...) {
			tries++
			failed = append(failed, source)
		}
		j.whole(name)
	}
	require.LessOrEqual(t, tries, failuresMost*len(bad))
	require.LessOrEqual(t, j.sent, 2*bits.Len(processes)+len(bad))
}

// Those that have gone are forgotten, and so is their part.
func TestMembersThatGo(t *testing.T) {
	var j joins
	for i := range 100 * sweepEvery {
		name := fmt.Sprint(i)
		j.join(name)
		if i%2 == 0 {
			j.whole(name)
		}
		if i%10 != 0 {
			j.breaks(name)
		}
	}
	require.Less(t, len(j.order), 12*sweepEvery)
	require.Len(t, j.members, len(j.order))
	require.LessOrEqual(t, len(j.direct), takersMost)
}

// What a home says of a value is checked before there is memory for it.
func TestLayoutsThatAreWrong(t *testing.T) {
	s := New(Options{MaxMessage: 1 << 20})
	const large = 1<<62 - 1
	for _, sizes := range [][]int{{large, large, large}, {1 << 58}, {1<<20 + 1}, {300_000}} {
		_, err := s.newRelay(layout{sizes: sizes, hashes: make([]byte, sha256.Size)})
		require.ErrorIs(t, err, wire.ErrMalformed, sizes)
	}
	short := []byte("short")
	hash := sha256.Sum256(short)
	r := &relay{layout: layout{sizes: []int{10}, hashes: hash[:]}, here: make([]bool, 1), frames: [][]byte{make([]byte, 10)}}
	require.ErrorIs(t, r.put(0, Encoded([][]byte{short})), errSpoilt)
}
