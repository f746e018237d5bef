//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const muchLines = 1_000_000

// much is a program that writes 52 MB as quickly as it can.
var much = fmt.Sprintf(`package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/fiber-go/fiber"
)

func main() { fiber.Main(run) }

func run(context.Context) error {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := range %d {
		fmt.Fprintf(out, "line %%046d\n", i)
	}
	return out.Flush()
}
`, muchLines)

// All that a program writes at once arrives: through fiber run, whose connections are slow, break, and which is stopped for a
// while; and through Main.
func TestAllOfTheOutputArrives(t *testing.T) {
	c := newOnCluster(t)
	file := filepath.Join(c.dir, "much.go")
	write(t, file, much)
	bin := filepath.Join(c.dir, "much")
	c.dir = "../.."
	build := exec.Command("go", "build", "-o", bin, file)
	build.Dir, build.Env = c.dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	check := func(f *following) {
		t.Helper()
		assert.Zero(t, f.code(), f.stderr())
		next := 0
		for line := range strings.Lines(f.stdout()) {
			require.Equal(t, fmt.Sprintf("line %046d\n", next), line)
			next++
		}
		assert.Equal(t, muchLines, next)
		assert.NotContains(t, f.stderr(), "missing")
		c.empty()
	}

	proxy := newSlowProxy(t)
	usual := c.env
	config := filepath.Join(t.TempDir(), "config")
	write(t, config, c.kubectl("config", "view", "--raw"))
	c.kubectl("--kubeconfig", config, "config", "set", "clusters."+strings.TrimSpace(c.kubectl("config", "view", "-o", "jsonpath={.clusters[0].name}"))+".server", "https://"+proxy.address)
	c.env = append(c.env, "KUBECONFIG="+config)
	run := c.follow("run", "-a", file)
	for _, line := range []int{20_000, 200_000} {
		run.says(fmt.Sprintf("line %046d\n", line))
		proxy.cut()
	}
	run.says(fmt.Sprintf("line %046d\n", 300_000))
	require.NoError(t, run.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(20 * time.Second) // longer than a connection may be silent
	require.NoError(t, run.cmd.Process.Signal(syscall.SIGCONT))
	check(run)

	c.env, c.bin = append(usual, "FIBER_BACKEND=kubernetes", "FIBER_HOST="), bin
	check(c.follow())
}

// slowProxy is a way to the cluster that lets through 10 MB a second.
type slowProxy struct {
	address string
	mu      sync.Mutex
	conns   []net.Conn
}

func newSlowProxy(t *testing.T) *slowProxy {
	t.Helper()
	text, err := exec.Command("kubectl", "--kubeconfig", os.Getenv("FIBER_TEST_KUBECONFIG"), "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").Output()
	require.NoError(t, err)
	server, err := url.Parse(string(text))
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &slowProxy{address: l.Addr().String()}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			ours, err := l.Accept()
			if err != nil {
				return
			}
			theirs, err := net.Dial("tcp", server.Host)
			if err != nil {
				ours.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, ours, theirs)
			p.mu.Unlock()
			go func() { io.Copy(theirs, ours); theirs.Close() }()
			go func() {
				for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) {
					_, err = io.CopyN(ours, theirs, 100_000)
				}
				ours.Close()
			}()
		}
	}()
	return p
}

// cut breaks all connections.
func (p *slowProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
