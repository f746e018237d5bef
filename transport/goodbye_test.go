//go:build linux || darwin

package transport_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// A peer that reads nothing does not keep a connection from closing.
func TestCloseToAPeerThatReadsNothing(t *testing.T) {
	t.Parallel()
	cred := credentials(t)
	l, err := transport.ListenTLS("127.0.0.1:0", cred, transport.Options{})
	here, _ := conversation(t, closed(t, l, err), cred)
	transport.Jam(here)
	done := make(chan struct{})
	go func() { here.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, "it says goodbye for ever")
	}
}
