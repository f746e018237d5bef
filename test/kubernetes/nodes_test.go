//go:build unix

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// nodeKey names the script that does things to the cluster's second node, test/cluster/node2.sh, where there is one.
const nodeKey = "FIBER_TEST_NODE"

// secondNode does something to the second node.
func secondNode(t testing.TB, verb string) {
	t.Helper()
	out, err := exec.Command(os.Getenv(nodeKey), verb).CombinedOutput()
	require.NoError(t, err, "%s: %s", verb, out)
}

// roundsWorkers are enough for the scheduler to place some on each node.
const roundsWorkers = 8

var cubed = fiber.Register("cubed", func(ctx context.Context, n int) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return n * n * n, nil
}, meta.CPU(0.05))

// round is what "rounds" prints after each map.
type round struct {
	Workers              []string // by their pods' names
	Ready, Lost, Started int
	Avoided              []string
}

// It works until it is ended, or a result is wrong.
var _ = fibertest.MainProgram("rounds", func(ctx context.Context) error {
	var opts []fiber.PoolOption
	if os.Getenv("ROUNDS_ONCE") != "" {
		opts = append(opts, fiber.WithMaxAttempts(1))
	}
	pool, err := fiber.NewPool(roundsWorkers, opts...)
	if err != nil {
		return err
	}
	defer pool.Terminate()
	ins, want := make([]int, 10*roundsWorkers), make([]int, 10*roundsWorkers)
	for i := range ins {
		ins[i], want[i] = i, i*i*i
	}
	for {
		outs, err := fiber.Map(ctx, pool, cubed, ins)
		if err != nil {
			return err
		}
		if !slices.Equal(outs, want) {
			return fmt.Errorf("the results are %v", outs)
		}
		s := pool.Stats()
		r := round{Ready: s.Ready, Lost: s.WorkersLost, Started: s.WorkersStarted, Avoided: s.Avoided}
		for _, p := range s.Processes {
			r.Workers = append(r.Workers, p.ID)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", line)
	}
})

// rounds is the program at work, in a pod or not.
type rounds struct {
	t         testing.TB
	namespace string
	output    func() string
	ended     func() bool
}

// startRounds starts it on a node, or outside of the cluster, "".
func startRounds(t *testing.T, root string, env ...string) *rounds {
	if root == "" {
		x := clustered(t, "rounds", env...)
		return &rounds{t, "default", x.Out.String, func() bool {
			select {
			case <-x.Done:
				return true
			default:
				return false
			}
		}}
	}
	namespace := newNamespace(t)
	runPod(t, namespace, "root", "rounds", map[string]any{"serviceAccountName": "fiber", "nodeName": root}, env...)
	return &rounds{t, namespace, func() string { return logsOf(namespace, "root") }, func() bool { return false }}
}

// until waits for a round.
func (s *rounds) until(what string, cond func(r round) bool) (last round) {
	s.t.Helper()
	fibertest.Eventually(s.t, fibertest.Patience, func() bool {
		require.False(s.t, s.ended(), "it has ended")
		lines := strings.Split(s.output(), "\n") // the last one is not whole
		last = round{}
		return json.Unmarshal([]byte(lines[max(0, len(lines)-2)]), &last) == nil && cond(last)
	}, what)
	return last
}

// on lists those of the pods that are placed on a node, and of which more holds.
func (s *rounds) on(node string, pods []string, more ...string) (there []string) {
	s.t.Helper()
	selector := strings.Join(append(more, "spec.nodeName="+node), ",")
	for _, name := range strings.Fields(kubectl(s.t, "get", "pods", "-n", s.namespace, "--field-selector="+selector, "-o", "jsonpath={.items[*].metadata.name}")) {
		if slices.Contains(pods, name) {
			there = append(there, name)
		}
	}
	return there
}

// spread returns the workers when there are two on each node at least: the scheduler may have placed all on one.
func (s *rounds) spread() []string {
	s.t.Helper()
	r := s.until("all workers", func(r round) bool { return r.Ready == roundsWorkers })
	for node, other := range map[string]string{"node1": "node2", "node2": "node1"} {
		if len(s.on(node, r.Workers)) > 1 {
			continue
		}
		kubectl(s.t, "cordon", other)
		defer kubectl(s.t, "uncordon", other)
		kubectl(s.t, append([]string{"delete", "pods", "-n", s.namespace, "--wait=false"}, r.Workers[:roundsWorkers/2]...)...)
		r = s.until("workers on "+node, func(r round) bool {
			return r.Ready == roundsWorkers && len(s.on(node, r.Workers)) >= roundsWorkers/2
		})
	}
	return r.Workers
}

// A pool goes on whatever becomes of the second node, with right results, on the node that is left.
func TestNodes(t *testing.T) {
	needCluster(t)
	if os.Getenv(nodeKey) == "" {
		t.Skip("no second node")
	}
	for _, test := range []struct {
		name, root string // which node the root is on, "" for outside
		deeds      []string
		back       string
		left       string // the node whose workers end
		lost       bool   // and are lost
		full       bool   // the other node has no room
	}{
		{"killed", "", []string{"kill"}, "up", "node2", true, false},
		{"killed, and no room on the other", "", []string{"kill"}, "up", "node2", true, true},
		{"cut off", "", []string{"cut"}, "join", "node2", true, false},
		{"without power", "", []string{"cut", "kill"}, "up", "node2", true, false},
		{"drained", "", []string{"drain"}, "uncordon", "node2", false, false},
		{"killed, and the root on the other", "node1", []string{"kill"}, "up", "node2", true, false},
		{"drained, and the root on the other", "node1", []string{"drain"}, "uncordon", "node2", false, false},
		{"cut off with the root", "node2", []string{"cut"}, "join", "node1", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := []string{"FIBER_HEARTBEAT_TIMEOUT=5s"}
			if !test.lost {
				env = append(env, "ROUNDS_ONCE=1") // a second attempt would fail the map
			}
			s := startRounds(t, test.root, env...)
			left := s.on(test.left, s.spread())

			brought := false
			back := func() {
				brought = true
				secondNode(t, test.back)
			}
			defer func() {
				if !brought {
					back()
				}
			}()
			if test.full {
				kubectl(t, "cordon", "node1")
				defer kubectl(t, "uncordon", "node1")
			}
			for _, verb := range test.deeds {
				secondNode(t, verb)
			}
			if test.full { // new workers wait for it
				s.until("it is avoided", func(r round) bool { return slices.Equal(r.Avoided, []string{"node2"}) })
				back()
			}
			if test.root == "node2" { // it reaches nothing until it is back
				fibertest.Eventually(t, fibertest.Patience, func() bool { return len(s.on(test.left, left, "status.phase=Running")) == 0 }, "who hears nothing of the root does not end")
				back()
			}
			after := s.until("all workers once more", func(r round) bool {
				return r.Ready == roundsWorkers && !slices.ContainsFunc(left, func(w string) bool { return slices.Contains(r.Workers, w) })
			})
			switch {
			case test.full:
				require.Len(t, s.on("node2", after.Workers), len(left))
			case test.lost:
				require.GreaterOrEqual(t, after.Lost, len(left))
				require.Contains(t, s.output(), `"Avoided":["`+test.left+`"]`)
				if !brought {
					require.Empty(t, s.on(test.left, after.Workers), "they were replaced where they were lost")
				}
			default:
				require.Zero(t, after.Lost)
				require.Empty(t, after.Avoided)
			}
			if !brought {
				back()
			}
			fibertest.Eventually(t, fibertest.Patience, func() bool { return len(s.on("node1", left))+len(s.on("node2", left)) == 0 }, "pods of lost workers are left")
			s.until("it goes on", func(r round) bool { return r.Ready == roundsWorkers })
		})
	}
}
