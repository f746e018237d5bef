package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/self"
)

// maxDialPause is the longest pause after a listener has hung up.
const maxDialPause = time.Second

// Dial connects to a listener of the same run and authenticates both ends. The
// endpoint is that of Listener.Endpoint: "unix:path" or "tls:host:port". Dial
// blocks until ctx ends or Options.HandshakeTimeout has passed; afterwards ctx
// has no effect. If the listener hangs up during the handshake, as an
// overloaded one does, Dial tries again. The error is ErrAuth if the listener
// is of another run, and ErrNoAnswer if it was reached but did not complete the
// handshake in time.
func Dial(ctx context.Context, endpoint string, cred *Credentials, opts Options) (*Conn, error) {
	opts = opts.withDefaults()
	within, cancel := context.WithTimeout(ctx, opts.HandshakeTimeout)
	defer cancel()
	for again := (retry.Pauses{Longest: maxDialPause}); ; {
		nc, err := dial(within, endpoint, cred)
		if err != nil {
			return nil, fmt.Errorf("transport: dial %s: %w", endpoint, err)
		}
		c, err := join(within, nc, cred, opts, nil)
		if err == nil {
			return c, nil
		}
		if !HungUp(err) || !again.Wait(within) {
			switch {
			case errors.Is(ctx.Err(), context.Canceled):
				err = ctx.Err()
			case within.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
				err = fmt.Errorf("%w: %w", ErrNoAnswer, context.DeadlineExceeded)
			}
			return nil, fmt.Errorf("transport: dial %s: %w", endpoint, err)
		}
	}
}

// Over is Dial over a connection to a TLS listener that the caller has made. It
// owns nc.
func Over(ctx context.Context, nc net.Conn, cred *Credentials, opts Options) (*Conn, error) {
	opts = opts.withDefaults()
	secured, err := cred.secure(nc, tls.Client)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, opts.HandshakeTimeout)
	defer cancel()
	return join(within, secured, cred, opts, nil)
}

// HungUp reports whether a connection has failed because the other end has ended
// it: its process is most likely gone.
func HungUp(err error) bool {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}

func dial(ctx context.Context, endpoint string, cred *Credentials) (net.Conn, error) {
	network, address, _ := strings.Cut(endpoint, ":")
	sockets := self.Of().Net
	switch network {
	case "unix":
		return sockets.DialContext(ctx, "unix", address)
	case "tls":
		nc, err := sockets.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return cred.secure(nc, tls.Client)
	}
	return nil, errors.New(`endpoint is neither "unix:path" nor "tls:host:port"`)
}

// join turns a socket into an authenticated connection, by ctx's deadline: it checks the peer's user
// or does the TLS handshake, does the ZMTP handshake, and proves the run's secret.
// On error it closes the socket. A listener passes known, which is called once the
// peer's user or certificate is accepted; until the peer has sent its first byte
// it costs next to no memory.
func join(ctx context.Context, nc net.Conn, cred *Credentials, opts Options, known func()) (c *Conn, err error) {
	stop := context.AfterFunc(ctx, func() { _ = plain(nc).Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = plain(nc).Close()
			if c != nil {
				_ = c.Close()
			}
			c = nil
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if known != nil {
		if err := awaitByte(plain(nc)); err != nil {
			return nil, err
		}
	}
	if err := identify(nc); err != nil {
		return nil, err
	}
	if known != nil {
		known()
	}
	if c, err = open(nc, known != nil, opts, deadline); err != nil {
		return nil, err
	}
	if err = c.authenticate(cred, known != nil); err != nil {
		return c, err
	}
	return c, c.start()
}

// identify checks the peer by what the socket itself knows: its user, or its
// certificate.
func identify(nc net.Conn) error {
	switch nc := nc.(type) {
	case *net.UnixConn:
		return checkPeer(nc)
	case *tls.Conn:
		err := nc.Handshake()
		var stranger *tls.CertificateVerificationError
		if errors.As(err, &stranger) {
			return fmt.Errorf("%w: %w", ErrAuth, err)
		}
		return err
	}
	if self.Trusted(nc) {
		return nil
	}
	return errors.New("transport: unknown kind of socket")
}
