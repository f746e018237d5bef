//go:build unix

package docker_test

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/fibertest"
)

// stopped is a way to the engine that can be stopped: from then on it takes all requests, and passes none on.
type stopped struct {
	sync.Mutex
	at string
}

func newStopped(t *testing.T) *stopped {
	s := &stopped{at: filepath.Join(t.TempDir(), "engine")}
	to, err := client.ParseHostURL(engine().DaemonHost())
	require.NoError(t, err)
	l, err := net.Listen("unix", s.at)
	require.NoError(t, err)
	var ways sync.WaitGroup
	t.Cleanup(func() { l.Close(); ways.Wait() })
	ways.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			way, err := net.Dial(to.Scheme, to.Host+to.Path)
			if err != nil {
				from.Close()
				continue
			}
			ways.Go(func() {
				var both sync.WaitGroup
				for _, way := range [][2]net.Conn{{from, way}, {way, from}} {
					both.Go(func() {
						io.Copy(passing{way[0], s}, way[1])
						if half, ok := way[0].(interface{ CloseWrite() error }); ok {
							half.CloseWrite()
						}
					})
				}
				both.Wait()
				from.Close()
				way.Close()
			})
		}
	})
	return s
}

// passing writes while the way is not stopped.
type passing struct {
	io.Writer
	way *stopped
}

func (p passing) Write(b []byte) (int, error) {
	p.way.Lock()
	defer p.way.Unlock()
	return p.Writer.Write(b)
}

// A second signal ends the program at once, though its engine does not answer. The containers end, and are removed, by
// themselves.
func TestSecondSignalWithoutTheEngine(t *testing.T) {
	t.Parallel()
	if engine() == nil {
		t.Skip("no docker engine answers")
	}
	way := newStopped(t)
	x := contained(t, "stubborn", "DOCKER_HOST=unix://"+way.at)
	x.Says("started")
	way.Lock()
	x.SignalRoot(syscall.SIGINT)
	x.Says("told")
	x.SignalRoot(syscall.SIGTERM)
	code := x.Wait(containerPatience)
	way.Unlock()
	require.Equal(t, 143, code)
	require.NotContains(t, x.Err.String(), "could not be signalled", "it has not waited for the engine")
	require.Contains(t, x.Err.String(), "what is left of the run ends by itself")
	fibertest.Eventually(t, containerPatience, func() bool { return len(containersOf(t, x)) == 0 }, "containers are left")
}
