package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// Authentication takes messages of one frame, none of which contains the secret:
//
//	dialer ◄─► listener   nonces
//	dialer ◄─► listener   proofs over both nonces
//	dialer ◄── listener   version: welcome
//
// A proof is an HMAC-SHA256 over both nonces, under a key derived from the
// run's secret. It covers which end makes it, so an end cannot send back the
// other's proof as its own.
const (
	authVersion    = "fiber/2"
	nonceSize      = 32
	maxAuthMessage = 256
)

// authenticate proves to each end that the other knows the run's secret. The
// deadline and the tight bounds that open has set still apply.
func (c *Conn) authenticate(cred *Credentials, listener bool) error {
	key, err := cred.derive("auth")
	if err != nil {
		return err
	}
	c.r.max.Store(maxAuthMessage)
	if err := c.exchangeProofs(key, listener); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	return nil
}

func (c *Conn) exchangeProofs(key []byte, listener bool) error {
	mine := make([]byte, nonceSize)
	_, _ = rand.Read(mine) // it never fails
	theirs, err := c.swap(mine)
	if err != nil {
		return err
	}
	if len(theirs) != nonceSize {
		return ErrAuth
	}
	got, err := c.swap(proof(key, listener, mine, theirs))
	if err != nil {
		return err
	}
	if !hmac.Equal(got, proof(key, !listener, theirs, mine)) {
		return ErrAuth
	}
	if listener {
		return c.Post([]byte(authVersion))
	}
	m, err := c.Recv()
	if err == nil && string(m[0]) != authVersion {
		err = ErrAuth
	}
	return err
}

// swap sends a frame and receives one.
func (c *Conn) swap(frame []byte) ([]byte, error) {
	if err := c.Post(frame); err != nil {
		return nil, err
	}
	m, err := c.Recv()
	if err != nil {
		return nil, err
	}
	return m[0], nil
}

// proof makes the proof of one end, from its own nonce and the other's.
func proof(key []byte, listener bool, own, other []byte) []byte {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s listener=%t", authVersion, listener)
	h.Write(own)
	h.Write(other)
	return h.Sum(nil)
}
