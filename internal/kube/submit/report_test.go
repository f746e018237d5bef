package submit

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
