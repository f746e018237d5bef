package image

import (
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// CloseIdle closes the connections to registries that nobody uses any more, which stay open for a while otherwise.
func CloseIdle() {
	if t, ok := remote.DefaultTransport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
