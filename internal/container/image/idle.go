package image

import (
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// CloseIdle closes unused connections to registries, which otherwise stay open for a while.
func CloseIdle() {
	if t, ok := remote.DefaultTransport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
