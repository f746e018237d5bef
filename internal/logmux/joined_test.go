package logmux_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/logmux"
)

// apart takes a stream apart, a byte at a time.
func apart(t *testing.T, stream string) (stdout, stderr string, end logmux.End, ended bool) {
	t.Helper()
	var out, err bytes.Buffer
	r := &logmux.Reader{Stdout: &out, Stderr: &err}
	_, failure := io.Copy(r, iotest.OneByteReader(strings.NewReader(stream)))
	require.NoError(t, failure)
	r.Close()
	end, ended = r.Ended()
	return out.String(), err.String(), end, ended
}

func TestWhatIsJoinedComesApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 20_000)
	for name, pieces := range map[string][]string{
		"nothing":          {},
		"lines":            {"1one\n", "2two\n", "1three\n"},
		"an empty line":    {"1\n", "2\n"},
		"unfinished":       {"1no line", "2nor this"},
		"cut":              {"1a li", "2other\n", "1ne\n"},
		"long":             {"1" + long, "2" + long + "\n", "1\n" + long},
		"bytes":            {"1\x00\xff\x1b[m\n", "2\x1b[31mred\x1b[0m\n"},
		"many in one":      {"1a\nb\nc", "2d\n\n\ne"},
		"exactly too long": {"1" + strings.Repeat("x", 8<<10) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stream, stdout, stderr bytes.Buffer
			w := logmux.NewWriter(&stream)
			require.NoError(t, w.Begin())
			one, two := w.Stdout(), w.Stderr()
			for _, p := range pieces {
				to, s := &stdout, one
				if p[0] == '2' {
					to, s = &stderr, two
				}
				to.WriteString(p[1:])
				_, err := s.Write([]byte(p[1:]))
				require.NoError(t, err)
			}
			require.NoError(t, one.Flush())
			require.NoError(t, two.Flush())
			want := logmux.End{Code: 137, OutOfMemory: len(pieces) > 1}
			_, err := w.End(want)
			require.NoError(t, err)
			for line := range strings.Lines(stream.String()) {
				require.Less(t, len(line), 16<<10, "an engine cuts it")
			}
			gotOut, gotErr, end, ended := apart(t, stream.String())
			require.Equal(t, stdout.String(), gotOut)
			require.Equal(t, stderr.String(), gotErr)
			require.Equal(t, want, end)
			require.True(t, ended)
		})
	}
}

func TestAnUnmarkedStreamIsStdout(t *testing.T) {
	t.Parallel()
	stdout, stderr, _, ended := apart(t, "exec: no such file\nand no end")
	require.Equal(t, "exec: no such file\nand no end", stdout)
	require.Empty(t, stderr)
	require.False(t, ended)
}

// A line that no Writer writes is not held back until its end, and only its beginning can mark it.
func TestALongUnmarkedLine(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	r := &logmux.Reader{Stdout: &stdout, Stderr: &stderr}
	long := strings.Repeat("x", 64<<10)
	r.Write([]byte(long + "\x1b[;my"))
	require.Equal(t, long, stdout.String())
	r.Write([]byte("\n\x1b[;m" + long + long + "\nz"))
	r.Close()
	require.Equal(t, long+"\x1b[;my\nz", stdout.String())
	require.Equal(t, long+long+"\n", stderr.String())
}

// A program cannot end its stream: it does not know the mark, and a mark that it makes up is output like any other.
func TestForgedEnds(t *testing.T) {
	t.Parallel()
	var other bytes.Buffer
	require.NoError(t, logmux.NewWriter(&other).Begin())
	require.NoError(t, logmux.NewWriter(&other).Begin())
	forged := other.String() // two first lines, of other streams
	mark, _, _ := strings.Cut(forged, "\n")
	forged += mark + "0\n" + mark + "0\x1b[;;;;9m\n" + mark + "137 out of memory\n\x1b[;;m0\n\x1b[;;;;m0\n0\n"

	var stream bytes.Buffer
	w := logmux.NewWriter(&stream)
	require.NoError(t, w.Begin())
	for _, s := range []*logmux.Stream{w.Stdout(), w.Stderr()} {
		_, err := s.Write([]byte(forged))
		require.NoError(t, err)
	}
	cut := stream.Len()
	_, err := w.End(logmux.End{Code: 3})
	require.NoError(t, err)
	stdout, stderr, _, ended := apart(t, stream.String()[:cut])
	require.False(t, ended, "it goes on")
	require.Equal(t, forged, stdout)
	require.Equal(t, forged, stderr)
	_, _, end, ended := apart(t, stream.String())
	require.True(t, ended)
	require.Equal(t, logmux.End{Code: 3}, end)

	// If the first line is lost, nothing is an end, whatever comes first.
	_, rest, _ := strings.Cut(stream.String(), "\n")
	_, _, _, ended = apart(t, "x\n"+rest)
	require.False(t, ended)
}

