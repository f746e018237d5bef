package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// leases is an API server that has one Lease.
type leases struct {
	mu      sync.Mutex
	is      *coordinationv1.Lease // nil for none
	version int
	away    map[string]bool // for these holders' requests it does not answer
}

// way is the way of one pod to it.
type way struct {
	*leases
	pod string
}

func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away[w.pod] {
		w.mu.Unlock()
		<-r.Context().Done()
		w.mu.Lock()
		return nil, r.Context().Err()
	}
	status := func(code int, reason metav1.StatusReason) (*http.Response, error) {
		return answered(r, code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
	}
	if r.Method == http.MethodGet && w.is == nil {
		return status(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	if r.Method == http.MethodPut {
		body, _ := io.ReadAll(r.Body)
		codec, _ := codecs()
		info, _ := runtime.SerializerInfoForMediaType(codec.SupportedMediaTypes(), r.Header.Get("Content-Type"))
		object, err := runtime.Decode(info.Serializer, body)
		if err != nil {
			return nil, err
		}
		is := object.(*coordinationv1.Lease)
		if w.is == nil || is.ResourceVersion != w.is.ResourceVersion {
			return status(http.StatusConflict, metav1.StatusReasonConflict)
		}
		w.set(is)
	}
	return answered(r, http.StatusOK, w.is)
}

func (l *leases) set(is *coordinationv1.Lease) {
	l.version++
	is.ResourceVersion = strconv.Itoa(l.version)
	is.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	l.is = is
}

func answered(r *http.Request, code int, object any) (*http.Response, error) {
	text, err := json.Marshal(object)
	return &http.Response{StatusCode: code, Request: r, Body: io.NopCloser(bytes.NewReader(text)),
		Header: http.Header{"Content-Type": {"application/json"}}}, err
}

// pods returns a way to hold the Lease for each of two pods.
func (l *leases) pods(t *testing.T) (a, b *lease) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "http://cluster"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`), 0o600))
	t.Setenv("KUBECONFIG", file)
	var made []*lease
	for _, pod := range []string{"a", "b"} {
		client, err := Connect("")
		require.NoError(t, err)
		client.REST.Client = &http.Client{Transport: way{l, pod}}
		made = append(made, &lease{client: client, name: "mine", holder: pod})
	}
	return made[0], made[1]
}

// It begins when the Lease is made, which may be later than the pod. While it is renewed, nobody else gets it; once it is
// released, the next one has it at once.
func TestALeaseHasOneHolder(t *testing.T) {
	l := &leases{}
	a, b := l.pods(t)
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(time.Minute)
			l.mu.Lock()
			l.set(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
			l.mu.Unlock()
		}()
		begun := time.Now()
		require.NoError(t, a.take(t.Context()))
		require.InDelta(t, 60, time.Since(begun).Seconds(), 2)
		keeping, stop := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- a.keep(keeping) }()
		soon, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, b.take(soon), context.DeadlineExceeded)
		stop()
		require.NoError(t, <-kept)
		require.NoError(t, a.release(t.Context()))
		begun = time.Now()
		require.NoError(t, b.take(t.Context()))
		require.Less(t, time.Since(begun), time.Second)
		require.NoError(t, a.release(t.Context()), "it is another pod's")
		holds, err := b.client.Holder(t.Context(), "mine")
		require.NoError(t, err)
		require.Equal(t, "b", holds)
		go func() { kept <- a.keep(t.Context()) }()
		require.ErrorIs(t, <-kept, errTaken)
	})
}

// Whoever is cut off knows so before another one begins.
func TestALeaseIsLostBeforeAnotherHasIt(t *testing.T) {
	for after := range 10 {
		l := &leases{away: map[string]bool{}}
		a, b := l.pods(t)
		synctest.Test(t, func(t *testing.T) {
			l.set(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
			require.NoError(t, a.take(t.Context()))
			var lost, begins time.Time
			done := make(chan error, 2)
			go func() {
				err := a.keep(t.Context())
				lost = time.Now()
				done <- err
			}()
			go func() {
				err := b.take(t.Context())
				begins = time.Now()
				done <- err
			}()
			time.Sleep(time.Minute + time.Duration(after)*700*time.Millisecond)
			l.mu.Lock()
			l.away["a"] = true
			l.mu.Unlock()
			cut := time.Now()
			require.ErrorContains(t, <-done, "the lease mine could not be renewed for 12s")
			require.NoError(t, <-done)
			require.LessOrEqual(t, lost.Sub(cut), heldTime)
			require.Greater(t, begins.Sub(lost), 5*time.Second)
			require.LessOrEqual(t, begins.Sub(cut), leaseTime+2*takeEvery)
		})
	}
}

// Where the Lease is gone, the run is being removed: its root ends as it was told.
func TestALeaseThatIsGoneIsKept(t *testing.T) {
	l := &leases{}
	a, _ := l.pods(t)
	synctest.Test(t, func(t *testing.T) {
		l.set(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
		require.NoError(t, a.take(t.Context()))
		l.is = nil
		within, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, a.keep(within))
		require.NoError(t, a.release(t.Context()))
	})
}
