package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

const expired = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"}`

// pod returns a pod as the API writes it.
func pod(name, phase string, version int) string {
	return fmt.Sprintf(`{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": %q, "uid": "uid-%[1]s", "resourceVersion": "%[3]d"},
		"spec": {"containers": [{"name": "fiber"}]}, "status": {"phase": %[2]q}}`, name, phase, version)
}

func bookmark(version int) string {
	return fmt.Sprintf(`{"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}, "spec": {"containers": null}, "status": {}}`, version)
}

// answer is one answer of the API that a test simulates.
type answer struct {
	path   string // of a list, or of a watch with the version that it continues from
	code   int
	body   string
	broken bool // the connection is cut after the body
}

func listed(version int, pods ...string) answer {
	return answer{path: "list", body: fmt.Sprintf(`{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}, "items": [%s]}`,
		version, strings.Join(pods, ","))}
}

func watched(version int, events ...string) answer {
	var body strings.Builder
	for i := 0; i < len(events); i += 2 {
		fmt.Fprintf(&body, `{"type": %q, "object": %s}`, events[i], events[i+1])
	}
	return answer{path: fmt.Sprint("watch ", version), body: body.String()}
}

func refused(path string, code int, reason string) answer {
	return answer{path: path, code: code, body: fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q,
		"code": %d, "message": "pods is forbidden: user cannot do that"}`, reason, code)}
}

// play returns a client of an API that sends these answers, one after the other, and then no more.
func play(t *testing.T, answers ...answer) *kube.Client {
	next := make(chan answer, len(answers))
	for _, a := range answers {
		next <- a
	}
	return dial(t, func(w http.ResponseWriter, r *http.Request) {
		asked := "list"
		if r.URL.Query().Get("watch") != "" {
			asked = "watch " + r.URL.Query().Get("resourceVersion")
		}
		select {
		case a := <-next:
			if asked != a.path {
				t.Errorf("asked for %q instead of %q", asked, a.path)
			}
			w.Header().Set("Content-Type", "application/json")
			if a.broken {
				w.Header().Set("Content-Length", fmt.Sprint(len(a.body)+1))
			}
			if a.code != 0 {
				w.WriteHeader(a.code)
			}
			fmt.Fprint(w, a.body)
		default:
			<-r.Context().Done()
		}
	})
}

// Whatever happens to a watch, all changes of pods are reported, and nothing else, such as bookmarks.
func TestWatchGoesOn(t *testing.T) {
	cut := watched(50, "MODIFIED", pod("b", "Running", 55), "BOOKMARK", bookmark(60))
	cut.broken = true
	client := play(t,
		listed(10, pod("a", "Pending", 5)),
		watched(10, "ADDED", pod("b", "Pending", 11), "BOOKMARK", bookmark(20)),
		watched(20, "MODIFIED", pod("a", "Running", 21), "ERROR", expired),
		listed(30, pod("b", "Pending", 11)), // a is gone, without an event
		answer{path: "watch 30", code: http.StatusGone, body: expired},
		refused("list", http.StatusForbidden, "Forbidden"), // as by an API server that has just started
		refused("list", http.StatusUnauthorized, "Unauthorized"),
		listed(50, pod("b", "Pending", 11)),
		cut,
		watched(60, "DELETED", pod("b", "Failed", 61)),
	)
	ctx, cancel := context.WithCancel(t.Context())
	var told []string
	standing := 0
	err := client.WatchPods(ctx, kube.PodWatch{Labels: "x=y",
		Standing: func() { standing++ },
		Expected: func() []*corev1.Pod {
			return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}}
		},
		Tell: func(p *corev1.Pod, gone bool) {
			kube.Judge(p) // panics for an empty pod
			told = append(told, fmt.Sprint(p.Name, " ", p.Status.Phase, " ", gone))
			if gone && p.Name == "b" {
				cancel()
			}
		}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"a Pending false", "b Pending false", "a Running false",
		"b Pending false", "a  true",
		"b Pending false", "a  true", "b Running false", "b Failed true"}, told)
	require.Equal(t, 4, standing)
}

func TestWatchThatIsRefused(t *testing.T) {
	for name, answers := range map[string][]answer{
		"list":  {refused("list", http.StatusForbidden, "Forbidden")},
		"watch": {listed(1), refused("watch 1", http.StatusForbidden, "Forbidden")},
	} {
		t.Run(name, func(t *testing.T) {
			client := play(t, answers...)
			err := client.WatchPods(t.Context(), kube.PodWatch{Expected: func() []*corev1.Pod { return nil }, Tell: func(*corev1.Pod, bool) {},
				Standing: func() { t.Error("it does not stand") }})
			var known *kube.Error
			require.ErrorAs(t, err, &known)
			require.Contains(t, err.Error(), "no permission to "+name+" pods in the namespace default")
		})
	}
}
