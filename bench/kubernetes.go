//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
)

// The environment variables of the cluster to measure on are those of the tests.
const (
	kubeconfigKey = "FIBER_TEST_KUBECONFIG"
	hostKey       = "FIBER_TEST_HOST"     // the address at which its pods reach this machine
	registryKey   = "FIBER_TEST_REGISTRY" // where it pulls images from
)

// kubernetesRows are measured when a cluster is given: Fiber in a process of its own, outside the cluster, whose
// backend is kubernetes, against bare pods of the same image, which holds this executable, and against this process's
// local workers. All objects are in a namespace of their own, which must be empty in the end.
var kubernetesRows = []row{
	{name: "kubernetes/start", unit: duration, pairs: 7, open: func(ctx context.Context, m *match) error {
		return openPods(ctx, m, "report", 1, atMost(1.3))
	}},
	{name: "kubernetes/20-up", unit: duration, pairs: 5, open: func(ctx context.Context, m *match) error {
		return openPods(ctx, m, "up", many, atMost(1.5))
	}},
	{name: "kubernetes/pi", unit: duration, pairs: 31, open: openKubernetesPi},
	{name: "kubernetes/share-80MiB-20", unit: mebibytes, pairs: 3, open: openKubernetesShare},
	{name: "kubernetes/requests", unit: requests, pairs: 1, open: openRequests},
	{name: "kubernetes/run", unit: duration, pairs: 5, open: openFiberRun},
	{name: "kubernetes/main", unit: duration, pairs: 5, open: openMainOutside},
}

const (
	// createLimit is how long the pod of an unchanged program may take to be created.
	createLimit = 3 * time.Second
	// perPod is how many API requests a pod may cost.
	perPod = 3
	// settling is about how long a node takes to tear down a pod that is gone from the API.
	settling = 200 * time.Millisecond
	// clusterPatience bounds each wait for the cluster.
	clusterPatience = time.Minute
)

func clusterGiven() bool { return os.Getenv(kubeconfigKey) != "" }

func testHost() string {
	if host := os.Getenv(hostKey); host != "" {
		return host
	}
	return "10.244.0.1"
}

func testRegistry() string {
	if registry := os.Getenv(registryKey); registry != "" {
		return registry
	}
	return "localhost:5000"
}

// A namespace is the namespace of a run of the benchmarks, with a client of its cluster.
type namespace struct {
	*kube.Client
}

var (
	namespaceOnce sync.Once
	theNamespace  *namespace
	namespaceErr  error
)

// ownNamespace returns the namespace; the first call creates it.
func ownNamespace(ctx context.Context) (*namespace, error) {
	namespaceOnce.Do(func() { theNamespace, namespaceErr = newNamespace(ctx) })
	return theNamespace, namespaceErr
}

func newNamespace(ctx context.Context) (*namespace, error) {
	if err := os.Setenv("KUBECONFIG", os.Getenv(kubeconfigKey)); err != nil {
		return nil, err
	}
	client, err := kube.Connect("fiber-bench-" + strings.ToLower(rand.Text()[:8]))
	if err != nil {
		return nil, err
	}
	n := &namespace{client}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Namespace}}
	if err := n.REST.Post().Resource("namespaces").Body(own).Do(ctx).Error(); err != nil {
		return nil, n.Explain(err, "create", "namespaces")
	}
	return n, n.until(ctx, "a service account", func() (bool, error) { // no pod can be made before
		_, err := n.ServiceAccount(ctx, "default")
		return err == nil, nil
	})
}

// closeNamespace removes the namespace and returns an error if pods or secrets were left in it.
func closeNamespace() error {
	n := theNamespace
	if n == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	err := n.empty(ctx)
	if secrets, e := n.Secrets(ctx, ""); e == nil && len(secrets) > 0 {
		err = errors.Join(err, fmt.Errorf("%d secrets are left in the namespace %s", len(secrets), n.Namespace))
	}
	return errors.Join(err, n.REST.Delete().Resource("namespaces").Name(n.Namespace).Do(ctx).Error())
}

