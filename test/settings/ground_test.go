//go:build unix

package settings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/address"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/test/fibertest"
)

// gpuResource is a resource that the tests give to all nodes.
const gpuResource = "example.com/settings"

// ground is what a run of the program needs to be there. What is "" is not there.
type ground struct {
	place           string
	executable      string // another build of this program, in a directory of its own
	size            int64  // of that
	base, image     string // images of this program, the first in a file, with a variable that tells them from others
	host            string // an address of this machine
	network, subnet string // of docker
	registry        string
	namespace       string
	template        string // of pods
	logs, runtime   string // directories
	deadline        string // of starts
}

func (g *ground) kubernetes() bool { return g.place == outside || g.place == moved }

func (g *ground) backend() string {
	if g.kubernetes() {
		return "kubernetes"
	}
	return g.place
}

// places are those of the backend that the tests run on.
func places() []string {
	switch os.Getenv("FIBER_TEST_BACKEND") {
	case "docker":
		return []string{docker}
	case "kubernetes":
		return []string{outside, moved}
	}
	return []string{local}
}

func prepare(t *testing.T, place string) *ground {
	t.Helper()
	dir := fibertest.OpenDir(t)
	g := &ground{place: place, executable: filepath.Join(dir, "bin", "other"), logs: filepath.Join(dir, "logs"), runtime: filepath.Join(dir, "run"), deadline: "30s"}
	for _, path := range []string{filepath.Dir(g.executable), g.logs, g.runtime} {
		require.NoError(t, os.Mkdir(path, 0o777))
	}
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	id := []byte(tree.Build())
	program = append(bytes.ReplaceAll(program, id, bytes.Repeat([]byte("x"), len(id))), 0)
	g.size = int64(len(program))
	require.NoError(t, os.WriteFile(g.executable, program, 0o755))
	if place == local {
		return g
	}
	g.deadline = "1m30s"
	base, picture := marked(t, "SETTINGS_BASE"), marked(t, "SETTINGS_IMAGE")
	g.base = base
	if place != moved {
		g.host = hostAddress(t)
	}
	if place == docker {
		g.image = markedImage
		command(t, "docker", "load", "-i", picture)
		g.network = fmt.Sprintf("fiber-test-%x", time.Now().UnixNano())
		command(t, "docker", "network", "create", g.network)
		t.Cleanup(func() { command(t, "docker", "network", "rm", g.network) })
		subnet, err := netip.ParsePrefix(strings.TrimSpace(command(t, "docker", "network", "inspect", "-f", "{{(index .IPAM.Config 0).Subnet}}", g.network)))
		require.NoError(t, err)
		g.subnet = strings.Join(strings.SplitAfter(subnet.Addr().String(), ".")[:subnet.Bits()/8], "") // the whole bytes
		return g
	}
	g.registry = fibertest.Registry()
	g.image = g.registry + "/" + markedImage
	ref, err := name.ParseReference(g.image)
	require.NoError(t, err)
	img, err := tarball.ImageFromPath(picture, nil)
	require.NoError(t, err)
	pushing.Lock()
	err = remote.Write(ref, img)
	pushing.Unlock()
	require.NoError(t, err)
	image.CloseIdle()
	g.namespace = newNamespace(t, dir)
	g.template = filepath.Join(dir, "pod.yaml")
	require.NoError(t, os.WriteFile(g.template, []byte("metadata: {labels: {settings: template}}\n"), 0o644))
	return g
}

// pushing is held while an image is pushed: the registry's files are not made for two uploads of one image.
var pushing sync.Mutex

// hostAddress is an address of this machine that containers reach, and not the one that they use without the setting.
func hostAddress(t *testing.T) string {
	t.Helper()
	host, err := address.Towards("192.0.2.1") // nobody has it
	require.NoError(t, err)
	return host
}

// markedImage names an image of this program. The name is new, since nodes keep what they have under an old one.
var markedImage = fmt.Sprintf("fiber-test-settings:%x", time.Now().UnixNano())

var markedOnce sync.Map // of func() (string, error), by variable

// marked makes an image of this program that sets a variable, in a file as docker save writes it.
func marked(t *testing.T, variable string) string {
	t.Helper()
	once, _ := markedOnce.LoadOrStore(variable, sync.OnceValues(func() (string, error) { return mark(variable) }))
	file, err := once.(func() (string, error))()
	require.NoError(t, err)
	return file
}

func mark(variable string) (string, error) {
	platform, err := image.PlatformOf("")
	if err != nil {
		return "", err
	}
	of, err := image.New(image.Options{Platform: platform})
	if err != nil {
		return "", err
	}
	plain, err := os.CreateTemp("", "plain")
	if err != nil {
		return "", err
	}
	defer plain.Close()
	if err := of.Save(context.Background(), plain); err != nil {
		return "", err
	}
	img, err := tarball.ImageFromPath(plain.Name(), nil)
	if err != nil {
		return "", err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	file = file.DeepCopy()
	file.Config.Env = append(file.Config.Env, variable+"=marked")
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return "", err
	}
	tag, err := name.NewTag(markedImage)
	if err != nil {
		return "", err
	}
	return plain.Name() + ".tar", tarball.WriteToFile(plain.Name()+".tar", tag, img)
}

func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return command(t, "kubectl", append([]string{"--kubeconfig", os.Getenv(fibertest.KubeconfigKey)}, args...)...)
}

// newNamespace makes a namespace with deploy/rbac.yaml and a claim, data.
func newNamespace(t *testing.T, dir string) (namespace string) {
	t.Helper()
	namespace = fibertest.Namespace(t)
	kubectl(t, "apply", "-n", namespace, "-f", "../../deploy/rbac.yaml")
	file := filepath.Join(dir, "claim.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: %[1]s, hostPath: {path: /tmp/%[1]s, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: %[1]s}
spec: {storageClassName: %[1]s, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
`, namespace), 0o644))
	kubectl(t, "apply", "-f", file)
	t.Cleanup(func() {
		kubectl(t, "delete", "pv", namespace, "--wait=false")
		os.Remove("/tmp/" + namespace) // if the node is this machine
	})
	return namespace
}

// haveGPUs gives the nodes of the cluster something to count as GPUs.
func haveGPUs(t *testing.T) {
	t.Helper()
	path := strings.ReplaceAll(gpuResource, "/", "~1")
	patch := func(operation map[string]string) {
		var operations []map[string]string
		for _, list := range []string{"capacity", "allocatable"} {
			one := map[string]string{"path": "/status/" + list + "/" + path}
			for key, value := range operation {
				one[key] = value
			}
			operations = append(operations, one)
		}
		text, err := json.Marshal(operations)
		require.NoError(t, err)
		for _, node := range strings.Fields(kubectl(t, "get", "nodes", "-o", "name")) {
			kubectl(t, "patch", node, "--subresource=status", "--type=json", "-p", string(text))
		}
	}
	patch(map[string]string{"op": "add", "value": "1000"})
	t.Cleanup(func() { patch(map[string]string{"op": "remove"}) })
}
