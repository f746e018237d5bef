package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// dial returns a client of an API that a test simulates.
func dial(t *testing.T, api http.HandlerFunc) *kube.Client {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", kubeconfig(t, server.URL))
	client, err := kube.Connect("")
	require.NoError(t, err)
	return client
}

// kubeconfig writes the configuration of a cluster whose API is at url, and returns the file's path.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
		"contexts": [{"name": "c", "context": {"cluster": "c"}}]}`, url), 0o600))
	return file
}

// Connections that break, at any byte, neither lose nor repeat what was written.
func TestOutputIsWrittenOnce(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var log, want strings.Builder
	for i := range 60 {
		at := base.Add(time.Duration(i/3) * 400 * time.Millisecond) // three lines with one time
		if i%5 == 4 {
			at = at.Add(-100 * time.Millisecond) // a line of the other stream, which the node has read later
		}
		text := fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%7))
		fmt.Fprintf(&log, "%s %s\n", at.Format("2006-01-02T15:04:05.000000000Z07:00"), text)
		want.WriteString(text + "\n")
	}
	whole := log.String()
	var calls atomic.Int64
	ended := make(chan struct{})
	client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if n == 15 { // by then all has come, and further connections were made
			close(ended)
		}
		if n == 1 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,
				"message":"container \"fiber\" in pod \"p\" is waiting to start: ContainerCreating"}`)
			return
		}
		text := whole
		if since := r.URL.Query().Get("sinceTime"); since != "" {
			from, err := time.Parse(time.RFC3339, since)
			if err != nil {
				t.Error(err)
			}
			text = ""
			for line := range strings.Lines(whole) {
				if at, _ := time.Parse(time.RFC3339Nano, line[:30]); !at.Before(from) {
					text += line
				}
			}
		}
		if n < 12 { // the connection breaks
			w.Header().Set("Content-Length", fmt.Sprint(len(text)+1))
			text = text[:min(len(text), int(n*200+n*37%200))]
		}
		fmt.Fprint(w, text)
	})
	var got bytes.Buffer
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "fiber"}}}}
	out := &kube.Output{Client: client, Pod: pod, To: &got}
	require.NoError(t, out.Follow(t.Context(), ended))
	require.GreaterOrEqual(t, calls.Load(), int64(15))
	require.Equal(t, want.String(), got.String())
}

// A connection that breaks after the end of the program is made again, and the output ends.
func TestOutputWhoseConnectionBreaksAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	close(ended)
	var calls atomic.Int64
	client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Content-Length", "1000")
		}
		fmt.Fprint(w, "2026-01-02T03:04:05Z line\n")
	})
	var got bytes.Buffer
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "fiber"}}}}
	out := &kube.Output{Client: client, Pod: pod, To: &got}
	require.NoError(t, out.Follow(ctx, ended))
	require.Equal(t, "line\n", got.String())
	require.EqualValues(t, 2, calls.Load())
}

// Setting a node's clock by a day, in either direction, neither loses nor repeats a line, whether it happens during a
// connection or between two. If the log is rotated as well, lines may come twice, but none is lost.
func TestOutputOverAClockThatIsSet(t *testing.T) {
	const count = 12
	seen := []int{3, 5, 8, count} // so many lines are there at each connection
	var log []string              // as the node has it
	client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
		for _, line := range log {
			if at, _ := time.Parse(time.RFC3339Nano, line[:strings.Index(line, " ")]); !at.Before(since) {
				fmt.Fprint(w, line)
			}
		}
		fmt.Fprint(w, "the node's own words\n")
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "fiber"}}}}
	for _, jump := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		for set := 1; set < count; set++ {
			for reset := set + 1; reset <= count; reset++ {
				for _, rotated := range []int{0, 1, 4, 6} { // so many lines are gone at the last connection
					name := fmt.Sprintf("%v at %d, back at %d, %d rotated", jump, set, reset, rotated)
					var whole []string
					for i := range count {
						at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(i) * 10 * time.Second)
						if i >= set && i < reset {
							at = at.Add(jump)
						}
						whole = append(whole, fmt.Sprintf("%s line %02d\n", at.Format(time.RFC3339Nano), i))
					}
					var got bytes.Buffer
					out := &kube.Output{Client: client, Pod: pod, To: &got, Lost: func(err error) { require.EqualError(t, err, "the node's own words") }}
					for _, n := range seen {
						log = whole[:n]
						if n == count {
							log = whole[rotated:]
						}
						require.NoError(t, out.Read(t.Context()), name)
					}
					text := got.String()
					for i := range count {
						require.Contains(t, text, fmt.Sprintf("line %02d\n", i), name)
					}
					if jump == 0 || rotated == 0 {
						require.Equal(t, count, strings.Count(text, "\n"), "%s: %s", name, text)
						require.True(t, slices.IsSorted(strings.Split(strings.TrimSpace(text), "\n")), name)
					}
				}
			}
		}
	}
}

// A long line whose connection breaks goes on where it was cut, even if the log was rotated up to that line meanwhile.
func TestOutputOfALongLine(t *testing.T) {
	lines := []string{"2026-01-02T03:04:05.1Z first\n", "2026-01-02T03:04:05.2Z " + strings.Repeat("long ", 40_000) + "\n", "2026-01-02T03:04:05.3Z last\n"}
	whole := strings.Join(lines, "")
	const want = 6 + 200_001 + 5
	for _, rotated := range []string{whole, strings.Join(lines[1:], "")} {
		for _, cut := range []int{40, len(lines[0]) + 10, len(lines[0]) + 23, 70_000, len(whole) - 10, len(whole)} {
			log := whole
			client := dial(t, func(w http.ResponseWriter, r *http.Request) {
				if log == whole && cut < len(whole) {
					w.Header().Set("Content-Length", fmt.Sprint(cut+1))
					fmt.Fprint(w, log[:cut])
				} else {
					fmt.Fprint(w, log)
				}
			})
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "fiber"}}}}
			var got bytes.Buffer
			out := &kube.Output{Client: client, Pod: pod, To: &got}
			_ = out.Read(t.Context()) // the connection breaks
			log, cut = rotated, len(whole)
			require.NoError(t, out.Read(t.Context()))
			require.Equal(t, want, got.Len())
			require.True(t, strings.HasPrefix(got.String(), "first\nlong ") && strings.HasSuffix(got.String(), "long \nlast\n"))
		}
	}
}
