//go:build unix

package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Pods that use what other processes have, whoever of them can dial whom.

// lodging is what a worker's pod is the home of, and an address there that
// anybody may dial who can.
type lodging struct {
	Queue   *fiber.SimpleQueue[int]
	Here    *fiber.Conn[string]
	There   *fiber.Conn[string]
	Address string
}

// door stays open for as long as its process lives.
var door net.Listener

var lodge = fiber.Register("lodge", func(context.Context, fibertest.None) (l lodging, err error) {
	if l.Queue, err = fiber.NewSimpleQueue[int](); err != nil {
		return l, err
	}
	if l.Here, l.There, err = fiber.Pipe[string](); err != nil {
		return l, err
	}
	host, err := fibertest.Address()
	if err != nil {
		return l, err
	}
	if door, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		return l, err
	}
	l.Address = door.Addr().String()
	return l, nil
})

// answers says whether an address can be dialled.
func answers(address string) bool {
	c, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// stay is what a visitor is given: things of another pod, of a manager and of
// the first process.
type stay struct {
	Queue   *fiber.SimpleQueue[int]
	End     *fiber.Conn[string]
	Words   *fiber.Dict[string, int]
	Reports *fiber.SimpleQueue[stayed]
	Address string
}

type stayed struct {
	Sum     int
	Answers bool
}

var (
	visit = fiber.Register("visit", func(ctx context.Context, s stay) (fibertest.None, error) {
		n, err := s.Queue.Get(ctx)
		if err != nil {
			return fibertest.None{}, err
		}
		text, err := s.End.Recv(ctx)
		if err != nil {
			return fibertest.None{}, err
		}
		if err := s.End.Send(ctx, strings.ToUpper(text)); err != nil {
			return fibertest.None{}, err
		}
		sum, err := s.Words.Update(ctx, "sum", func(old int, _ bool) (int, error) { return old + n, nil })
		if err != nil {
			return fibertest.None{}, err
		}
		return fibertest.None{}, s.Reports.Put(ctx, stayed{sum, answers(s.Address)})
	})

	// guide has a process of its own do it.
	guide = fiber.Register("guide", func(ctx context.Context, s stay) (fibertest.None, error) {
		p := fiber.NewProcess(visit, s)
		if err := p.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		return fibertest.None{}, p.Join(ctx)
	})

	// adding adds up more than may be under way to a process at a time.
	adding = fiber.RegisterRing("adding", nil, func(ctx context.Context, node *fiber.RingNode, totals *fiber.SimpleQueue[float64]) error {
		xs := make([]float64, 300_000)
		for i := range xs {
			xs[i] = float64(node.Rank() + 1)
		}
		if err := fiber.AllReduce(ctx, node, xs); err != nil {
			return err
		}
		for i, x := range xs {
			if x != xs[0] {
				return fmt.Errorf("%v at %d, not %v", x, i, xs[0])
			}
		}
		if node.Rank() != 0 {
			return nil
		}
		return totals.Put(ctx, xs[0])
	})
)

// flat has the program start no processes of processes, which need to dial the
// one that started them.
const flat = "flat"

var _ = fibertest.MainProgram("together", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := fiber.Apply(ctx, pool, lodge, fibertest.None{})
	if err != nil {
		return err
	}
	reports, err := fiber.NewSimpleQueue[stayed]()
	if err != nil {
		return err
	}
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	words, err := fiber.NewDict[string, int](ctx, m)
	if err != nil {
		return err
	}
	if err := words.Set(ctx, "sum", 1); err != nil {
		return err
	}
	visitor := guide
	if os.Getenv(fibertest.ArgKey) == flat {
		visitor = visit
	}
	p := fiber.NewProcess(visitor, stay{l.Queue, l.There, words, reports, l.Address})
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := l.Queue.Put(ctx, 41); err != nil {
		return err
	}
	if err := l.Here.Send(ctx, "hello"); err != nil {
		return err
	}
	text, err := l.Here.Recv(ctx)
	if err != nil {
		return err
	}
	report, err := reports.Get(ctx)
	if err != nil {
		return err
	}
	if err := p.Join(ctx); err != nil {
		return err
	}
	totals, err := fiber.NewSimpleQueue[float64]()
	if err != nil {
		return err
	}
	if err := fiber.NewRing(3, adding).Run(ctx, totals); err != nil {
		return err
	}
	total, err := totals.Get(ctx)
	fmt.Println(text, report.Sum, total)
	fmt.Println("the first process can dial a pod:", answers(l.Address))
	fmt.Println("pods can dial each other:", report.Answers)
	return err
})

const allTogether = "HELLO 42 6\nthe first process can dial a pod: %v\npods can dial each other: %v\n"

