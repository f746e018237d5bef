package submit

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// mute is a cluster that answers nothing.
type mute struct{}

func (mute) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A first signal says what it waits for; a second one ends Follow, though the cluster does not answer.
func TestSecondSignalWithoutTheCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "http://cluster"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`), 0o600))
	t.Setenv("KUBECONFIG", file)
	client, err := kube.Connect("")
	require.NoError(t, err)
	client.REST.Client = &http.Client{Transport: mute{}}
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		r := &Run{Client: client, Report: &Report{to: &said}, StartTimeout: time.Hour, Detach: true,
			pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "1"}}}
		signals, code := make(chan os.Signal), make(chan int, 1)
		go func() {
			n, _ := r.Follow(t.Context(), signals)
			code <- n
		}()
		signals <- syscall.SIGTERM
		time.Sleep(2 * slowEnd)
		synctest.Wait()
		require.Equal(t, "pod is told to end; a second Ctrl-C kills it\n", said.String())
		begun := time.Now()
		signals <- syscall.SIGINT
		require.Equal(t, 130, <-code)
		require.LessOrEqual(t, time.Since(begun), atOnce)
		require.Contains(t, said.String(), "pod could not be told to end")
		time.Sleep(time.Hour) // the first request ends, too
	})
}

// A signal that comes when the pod has just been made is left for whoever follows the pod. Otherwise nobody would remove it.
func TestSignalThatComesTooLate(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGTERM
	code, err := Before(signals, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, code)
	require.Len(t, signals, 1)
}
