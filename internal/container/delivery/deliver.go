package delivery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

const (
	// dialTimeout bounds one try to reach the reader.
	dialTimeout = 7 * time.Second
	// maxPause is the longest pause between two tries.
	maxPause = 2 * time.Second
)

// Deliver returns a sender whose reader is found until ctx ends as the text says, a Target.
func Deliver(ctx context.Context, text string) (*Sender, error) {
	var t Target
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil, err
	}
	if t.Credentials == nil {
		t.Credentials, _ = base64.StdEncoding.DecodeString(os.Getenv(wire.CredentialsKey)) // without any, the reader is refused
	}
	cred := new(transport.Credentials)
	if err := cred.UnmarshalBinary(t.Credentials); err != nil {
		return nil, err
	}
	s := NewSender()
	if t.Endpoint != "" {
		go t.dial(ctx, cred, s)
		return s, nil
	}
	l, err := transport.ListenTLS(net.JoinHostPort("127.0.0.1", strconv.Itoa(t.Port)), cred, t.options())
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s, nil
}

// dial dials the reader, again and again.
func (t Target) dial(ctx context.Context, cred *transport.Credentials, s *Sender) {
	for again := (retry.Pauses{Longest: maxPause}); ctx.Err() == nil; again.Wait(ctx) {
		if t.visit(ctx, cred, s) {
			again.Reset()
		}
	}
}

// visit dials the reader once, and reports whether it has read.
func (t Target) visit(ctx context.Context, cred *transport.Credentials, s *Sender) bool {
	within, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := transport.Dial(within, t.Endpoint, cred, t.options())
	if err != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if conn.Post(wire.MustPack(wire.KindHello, wire.Hello{Process: t.Process, Version: wire.Version})...) != nil {
		conn.Close()
		return false
	}
	return s.serve(conn)
}
