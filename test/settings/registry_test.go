//go:build unix

package settings_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/fibertest"
)

// A registry that speaks plain http gets images only with registry_insecure, whichever source it comes from. The root alone
// pushes them.
func TestRegistryInsecure(t *testing.T) {
	t.Parallel()
	if places()[0] != outside {
		t.Skip("no registry is used here")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(hostAddress(t), "0")) // of localhost, http is taken for granted
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		http.Error(w, `{"errors": [{"code": "DENIED", "message": "it came here"}]}`, http.StatusForbidden)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	for source, give := range sources {
		for insecure, says := range map[string]string{"off": "speaks plain http only", "on": "it came here"} {
			t.Run(source+"/"+insecure, func(t *testing.T) {
				t.Parallel()
				env := []string{briefKey + "=yes"}
				for _, key := range keys() {
					env = append(env, variable(key)+"=")
				}
				given := map[string]string{"backend": "kubernetes", "host": hostAddress(t), "registry": listener.Addr().String(),
					"registry_insecure": insecure}
				x := fibertest.Start(t, "settings", append(env, give(t, given)...)...)
				require.Equal(t, 1, x.Wait(fibertest.Patience))
				require.Contains(t, x.Err.String(), says)
			})
		}
	}
}