func (n *namespace) until(ctx context.Context, what string, there func() (bool, error)) error {
	late := time.After(clusterPatience)
	for {
		if ok, err := there(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late:
			return fmt.Errorf("namespace %s: waited %v in vain for %s", n.Namespace, clusterPatience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// empty waits until the namespace has no pods.
func (n *namespace) empty(ctx context.Context) error {
	return n.until(ctx, "no pods", func() (bool, error) {
		pods, err := n.Pods(ctx, "", false)
		return err == nil && len(pods.Items) == 0, err
	})
}

// settle waits until the pods of the contender before, so many, are torn down: that must not count for the next
// one.
func (n *namespace) settle(ctx context.Context, pods int) error {
	if err := n.empty(ctx); err != nil {
		return err
	}
	time.Sleep(2*time.Second + time.Duration(pods)*settling)
	return nil
}

// env returns the environment that a program needs to run on the cluster.
func (n *namespace) env() []string {
	return []string{"FIBER_BACKEND=kubernetes", "KUBECONFIG=" + os.Getenv(kubeconfigKey), "FIBER_REGISTRY=" + testRegistry(),
		"FIBER_KUBERNETES_NAMESPACE=" + n.Namespace}
}

// onPods returns the additional environment of the process whose backend is kubernetes.
func (n *namespace) onPods() []string {
	return append(n.env(), elsewhereVariable+"=kubernetes", "FIBER_HOST="+testHost())
}

// calls are connections dialled by what was started. Each caller runs until its connection is closed, so none ends
// while others are still being started.
type calls struct {
	net.Listener
	open []net.Conn
}

func listenForCalls() (*calls, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(testHost(), "0"))
	return &calls{Listener: l}, err
}

func (c *calls) address() string { return c.Addr().String() }

// wait waits for n calls and one byte from each.
func (c *calls) wait(ctx context.Context, n int) error {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for range n {
		nc, err := c.Accept()
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		c.open = append(c.open, nc)
		if _, err = io.ReadFull(nc, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

// end closes the calls.
func (c *calls) end() {
	c.Close()
	for _, nc := range c.open {
		nc.Close()
	}
}

// call dials back and runs until the connection is closed.
func call(address string) error {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer nc.Close()
	if _, err = nc.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, nc)
	return err
}

var callBack = fiber.Register("bench.callBack", func(_ context.Context, address string) (int, error) { return 0, call(address) })

// openPods measures the start of processes against as many concurrent bare pods: of the same image, created by
// client-go's REST client without a rate limit, with nothing in them that costs their node anything. Each dials
// back.
func openPods(ctx context.Context, m *match, what string, n int, b bound) error {
	space, err := ownNamespace(ctx)
	if err != nil {
		return err
	}
	img, err := image.New(image.Options{Platform: image.Platform{OS: "linux", Arch: runtime.GOARCH}})
	if err != nil {
		return err
	}
	ref, err := img.Push(ctx, testRegistry(), image.Pushing{})
	if err != nil {
		return err
	}
	run, err := openElsewhere(m, what, append(space.onPods(), "FIBER_FORWARD_LOGS=off")...)
	if err != nil {
		return err
	}
	m.subject = contender{name: what, ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		if err := space.settle(ctx, n); err != nil {
			return 0, err
		}
		return run(ctx, 1)
	}}
	m.references = []reference{{bound: b, contender: contender{name: fmt.Sprint(n, " bare pods"), ops: 1,
		run: func(ctx context.Context, _ int) (float64, error) {
			if err := space.settle(ctx, n); err != nil {
				return 0, err
			}
			return space.barePods(ctx, n, ref)
		}}}}
	return nil
}

// barePods creates count pods at once and returns the seconds until the last has dialled back. Their deletion is
// not measured.
func (n *namespace) barePods(ctx context.Context, count int, ref string) (float64, error) {
	calls, err := listenForCalls()
	if err != nil {
		return 0, err
	}
	defer calls.end()
	no := false
	var pods []*corev1.Pod
	for range count {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "bare-" + strings.ToLower(rand.Text()[:10])},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
				Containers: []corev1.Container{{Name: "bare", Image: ref, ImagePullPolicy: corev1.PullIfNotPresent,
					Env: []corev1.EnvVar{{Name: floorVariable, Value: "call:" + calls.address()}}}}},
		})
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterPatience)
		defer cancel()
		for _, p := range pods {
			n.Delete(ctx, "pods", p, 0)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 2*clusterPatience)
	defer cancel()
	begun, made := time.Now(), make(chan error, count)
	for _, p := range pods {
		go func() { made <- n.REST.Post().Namespace(n.Namespace).Resource("pods").Body(p).Do(ctx).Error() }()
	}
	err = calls.wait(ctx, count)
	took := time.Since(begun)
	for range pods {
		err = errors.Join(err, <-made)
	}
	return took.Seconds(), err
}

