package tree

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// bootstrap is nil in a process that no other has started.
var bootstrap = sync.OnceValues(takeBootstrap)

// Programs that package initialisers start must not inherit the socket either.
func init() { bootstrap() }

// ErrParentGone reports a parent that ended, or gave up this process, before it
// sent its work. There is no process to report it to.
var ErrParentGone = errors.New("fiber: the process that started this one is gone")

// unreachableCode is the exit code of a process that cannot reach its parent.
const unreachableCode = 111

const (
	// dialTimeout bounds one try to dial the parent.
	dialTimeout = 7 * time.Second
	// findTimeout bounds the tries to dial a parent that does not accept the
	// connection: it may be too busy, or nothing gets through to it.
	findTimeout = 30 * time.Second
	// answerTimeout bounds the wait for a process that was asked along the tree:
	// its machine, or this one, may be busy.
	answerTimeout = time.Minute
	// dialPause is the longest pause between two tries: the network may come up a moment
	// later than the process.
	dialPause = 100 * time.Millisecond
)

// takeBootstrap takes the bootstrap out of the environment: programs that this
// process starts must not take themselves for Fiber processes.
func takeBootstrap() (*wire.Bootstrap, error) {
	boot, err := readBootstrap(os.Getenv)
	os.Unsetenv(bootstrapKey)
	os.Unsetenv(wire.CredentialsKey)
	if boot == nil || err != nil {
		return nil, err
	}
	if boot.Endpoint == "" {
		keepInherited(boot.FD)
	}
	entitle(boot.Name, boot.Program)
	for key, value := range boot.Restore {
		if value == "" {
			os.Unsetenv(key)
		} else {
			os.Setenv(key, value)
		}
	}
	return boot, nil
}

// readBootstrap reads the bootstrap from an environment, nil if it has none.
func readBootstrap(getenv func(key string) string) (*wire.Bootstrap, error) {
	text := getenv(bootstrapKey)
	if text == "" {
		return nil, nil
	}
	boot := new(wire.Bootstrap)
	err := json.Unmarshal([]byte(text), boot)
	if err == nil {
		boot.Credentials, err = base64.StdEncoding.DecodeString(getenv(wire.CredentialsKey))
	}
	if err != nil {
		return nil, fmt.Errorf("fiber: %s is set, but not by a Fiber process: %w; unset it", bootstrapKey, err)
	}
	return boot, nil
}

// entitle makes ps and top show this process's name, as much of it as they can.
// If the backend has put the name in the place of the program's own for the same
// purpose, the program gets its own back.
func entitle(name, program string) {
	if program != "" && os.Args[0] == name {
		os.Args[0] = program
	}
	os.WriteFile("/proc/self/comm", []byte(name), 0) // fails without harm elsewhere than on Linux
}

// runtimeSettings returns the variables by which a backend limits a child, with
// their values in this process's environment. The Go runtime reads them before
// any code runs, so that the child may then restore these values.
func runtimeSettings() map[string]string {
	return map[string]string{"GOMAXPROCS": os.Getenv("GOMAXPROCS"), "GOMEMLIMIT": os.Getenv("GOMEMLIMIT")}
}

// bootstrapOf returns the bootstrap of the calling goroutine's process.
func bootstrapOf(p *self.Self) (*wire.Bootstrap, error) {
	if p.Env != nil {
		return readBootstrap(func(key string) string { return p.Env[key] })
	}
	return bootstrap()
}

// Started says whether another process of a run has started this one.
func Started() bool {
	boot, err := bootstrapOf(self.Of())
	return boot != nil || err != nil
}

// Report connects a started process to its parent and returns with its work. It
// is called once. The error is ErrParentGone, an *UnreachableError, or the
// parent's refusal, among others.
func Report(ctx context.Context) (*Parent, error) {
	me := self.Of()
	boot, err := bootstrapOf(me)
	if err != nil {
		return nil, err
	}
	go Build() // while the handshake is on its way
	conn, err := connect(ctx, boot)
	if err != nil {
		return nil, err
	}
	if err := conn.Send(ctx, wire.MustPack(wire.KindHello, newHello(*boot, me.PID))...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParentGone, err)
	}
	frames, err := conn.Recv()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParentGone, err)
	}
	p := &Parent{conn: conn, dialled: boot.Endpoint != "", bye: make(chan struct{}), told: make(chan struct{})}
	switch kind := wire.KindOf(frames); kind {
	case wire.KindAssign:
		if err := wire.Unpack(frames, &p.Assign); err != nil {
			return nil, err
		}
		p.Value = frames[1:]
		return p, nil
	case wire.KindRefuse:
		var refuse wire.Refuse
		if err := wire.Unpack(frames, &refuse); err != nil {
			return nil, err
		}
		return nil, errors.New(refuse.Reason)
	default:
		return nil, fmt.Errorf("%w: %v instead of an assignment", wire.ErrMalformed, kind)
	}
}

// UnreachableError reports that this process cannot dial its parent.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("fiber: this process cannot reach the one that started it: %v; set FIBER_HOST to an address of that process that can be reached from here", e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// ExitCode is the exit code for the error.
func (e *UnreachableError) ExitCode() int { return unreachableCode }

// connect makes the connection to the parent.
func connect(ctx context.Context, boot *wire.Bootstrap) (*transport.Conn, error) {
	opts := transport.Options{Lend: true, MaxMessage: boot.MaxMessage, HeartbeatInterval: boot.Heartbeat, HeartbeatTimeout: -1}
	if boot.Endpoint != "" {
		opts.HeartbeatTimeout = cmp.Or(boot.Silence, -1)
		return dial(ctx, boot, opts)
	}
	nc, err := transport.Inherit(boot.FD)
	if err != nil {
		return nil, fmt.Errorf("fiber: the inherited socket: %w", err)
	}
	// A parent on this machine may be stopped for as long as its user likes:
	// silence does not count, and its death is an end of file.
	conn, err := transport.Open(nc, false, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParentGone, err)
	}
	return conn, nil
}

func dial(ctx context.Context, boot *wire.Bootstrap, opts transport.Options) (*transport.Conn, error) {
	credentials := new(transport.Credentials)
	if err := credentials.UnmarshalBinary(boot.Credentials); err != nil {
		return nil, err
	}
	return keepDialling(boot.StartTimeout, func() (*transport.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return transport.Dial(ctx, boot.Endpoint, credentials, opts)
	})
}

// keepDialling calls dial until the parent has answered or further tries are
// hopeless. answer bounds the wait for a parent that accepts the connection but
// does not let this process in: it may be short of room.
func keepDialling(answer time.Duration, dial func() (*transport.Conn, error)) (*transport.Conn, error) {
	again := retry.Pauses{Longest: dialPause}
	for began := time.Now(); ; <-again.Next() {
		conn, err := dial()
		took, lost := time.Since(began), net.Error(nil)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, transport.ErrNoAnswer):
			if took > answer {
				return nil, fmt.Errorf("fiber: the process that started this one: %w", err)
			}
		case errors.As(err, &lost) && lost.Timeout():
			if took > findTimeout {
				return nil, &UnreachableError{err}
			}
		case took > dialTimeout/4:
			return nil, &UnreachableError{err}
		}
	}
}
