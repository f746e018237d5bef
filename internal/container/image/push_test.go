//go:build unix

package image_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/image"
)

// counted is a registry that counts what it receives.
type counted struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int // by method
	blobs    int
}

func newRegistry(t *testing.T) *counted {
	t.Helper()
	c := &counted{requests: map[string]int{}}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests[r.Method]++
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/") {
			c.blobs++
		}
		c.mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *counted) host() string { return strings.TrimPrefix(c.URL, "http://") }

// sent returns the number of blobs, layers and configurations, that came since the last call.
func (c *counted) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.blobs
	c.blobs = 0
	return n
}

func pull(t *testing.T, ref string) v1.Image {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	require.NoError(t, err)
	img, err := remote.Image(parsed)
	require.NoError(t, err)
	return img
}

func TestPush(t *testing.T) {
	t.Parallel()
	reg := newRegistry(t)
	img := newImage(t, built(t, dynamic))
	ref, err := img.Push(t.Context(), reg.host()+"/team", image.Pushing{})
	require.NoError(t, err)
	assert.Equal(t, 3, reg.sent(), "the system, the program, and the configuration")
	assert.True(t, strings.HasPrefix(ref, reg.host()+"/team/"+img.Repository()+"@sha256:"), ref)

	again, err := newImage(t, built(t, dynamic)).Push(t.Context(), reg.host()+"/team", image.Pushing{})
	require.NoError(t, err)
	assert.Equal(t, ref, again)
	assert.Zero(t, reg.sent())
	assert.Equal(t, 1, reg.requests[http.MethodPut]-3, "the manifest was written once")

	for _, ref := range []string{ref, reg.host() + "/team/" + img.Name()} {
		assert.Equal(t, configName(t, saved(t, img)), configName(t, pull(t, ref)), "the same image as an engine loads")
	}
}

// If only the program has changed, the layer with the system is not sent again.
func TestPushOfAnotherBuild(t *testing.T) {
	t.Parallel()
	reg := newRegistry(t)
	_, err := newImage(t, built(t, dynamic)).Push(t.Context(), reg.host(), image.Pushing{})
	require.NoError(t, err)
	assert.Equal(t, 3, reg.sent())

	other := filepath.Join(t.TempDir(), "dynamic")
	command(t, ".", "cp", built(t, dynamic), other)
	command(t, ".", "sh", "-c", "echo >> "+other)
	_, err = newImage(t, other).Push(t.Context(), reg.host(), image.Pushing{})
	require.NoError(t, err)
	assert.Equal(t, 2, reg.sent())
}

func TestPushByTheUsersCredentials(t *testing.T) {
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, err := io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}`)
			assert.NoError(t, err)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	t.Setenv("HOME", config)

	img := newImage(t, built(t, static))
	_, err := img.Push(t.Context(), host, image.Pushing{})
	require.ErrorContains(t, err, "push the image "+host+"/"+img.Name())
	require.ErrorContains(t, err, "the registry says: who are you?; log in with docker login "+host)

	auth, err := (&authn.AuthConfig{Username: "me", Password: "secret"}).MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(config, "config.json"), []byte(`{"auths":{"`+host+`":`+string(auth)+`}}`), 0o600))
	_, err = img.Push(t.Context(), host, image.Pushing{})
	require.NoError(t, err)
}

func TestPushToNoRegistry(t *testing.T) {
	t.Parallel()
	img := newImage(t, built(t, static))
	_, err := img.Push(t.Context(), "127.0.0.1:1", image.Pushing{})
	require.ErrorContains(t, err, "connection refused")
	_, err = img.Push(t.Context(), "Not A Registry", image.Pushing{})
	require.ErrorContains(t, err, "push the image: ")
}

func configName(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	h, err := img.ConfigName()
	require.NoError(t, err)
	return h
}

func TestPushOfARegistryThatSpeaksHTTPOnly(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	_, port, err := net.SplitHostPort(r.host())
	require.NoError(t, err)
	host := "localtest.me:" + port // a name that is not taken for this machine
	img := newImage(t, built(t, static))
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.host())
	}
	_, err = img.Push(t.Context(), host, image.Dialled(image.Pushing{}, dial))
	require.ErrorContains(t, err, "the registry speaks plain http only: set FIBER_REGISTRY_INSECURE=true")
	assert.Zero(t, r.sent())

	var last [2]int64
	how := image.Pushing{Insecure: true, Progress: func(done, total int64) { last = [2]int64{done, total} }}
	ref, err := img.Push(t.Context(), host, image.Dialled(how, dial))
	require.NoError(t, err)
	assert.Contains(t, ref, host+"/"+img.Repository()+"@sha256:")
	assert.Equal(t, last[1], last[0])
	assert.Positive(t, last[0])
}

// A push ends with its context, whatever the registry does not answer.
func TestPushThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodPut} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			came, answer := make(chan struct{}, 99), make(chan struct{})
			inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == method {
					came <- struct{}{}
					<-answer
				}
				inner.ServeHTTP(w, r)
			}))
			defer server.Close()
			defer close(answer)
			img, err := image.New(image.Options{Platform: here})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			pushed := make(chan error, 1)
			go func() {
				_, err := img.Push(ctx, strings.TrimPrefix(server.URL, "http://")+"/team", image.Pushing{})
				pushed <- err
			}()
			<-came
			cancel()
			require.ErrorIs(t, <-pushed, context.Canceled)
		})
	}
}
