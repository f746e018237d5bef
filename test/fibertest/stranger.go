//go:build unix

package fibertest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/transport"
)

// fortified is what a worker has: a queue, so that it is a home, and
// a process of its own, which reports to it.
type fortified struct {
	Queue *fiber.SimpleQueue[int]
	Ports []string
}

var fortify = fiber.Register("fortify", func(ctx context.Context, _ None) (f fortified, err error) {
	if f.Queue, err = fiber.NewSimpleQueue[int](); err != nil {
		return f, err
	}
	if err = fiber.NewProcess(Rest, time.Hour).Start(ctx); err != nil {
		return f, err
	}
	f.Ports, err = ports()
	return f, err
})

// Address is that of this machine, container or pod.
func Address() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address")
}

// ports lists where this process listens.
func ports() (all []string, err error) {
	host, err := Address()
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			own[to] = true
		}
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a machine without IPv6
		}
		const listens = "0A"
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listens || !own["socket:["+f[9]+"]"] {
				continue
			}
			_, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				return nil, err
			}
			all = append(all, net.JoinHostPort(host, strconv.FormatUint(n, 10)))
		}
	}
	return all, nil
}

// A run that goes on for as long as nobody ends it, and says so.
var _ = MainProgram("fortress", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	f, err := fiber.Apply(ctx, pool, fortify, None{})
	if err != nil {
		return err
	}
	own, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		return err
	}
	mine, err := ports()
	if err != nil {
		return err
	}
	fmt.Println("ports", strings.Join(mine, " "), strings.Join(f.Ports, " "))
	for round := 1; ; round++ {
		if err := f.Queue.Put(ctx, round); err != nil {
			return err
		}
		if _, err := fiber.Apply(ctx, pool, handOver, handing{f.Queue, own}); err != nil {
			return err
		}
		n, err := own.Get(ctx)
		if err != nil || n != round {
			return fmt.Errorf("%d, not %d: %w", n, round, err)
		}
		fmt.Println("round", round, "lost", pool.Stats().WorkersLost)
		time.Sleep(200 * time.Millisecond)
	}
})

type handing struct{ From, To *fiber.SimpleQueue[int] }

var handOver = fiber.Register("handOver", func(ctx context.Context, h handing) (None, error) {
	n, err := h.From.Get(ctx)
	if err != nil {
		return None{}, err
	}
	return None{}, h.To.Put(ctx, n)
})

// greeting is how a ZeroMQ peer begins, without any security.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[8], g[9], g[10] = 0xff, 1, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}

// alert is what TLS says before it hangs up.
var alert = regexp.MustCompile(`^\x15\x03.\x00\x02..$`)

// StrangersTries are ways to get something from a port.
var StrangersTries = map[string]func(address string) string{
	"silence":        func(a string) string { return strangerGets(a, nil) },
	"garbage":        func(a string) string { return strangerGets(a, bytes.Repeat([]byte("garbage\n"), 512)) },
	"http":           func(a string) string { return strangerGets(a, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) },
	"zmtp":           func(a string) string { return strangerGets(a, greeting()) },
	"tls":            func(a string) string { return strangerGetsByTLS(a) },
	"tls of its own": func(a string) string { return strangerGetsByTLS(a, ownCertificate()) },
	"another run": func(a string) string {
		credentials, err := transport.NewCredentials()
		if err != nil {
			return err.Error()
		}
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		c, err := transport.Dial(ctx, "tls:"+a, credentials, transport.Options{})
		if err != nil {
			return "nothing"
		}
		c.Close()
		return "a connection"
	},
}

// strangerGets dials, says something, and gives what comes until the port
// hangs up.
func strangerGets(address string, say []byte) string {
	c, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		return err.Error()
	}
	return hearsOut(c, say)
}

func strangerGetsByTLS(address string, certificates ...tls.Certificate) string {
	c, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		return err.Error()
	}
	return hearsOut(tls.Client(c, &tls.Config{InsecureSkipVerify: true, Certificates: certificates}), greeting())
}

func hearsOut(c net.Conn, say []byte) string {
	defer c.Close()
	c.SetDeadline(time.Now().Add(Patience))
	c.Write(say) // a port may have hung up by then
	got, err := io.ReadAll(c)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "time"
	case len(got) > 0 && !alert.Match(got):
		return fmt.Sprintf("%q", got)
	}
	return "nothing"
}

// ownCertificate is one that says what those of a run say, of nobody's
// authority.
func ownCertificate() tls.Certificate {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"fiber"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	cert.Subject.CommonName = "fiber member"
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, public, private)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

var _ = Program("stranger", func() {
	var all sync.WaitGroup
	for _, address := range strings.Fields(os.Getenv(ArgKey)) {
		for name, try := range StrangersTries {
			all.Go(func() { fmt.Printf("%s, %s: %s\n", address, name, try(address)) })
		}
	}
	all.Wait()
})
