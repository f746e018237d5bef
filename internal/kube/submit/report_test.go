package submit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	marks "github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/stdio"
)

func TestOutputTakesThePlaceOfAStatus(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	r := &Report{to: &screen, terminal: true, shown: "it is told to end"}
	for range 2 {
		_, err := fmt.Fprintln(r.above(&screen, nil), "out")
		require.NoError(t, err)
	}
	assert.Equal(t, "\r\x1b[Kout\nout\n", screen.String())
}

var taken []string

func init() {
	stdio.Takers["test"] = func(payload []byte) { taken = append(taken, string(payload)) }
}

// What a program sends along with its stderr is taken out, wherever it is cut, and goes to who takes its kind.
func TestWhatAProgramSendsAlong(t *testing.T) {
	large := strings.Repeat("x", 44<<10) // 32 KiB of a file
	text := "begun" + string(marks.Mark("test", []byte("one"))) + " and ended\n" + string(marks.Mark("test", []byte(large))) +
		string(marks.Mark("of a later version", []byte("?"))) + string(marks.Mark("test", nil)) + "last\x00fib"
	for _, terminal := range []bool{true, false} {
		for _, size := range []int{1, 2, 7, 8 << 10, len(text)} {
			var screen bytes.Buffer
			taken = nil
			r := &Report{to: &screen, terminal: terminal}
			w := r.stderr(&screen)
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				_, err := w.Write(rest[:n])
				require.NoError(t, err)
				rest = rest[n:]
			}
			require.NoError(t, w.Close())
			require.Equal(t, "begun and ended\nlast\x00fib", screen.String())
			if terminal {
				require.Equal(t, []string{"one", large, ""}, taken)
				require.Equal(t, []string{stdio.FollowerKey + "=" + stdio.Terminal}, r.followed())
			} else {
				require.Empty(t, taken)
				require.Empty(t, r.followed())
			}
		}
	}
}