// openKubernetesPi measures the Pi program on a warm pool of four pods against one of four processes. Neither
// reserves a CPU for each worker: a node with two would not have room.
func openKubernetesPi(ctx context.Context, m *match) error {
	space, err := ownNamespace(ctx)
	if err != nil {
		return err
	}
	if err := space.settle(ctx, many); err != nil { // those of the row before
		return err
	}
	run, err := openElsewhere(m, "pi-anywhere", append(space.onPods(), "FIBER_FORWARD_LOGS=off")...)
	if err != nil {
		return err
	}
	pool, err := warmPool(ctx, m, 4, func(ctx context.Context, pool *fiber.Pool) error {
		_, err := fiber.Apply(ctx, pool, insideAnywhere, 0)
		return err
	})
	if err != nil {
		return err
	}
	ins := make([]int, piSamples)
	m.subject = contender{name: "4 pods", ops: 1, run: run}
	m.references = []reference{{bound: atMost(1.4), contender: contender{name: "4 processes", ops: 1,
		run: timed(func(ctx context.Context, _ int) error { return mapPi(ctx, pool, insideAnywhere, ins) })}}}
	return nil
}

// openKubernetesShare measures the bytes that leave the root while 20 pods get numbers that it has shared, against twice a copy for
// each doubling of the machines.
func openKubernetesShare(ctx context.Context, m *match) error {
	space, err := ownNamespace(ctx)
	if err != nil {
		return err
	}
	if err := space.settle(ctx, many); err != nil {
		return err
	}
	run, err := openElsewhere(m, "spread", append(space.onPods(), "FIBER_FORWARD_LOGS=off")...)
	if err != nil {
		return err
	}
	copies := 2 * bits.Len(many)
	m.subject = contender{name: "Share and Get", ops: 1, run: func(ctx context.Context, n int) (float64, error) {
		bytes, err := run(ctx, n)
		return bytes / (1 << 20), err
	}}
	m.references = []reference{{bound: atMost(1), contender: constant(fmt.Sprint(copies, " copies"), float64(copies*sharedNumbers*8>>20))}}
	return nil
}

// A teller is a proxy that passes every request on to a server and counts some of them.
type teller struct {
	*http.Server
	address string
	counted atomic.Int64
}

func newTeller(to *url.URL, through http.RoundTripper, counts func(*http.Request) bool) (*teller, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &teller{address: l.Addr().String()}
	proxy := &httputil.ReverseProxy{Transport: through, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // a registry puts this host into its answers
	}}
	c.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if counts(r) {
			c.counted.Add(1)
		}
		proxy.ServeHTTP(w, r)
	})}
	go c.Serve(l)
	return c, nil
}

// tellerVariable, if set, makes a teller write what it counts to stderr.
const tellerVariable = "BENCH_COUNTED"

func everyRequest(r *http.Request) bool {
	if os.Getenv(tellerVariable) != "" {
		fmt.Fprintln(os.Stderr, "counted:", r.Method, r.URL.Path, r.URL.RawQuery)
	}
	return true
}

