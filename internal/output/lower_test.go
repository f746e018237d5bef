package output_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/output"
)

// However the bytes are cut, a process's own output comes out unchanged, and the
// lines that it passes on come out whole.
func TestSplit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	text := "begun\x00fib, " + string(output.Mark("worker-1-2", []byte("hello"))) + "and ended\n" +
		string(output.Mark("Process-1", []byte(long))) + string(output.Mark("Process-1", nil)) + "\x00fiber"
	for _, size := range []int{1, 3, 7, 1000, len(text)} {
		var own bytes.Buffer
		var lower []string
		s := &output.Split{Own: &own, Lower: func(name string, line []byte) { lower = append(lower, name+" "+string(line)) }}
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			_, err := s.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		s.End()
		require.Equal(t, "begun\x00fib, and ended\n\x00fiber", own.String())
		require.Equal(t, []string{"worker-1-2 hello", "Process-1 " + long, "Process-1 "}, lower)
		_, _ = s.Write([]byte("\x00fiber\x00killed\x00in the mid"))
		s.End()
		require.Equal(t, "killed in the mid", lower[3])
	}
}

// A program may write a mark itself, and then no end of the line: what is kept of it is bounded, and none of it is lost.
func TestSplitOfALineThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	const pieces, size = 200, 50_000
	for _, begins := range []string{"Process-1\x00", ""} { // the name may not end either
		var lines, text, names int
		s := &output.Split{Own: new(bytes.Buffer), Lower: func(name string, line []byte) {
			lines, text, names = lines+1, text+len(line), max(names, len(name))
		}}
		_, _ = s.Write([]byte("\x00fiber\x00" + begins))
		for range pieces {
			_, _ = s.Write(bytes.Repeat([]byte("x"), size))
			require.Less(t, s.Held(), 400_000, "bytes are kept of a line that does not end")
		}
		s.End()
		require.LessOrEqual(t, names, 1024)
		if begins != "" {
			require.Equal(t, pieces*size, text)
		}
		var after []string
		s.Lower = func(name string, line []byte) { after = append(after, name+" "+string(line)) }
		_, _ = s.Write(output.Mark("Process-2", []byte("hello")))
		require.Equal(t, []string{"Process-2 hello"}, after)
	}
}