func TestPodsWorkTogether(t *testing.T) {
	namespace := inPod(t, "together")
	endsWell(t, namespace, "root")
	require.Equal(t, fmt.Sprintf(allTogether, true, true), logsOf(namespace, "root"))
}

const (
	apartHost    = "10.245.0.1" // this machine, seen from a network of its own
	apartAddress = "10.245.0.2" // who is in there
)

// apart gives a command that runs this test binary in a network of its own, as
// behind a router: pods can dial it, and of the cluster it can dial the API
// server alone.
func apart(t *testing.T) (command string) {
	t.Helper()
	apiServer(t) // the only node is this machine
	const name = "fiber-apart"
	masquerade := "iptables -t nat %s POSTROUTING -o " + name + " -j MASQUERADE" // the router, for pods of all nodes
	command = filepath.Join(t.TempDir(), "apart")
	run := func(line string) error {
		args := strings.Fields(line)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", line, err, out)
		}
		return err
	}
	remove := func() {
		run("ip link del " + name) // that of a network namespace may take a while
		run("ip netns del " + name)
		run(fmt.Sprintf(masquerade, "-D"))
	}
	remove() // of a test that was killed
	ip := func(line string) {
		t.Helper()
		require.NoError(t, run("ip "+line))
	}
	require.NoError(t, run(fmt.Sprintf(masquerade, "-A")))
	ip("netns add " + name)
	t.Cleanup(remove)
	ip("link add " + name + " type veth peer name eth0 netns " + name)
	ip("addr add " + apartHost + "/30 dev " + name)
	ip("link set " + name + " up")
	ip("-n " + name + " addr add " + apartAddress + "/30 dev eth0")
	ip("-n " + name + " link set lo up")
	ip("-n " + name + " link set eth0 up")
	ip("-n " + name + " route add " + os.Getenv(fibertest.HostKey) + " via " + apartHost)
	exe, err := os.Executable()
	require.NoError(t, err)
	script := fmt.Sprintf("#!/bin/sh\nexec ip netns exec %s %s\n", name, exe)
	require.NoError(t, os.WriteFile(command, []byte(script), 0o755))
	return command
}

// startApart runs a program there, whose children are pods.
func startApart(t *testing.T, name string, env ...string) *fibertest.Execution {
	needCluster(t)
	env = append(fibertest.ClusterEnv(), append(env, "FIBER_HOST="+apartAddress, "FIBER_IMAGE="+pushed(t), "FIBER_LOG_LEVEL=debug")...)
	return fibertest.StartFile(t, apart(t), name, env...)
}

func TestPodsThatTheRootCannotDial(t *testing.T) {
	x := startApart(t, "together")
	require.Zero(t, x.Wait(4*fibertest.Patience), x.Err.String())
	require.Equal(t, fmt.Sprintf(allTogether, false, true), x.Out.String())
	require.Contains(t, x.Err.String(), "reached along the tree")
	require.Empty(t, podsOf(t, x))
}

// islands has pods reach nobody of the pods' network, on whichever node of test/cluster, with the node's tools.
const islands = `spec:
  containers: [{}]
  initContainers:
    - name: island
      image: %s
      securityContext: {runAsUser: 0, capabilities: {add: [NET_ADMIN]}}
      command: [/bin/sh, -ec]
      args:
        - |
          gateway=$(ip -4 route show default | cut -d' ' -f3)
          network=$(ip -4 route show dev eth0 scope link | cut -d' ' -f1)
          ip route add $gateway dev eth0
          ip route del $network dev eth0
          ip route add blackhole 10.244.0.0/16
      env: [{name: PATH, value: "/usr/sbin:/usr/bin:/sbin:/bin"}]
      volumeMounts: [{name: usr, mountPath: /usr}, {name: bin, mountPath: /bin}, {name: lib, mountPath: /lib}, {name: lib64, mountPath: /lib64}]
  volumes:
    - {name: usr, hostPath: {path: /usr}}
    - {name: bin, hostPath: {path: /bin}}
    - {name: lib, hostPath: {path: /lib}}
    - {name: lib64, hostPath: {path: /lib64}}
`

func TestPodsThatNobodyCanDial(t *testing.T) {
	needCluster(t)
	template := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(template, fmt.Appendf(nil, islands, "localhost/pause:1"), 0o644))
	x := startApart(t, "together", "FIBER_POD_TEMPLATE="+template, fibertest.ArgKey+"="+flat)
	require.Zero(t, x.Wait(4*fibertest.Patience), x.Err.String())
	require.Equal(t, fmt.Sprintf(allTogether, false, false), x.Out.String())
	require.Empty(t, podsOf(t, x))
}
