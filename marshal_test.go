//go:build unix

package fiber

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
)

// What is named in a value is known, so that whoever keeps the value holds it.
func TestValuesNameWhatTravels(t *testing.T) {
	t.Parallel()
	q, err := NewSimpleQueue[int]()
	require.NoError(t, err)
	defer q.Close()
	a, b, err := Pipe[int]()
	require.NoError(t, err)
	defer a.Close()
	defer b.Close()
	type ends struct{ A, B *Conn[int] }
	value, err := encode(t.Context(), "it", struct {
		Qs   []*SimpleQueue[int]
		Ends map[string]ends
		None *SimpleQueue[int]
	}{[]*SimpleQueue[int]{q, q}, map[string]ends{"here": {a, b}}, nil})
	require.NoError(t, err)
	require.ElementsMatch(t, []object.Ref{q.p.h.ref, a.end.port.Ref(), b.end.port.Ref()}, value.Refs())
	value, err = encode(t.Context(), "it", "nothing")
	require.NoError(t, err)
	require.Empty(t, value.Refs())
}
