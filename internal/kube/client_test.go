package kube_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/kube"
)

// By default client-go makes five requests a second. Fiber's requests are not
// delayed.
func TestRequestsAreNotHeldBack(t *testing.T) {
	client := dial(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`)
	})
	var bare, ours []time.Duration
	for range 50 {
		begun := time.Now()
		answer, err := client.REST.Client.Get(client.REST.Get().URL().String())
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		between := time.Now()
		_, err = client.Pod(t.Context(), "p")
		require.NoError(t, err)
		bare, ours = append(bare, between.Sub(begun)), append(ours, time.Since(between))
	}
	slices.Sort(bare)
	slices.Sort(ours)
	require.Less(t, ours[25], 50*bare[25])
}

// When a client is closed, no connection stays, whatever became of its requests.
func TestCloseLeavesNoConnection(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	server.EnableHTTP2 = true
	var open sync.Map
	server.Config.ConnState = func(nc net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			open.Delete(nc)
		} else {
			open.Store(nc, state)
		}
	}
	server.StartTLS()
	defer server.Close()
	t.Setenv("KUBECONFIG", kubeconfig(t, server.URL))
	for i := range 50 {
		client, err := kube.Connect("")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		_, err = client.Pods(ctx, "", false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		client.Close()
	}
	require.Eventually(t, func() bool {
		n := 0
		open.Range(func(any, any) bool { n++; return true })
		return n == 0
	}, 20*time.Second, time.Millisecond, "the server has connections")
}