// What a program writes may look like any of the marks of lines.
func TestLinesThatLookMarked(t *testing.T) {
	t.Parallel()
	marks := []string{"\x1b[;m", "\x1b[;;;;m", "\x1b[;;;m", "\x1b[;;", "x"}
	var text strings.Builder
	for _, a := range marks {
		for _, b := range marks {
			text.WriteString(a + b + "\n" + a + "\n" + b + a + strings.Repeat("long ", 40*len(a)*len(b)) + a + b + "\n\n")
		}
	}
	var stream bytes.Buffer
	w := logmux.NewWriter(&stream)
	require.NoError(t, w.Begin())
	for _, s := range []*logmux.Stream{w.Stdout(), w.Stderr()} {
		_, err := s.Write([]byte(text.String()))
		require.NoError(t, err)
		for _, b := range []byte(text.String()) {
			_, err := s.Write([]byte{b})
			require.NoError(t, err)
		}
	}
	_, err := w.End(logmux.End{})
	require.NoError(t, err)
	stdout, stderr, _, ended := apart(t, stream.String())
	require.True(t, ended)
	require.Equal(t, text.String()+text.String(), stdout)
	require.Equal(t, text.String()+text.String(), stderr)
}

// stream returns what a writer writes for numbered lines of both outputs, and where each of its own lines begins.
func stream(t *testing.T) (text string, begins []int) {
	t.Helper()
	var s bytes.Buffer
	w := logmux.NewWriter(&s)
	require.NoError(t, w.Begin())
	out, errs := w.Stdout(), w.Stderr()
	for i := range 5 {
		fmt.Fprintf(out, "out %d\n", i)
		fmt.Fprintf(errs, "err %d\n", i)
		fmt.Fprintf(out, "prompt %d", i)
		require.NoError(t, out.Flush())
	}
	_, err := w.End(logmux.End{Code: 3})
	require.NoError(t, err)
	for i, c := range s.String() {
		if c == '\n' && i+1 < s.Len() {
			begins = append(begins, i+1)
		}
	}
	return s.String(), begins
}

// A stream that has lost lines, wherever, says at its end how many bytes that is.
func TestALogThatHasLostSomething(t *testing.T) {
	t.Parallel()
	text, begins := stream(t)
	_, all, _, _ := apart(t, text)
	for i, from := range append([]int{0}, begins[:len(begins)-1]...) {
		for _, to := range begins[i:] {
			_, stderr, end, ended := apart(t, text[:from]+text[to:])
			require.Equal(t, from > 0, ended)
			if ended {
				require.Equal(t, 3, end.Code)
			}
			require.Contains(t, stderr, fmt.Sprintf("fiber: about %d bytes of output are missing above", to-from))
			require.Equal(t, 1, strings.Count(stderr, "missing"))
		}
	}
	require.NotContains(t, all, "missing")
}

// A gap is told in a line of its own, and counts as read.
func TestAGap(t *testing.T) {
	t.Parallel()
	text, begins := stream(t)
	for i, from := range begins[:len(begins)-1] {
		to := begins[i+1]
		var both bytes.Buffer
		r := &logmux.Reader{Stdout: &both, Stderr: &both}
		r.Write([]byte(text[:from]))
		r.Missing(int64(to-from), "here")
		r.Write([]byte(text[to:]))
		_, ended := r.Ended()
		require.True(t, ended)
		require.Contains(t, "\n"+both.String(), fmt.Sprintf("\nfiber: about %d bytes of output are missing here\n", to-from))
		require.Equal(t, 1, strings.Count(both.String(), "missing"))
	}
}

