package kube_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
