package address_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/address"
)

func TestOwn(t *testing.T) {
	require.Equal(t, "127.0.0.1", address.Own("127.0.0.1"))
	for _, other := range []string{"192.0.2.1", "localhost", ""} { // the first belongs to no machine (RFC 5737)
		require.Empty(t, address.Own(other))
	}
}

func TestTowards(t *testing.T) {
	own, err := address.Towards("127.0.0.1")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", own)
	_, err = address.Towards("no such host")
	require.ErrorContains(t, err, "this machine's address is not known")
}