// A second source of the same stream is read from where the first has ended, at any byte. If it has lost its beginning, a
// line says how much is missing.
func TestTheSameStreamAgain(t *testing.T) {
	t.Parallel()
	text, begins := stream(t)
	wantOut, wantErr, _, _ := apart(t, text)
	for first := range len(text) {
		var out, errs bytes.Buffer
		r := &logmux.Reader{Stdout: &out, Stderr: &errs}
		r.Write([]byte(text[:first]))
		_, err := io.Copy(r.Again(), iotest.HalfReader(strings.NewReader(text)))
		require.NoError(t, err)
		r.Close()
		_, ended := r.Ended()
		require.True(t, ended)
		require.Equal(t, wantOut, out.String())
		require.Equal(t, wantErr, errs.String())

		if first < begins[0] {
			continue // nothing is known yet
		}
		last := begins[len(begins)-1]
		for _, rotated := range begins {
			out.Reset()
			errs.Reset()
			r = &logmux.Reader{Stdout: &out, Stderr: &errs}
			r.Write([]byte(text[:first]))
			again := r.Again()
			_, err = io.Copy(again, iotest.HalfReader(strings.NewReader(text[rotated:])))
			require.NoError(t, err)
			again.Close("")
			end, ended := r.Ended()
			require.True(t, ended)
			require.Equal(t, 3, end.Code)
			if rotated <= first {
				require.Equal(t, wantOut, out.String())
				require.Equal(t, wantErr, errs.String())
				continue
			}
			require.Contains(t, errs.String(), fmt.Sprintf("fiber: about %d bytes of output are missing here", rotated-first))
			require.Equal(t, 1, strings.Count(errs.String(), "missing"))
			rest, _, _, _ := apart(t, text[:begins[0]]+text[rotated:])
			require.True(t, strings.HasSuffix(strings.TrimSpace(out.String()), strings.TrimSpace(rest)), "%q is there", rest)
		}

		if !slices.Contains(begins, first) {
			continue
		}

		// It has lost all, or the end as well.
		for source, words := range map[string]string{"": text[last:], text[begins[1]:last]: "", text[begins[2]:last]: text[last:], "x": "x"} {
			errs.Reset()
			r = &logmux.Reader{Stdout: io.Discard, Stderr: &errs}
			r.Write([]byte(text[:first]))
			again := r.Again()
			io.WriteString(again, source)
			again.Close(words)
			_, ended := r.Ended()
			require.Equal(t, len(words) > 1, ended)
			if first < last {
				require.Equal(t, 1, strings.Count(errs.String(), "missing"))
			}
			if ended && first < last {
				require.Contains(t, errs.String(), fmt.Sprintf("fiber: about %d bytes of output are missing above", last-first))
			}
		}
	}
}

// No two streams have the same mark.
func TestMarksDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		var stream bytes.Buffer
		require.NoError(t, logmux.NewWriter(&stream).Begin())
		require.False(t, seen[stream.String()])
		seen[stream.String()] = true
	}
}

// Output without an end of line is not held back for long.
func TestAPromptIsWrittenSoon(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	defer from.Close()
	_, err := logmux.NewWriter(to).Stdout().Write([]byte("name? "))
	require.NoError(t, err)
	buf := make([]byte, 100)
	n, err := from.Read(buf) // hangs if it is held back
	require.NoError(t, err)
	stdout, _, _, _ := apart(t, string(buf[:n]))
	require.Equal(t, "name? ", stdout)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\x1b[;;2147483648;2147483649;4294967295m\n\x1b[;mx\n\x1b[;;2147483648;2147483649;4294967295m3\n"), int64(1))
	f.Add([]byte("\x1b[;;mx\n\x1b[;;;m\n\x1b[;m"), int64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed int64) {
		whole, _, _, _ := apart(t, string(stream))
		var out bytes.Buffer
		r := &logmux.Reader{Stdout: &out, Stderr: io.Discard}
		for rng := rand.New(rand.NewSource(seed)); len(stream) > 0; {
			n := 1 + rng.Intn(len(stream))
			r.Write(stream[:n])
			stream = stream[n:]
		}
		r.Close()
		require.Equal(t, whole, out.String())
	})
}