// openRequests counts all API requests of a whole run whose fifty workers are up for a minute. The run's kubeconfig
// names a proxy in this process that stands before the API server, so all requests are counted, whatever code makes
// them.
func openRequests(ctx context.Context, m *match) error {
	space, err := ownNamespace(ctx)
	if err != nil {
		return err
	}
	through, err := rest.TransportFor(space.Config)
	if err != nil {
		return err
	}
	api, _, err := rest.DefaultServerUrlFor(space.Config)
	if err != nil {
		return err
	}
	c, err := newTeller(&url.URL{Scheme: api.Scheme, Host: api.Host}, through, everyRequest)
	if err != nil {
		return err
	}
	m.closing(func() { c.Close() })
	config, err := kubeconfig("http://" + c.address)
	if err != nil {
		return err
	}
	m.closing(func() { os.Remove(config) })
	warm := false
	m.subject = contender{name: fmt.Sprint(lingerers, " workers"), ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		if !warm { // the first turn would warm up, and nothing needs that
			warm = true
			return 0, nil
		}
		if err := space.settle(ctx, lingerers); err != nil {
			return 0, err
		}
		before := c.counted.Load()
		e, err := startElsewhere("", append(space.onPods(), "KUBECONFIG="+config)...)
		if err != nil {
			return 0, err
		}
		_, err = e.do("linger")
		err = errors.Join(err, e.close(), space.empty(ctx))
		return float64(c.counted.Load() - before), err
	}}
	m.references = []reference{{bound: atMost(1), contender: constant(fmt.Sprintf("%d a pod + watch", perPod), perPod*lingerers+1)}}
	return nil
}

// kubeconfig writes a kubeconfig for a server without authentication and returns its path.
func kubeconfig(server string) (string, error) {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}},
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": server}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{}}}})
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "bench-kubeconfig")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return f.Name(), errors.Join(err, f.Close())
}

// openFiberRun measures "fiber run" of an unchanged program, including the build by the go command, until its
// pod is created.
func openFiberRun(ctx context.Context, m *match) error {
	dir, err := os.MkdirTemp("", "bench-fiber")
	if err != nil {
		return err
	}
	m.closing(func() { os.RemoveAll(dir) })
	command := filepath.Join(dir, "fiber")
	build := exec.CommandContext(ctx, "go", "build", "-o", command, "./cmd/fiber")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return openSubmission(ctx, m, "fiber run", "bench", command, "run", "-a", "-e", floorVariable+"=say", ".")
}

// openMainOutside measures Main when this executable is started outside of the cluster.
func openMainOutside(ctx context.Context, m *match) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return openSubmission(ctx, m, "Main", "", self)
}

// openSubmission measures a command that submits a program from a folder, until its pod is created. A teller before the
// registry counts the uploads: after the first time there must be none.
func openSubmission(ctx context.Context, m *match, name, dir, command string, args ...string) error {
	space, err := ownNamespace(ctx)
	if err != nil {
		return err
	}
	env := append(space.env(), "FIBER_ENV="+floorVariable+"=say")
	uploads := func() int64 { return 0 }
	if host, path, _ := strings.Cut(testRegistry(), "/"); loopback(host) { // else the registry's name must stay
		c, err := newTeller(&url.URL{Scheme: "http", Host: host}, nil, func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/blobs/uploads") && r.Method != http.MethodGet
		})
		if err != nil {
			return err
		}
		m.closing(func() { c.Close() })
		uploads = c.counted.Load
		env = append(env, "FIBER_REGISTRY="+strings.TrimSuffix(c.address+"/"+path, "/"))
	}
	first := true
	m.subject = contender{name: name, ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		if err := space.settle(ctx, 1); err != nil {
			return 0, err
		}
		before := uploads()
		took, said, err := submission(ctx, env, dir, command, args...)
		pushed := uploads() > before || strings.Contains(said, "pushing the image")
		if err == nil && pushed && !first {
			err = errors.New("an unchanged program was pushed again")
		}
		first = false
		return took, err
	}}
	m.references = []reference{{bound: atMost(1), contender: constant("limit", createLimit.Seconds())}}
	return nil
}

func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	ip := net.ParseIP(name)
	return err == nil && (name == "localhost" || ip != nil && ip.IsLoopback())
}

// submission returns the seconds until a command reports that the pod is created, and its stderr. The time from then
// to its end does not count.
func submission(ctx context.Context, env []string, dir, command string, args ...string) (took float64, said string, err error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir = dir
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		return 0, "", err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	for lines := bufio.NewScanner(errs); lines.Scan(); said += lines.Text() + "\n" {
		if strings.HasPrefix(lines.Text(), "Created pod: ") {
			took = time.Since(begun).Seconds()
		}
	}
	if err := cmd.Wait(); err != nil || took == 0 {
		return 0, said, fmt.Errorf("%s: %v: %s", command, err, said)
	}
	return took, said, nil
}
