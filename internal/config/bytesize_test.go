package config_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
)

func TestParseByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.ByteSize{
		"512MiB":               512 * config.MiB,
		"1 GiB":                config.GiB,
		"64kib":                64 * config.KiB,
		"4096B":                4 * config.KiB,
		"0B":                   0,
		"8589934591GiB":        8589934591 * config.GiB,
		"9223372036854775807B": math.MaxInt64,
	} {
		size, err := config.ParseByteSize(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, size, text)
	}
}

func TestByteSizeStringCanBeParsed(t *testing.T) {
	t.Parallel()
	for size, want := range map[config.ByteSize]string{
		0: "0B", 1: "1B", 1023: "1023B", config.KiB: "1KiB", 1536: "1536B", 1536 * config.KiB: "1536KiB",
		config.GiB: "1GiB", math.MaxInt64: "9223372036854775807B", math.MinInt64: "-8589934592GiB",
	} {
		assert.Equal(t, want, size.String())
		again, err := config.ParseByteSize(want)
		require.NoError(t, err)
		assert.Equal(t, size, again)
	}
}
