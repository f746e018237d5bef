//go:build unix

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
)

// onDocker is the additional environment of the process whose backend is docker.
var onDocker = []string{elsewhereVariable + "=docker", "FIBER_FORWARD_LOGS=off"}

// stepLimit is how long finding the image of an unchanged program may take.
const stepLimit = 300 * time.Millisecond

// dockerRows are measured when an engine answers: Fiber in a process of its own, whose backend is docker, against
// "docker run" of the same image, which holds this executable, and against this process's local workers.
var dockerRows = []row{
	{name: "docker/start", unit: duration, pairs: 7, open: func(ctx context.Context, m *match) error {
		return openRuns(ctx, m, "start", 1, atMost(1.5))
	}},
	{name: "docker/20-up", unit: duration, pairs: 3, open: func(ctx context.Context, m *match) error {
		return openRuns(ctx, m, "up", many, atMost(2))
	}},
	{name: "docker/pi", unit: duration, pairs: 7, open: openDockerPi},
	{name: "docker/image", unit: duration, pairs: 5, open: openImageStep},
	{name: "docker/10MB", unit: duration, pairs: 9, open: openDockerEcho},
	{name: "docker/share-80MiB-16", unit: duration, pairs: 7, open: openDockerShare},
}

// engineAnswers reports whether a docker engine answers.
func engineAnswers() bool {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return false
	}
	defer cli.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = cli.Ping(ctx)
	return err == nil
}

// ownImage returns the name of this executable's image.
func ownImage() (string, error) {
	img, err := image.New(image.Options{Platform: image.Platform{OS: "linux", Arch: runtime.GOARCH}})
	if err != nil {
		return "", err
	}
	return img.Name(), nil
}

// openRuns measures the start of processes against as many concurrent "docker run".
func openRuns(_ context.Context, m *match, what string, n int, b bound) error {
	run, err := openElsewhere(m, what, onDocker...)
	if err != nil {
		return err
	}
	name, err := ownImage()
	if err != nil {
		return err
	}
	m.subject = contender{name: what, ops: 1, run: run}
	m.references = []reference{{bound: b, contender: contender{name: fmt.Sprint(n, " docker run"), ops: 1,
		run: timedRuns(n, name)}}}
	return nil
}

// timedRuns starts n "docker run" that each write a byte, and measures the time until all bytes have come. It
// then waits, unmeasured, for their ends.
func timedRuns(n int, name string) func(context.Context, int) (float64, error) {
	return func(ctx context.Context, _ int) (float64, error) {
		begun := time.Now()
		up, ended := make(chan error, n), sync.WaitGroup{}
		defer ended.Wait()
		for range n {
			cmd := exec.CommandContext(ctx, "docker", "run", "--rm", "--env", floorVariable+"=say", name)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				return 0, err
			}
			ended.Go(func() {
				_, err := io.ReadFull(out, make([]byte, 1))
				up <- err
				io.Copy(io.Discard, out)
				cmd.Wait()
			})
		}
		for range n {
			if err := <-up; err != nil {
				return 0, err
			}
		}
		return time.Since(begun).Seconds(), nil
	}
}

// openDockerPi measures the Pi program on a warm pool of four containers, against one of four processes.
func openDockerPi(ctx context.Context, m *match) error {
	run, err := openElsewhere(m, "pi", onDocker...)
	if err != nil {
		return err
	}
	pool, err := warmPool(ctx, m, 4, func(ctx context.Context, pool *fiber.Pool) error {
		_, err := fiber.Apply(ctx, pool, inside, 0)
		return err
	})
	if err != nil {
		return err
	}
	ins := make([]int, piSamples)
	m.subject = contender{name: "4 containers", ops: 1, run: run}
	m.references = []reference{{bound: atMost(1.3), contender: contender{name: "4 processes", ops: 1,
		run: timed(func(ctx context.Context, _ int) error { return mapPi(ctx, pool, inside, ins) })}}}
	return nil
}

// openImageStep measures how long an unchanged program waits for its image.
func openImageStep(ctx context.Context, m *match) error {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	m.closing(func() { cli.Close() })
	start, err := openElsewhere(m, "start", onDocker...) // puts the image into the engine
	if err != nil {
		return err
	}
	if _, err := start(ctx, 1); err != nil {
		return err
	}
	m.subject = contender{name: "image named and found", ops: 1, run: timed(func(ctx context.Context, _ int) error {
		name, err := ownImage()
		if err == nil {
			_, err = cli.ImageInspect(ctx, name)
		}
		return err
	})}
	m.references = []reference{{bound: atMost(1), contender: constant("limit", stepLimit.Seconds())}}
	return nil
}

// openDockerEcho measures 10 MB to a container and back against as many bytes over bare TLS on the same
// bridge.
func openDockerEcho(ctx context.Context, m *match) error {
	run, err := openElsewhere(m, "echo", onDocker...)
	if err != nil {
		return err
	}
	if _, err := run(ctx, 1); err != nil { // puts the image into the engine
		return err
	}
	network, err := docker.New(config.Config{}).Network(ctx)
	if err != nil {
		return err
	}
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", net.JoinHostPort(network.Bind, "0"), &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	defer l.Close()
	name, err := ownImage()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	far := exec.Command("docker", "run", "--rm", "--env",
		floorVariable+"=tls:"+strconv.Itoa(echoBytes)+" "+net.JoinHostPort(network.Host, port), name)
	far.Stderr = os.Stderr
	if err := far.Start(); err != nil {
		return err
	}
	nc, err := l.Accept()
	if err != nil {
		return err
	}
	m.closing(func() { nc.Close(); far.Wait() })
	out, in := make([]byte, echoBytes), make([]byte, echoBytes)
	m.subject = contender{name: "Apply", ops: 5, run: run}
	m.references = []reference{{bound: atMost(3), contender: contender{name: "bare TLS", ops: 5,
		run: timed(func(_ context.Context, n int) error {
			for range n {
				if _, err := nc.Write(out); err != nil {
					return err
				}
				if _, err := io.ReadFull(nc, in); err != nil {
					return err
				}
			}
			return nil
		})}}}
	return nil
}

// openDockerShare measures numbers that are shared and of which each of 16 containers reads one in each page.
func openDockerShare(_ context.Context, m *match) error {
	e, err := elsewhereFor(m, onDocker...)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Share and Get", ops: 1, run: e.runs("share")}
	m.references = []reference{{bound: atMost(3), contender: contender{name: "copy, 16 trips", ops: 1, run: e.runs("copy")}}}
	return nil
}

// dialTLS is the far side of bare TLS. argument is a size in bytes and an address; dialTLS echoes messages of
// that size.
func dialTLS(argument string) error {
	text, address, _ := strings.Cut(argument, " ")
	size, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	nc, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // nothing is secret
	if err != nil {
		return err
	}
	buf := make([]byte, size)
	for {
		if _, err := io.ReadFull(nc, buf); err != nil {
			return err
		}
		if _, err := nc.Write(buf); err != nil {
			return err
		}
	}
}

func selfSigned() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}
