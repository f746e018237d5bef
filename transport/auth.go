package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// Authentication takes four messages, none of which contains the secret:
//
//	dialer   → listener   version, nonce
//	listener → dialer     nonce, proof over both nonces
//	dialer   → listener   proof over both nonces
//	listener → dialer     version: welcome
//
// A proof is an HMAC-SHA256 over both nonces, under a key derived from the
// run's secret. It covers the name of the end that makes it, so an end cannot
// send back the other's proof as its own.
const (
	authVersion    = "fiber/1"
	nonceSize      = 32
	maxAuthMessage = 256
	maxAuthFrames  = 2
)

// authenticate proves to each end that the other knows the run's secret. The
// deadline and the tight bounds that open has set still apply.
func (c *Conn) authenticate(cred *Credentials, listener bool) error {
	key, err := cred.derive("auth")
	if err != nil {
		return err
	}
	c.r.max.Store(maxAuthMessage)
	c.r.frames = maxAuthFrames
	mine := make([]byte, nonceSize)
	if _, err := rand.Read(mine); err != nil {
		return err
	}
	if listener {
		err = c.admitDialer(key, mine)
	} else {
		err = c.convince(key, mine)
	}
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	return nil
}

// admitDialer is the listener's part.
func (c *Conn) admitDialer(key, mine []byte) error {
	m, err := c.Recv()
	if err != nil {
		return err
	}
	if len(m) != 2 || string(m[0]) != authVersion || len(m[1]) != nonceSize {
		return ErrAuth
	}
	theirs := m[1]
	if err := c.Post(mine, proof(key, "listener", theirs, mine)); err != nil {
		return err
	}
	if m, err = c.Recv(); err != nil {
		return err
	}
	if len(m) != 1 || !hmac.Equal(m[0], proof(key, "dialer", theirs, mine)) {
		return ErrAuth
	}
	return c.Post([]byte(authVersion))
}

// convince is the dialer's part.
func (c *Conn) convince(key, mine []byte) error {
	if err := c.Post([]byte(authVersion), mine); err != nil {
		return err
	}
	m, err := c.Recv()
	if err != nil {
		return err
	}
	if len(m) != 2 || len(m[0]) != nonceSize || !hmac.Equal(m[1], proof(key, "listener", mine, m[0])) {
		return ErrAuth
	}
	if err := c.Post(proof(key, "dialer", mine, m[0])); err != nil {
		return err
	}
	if m, err = c.Recv(); err != nil {
		return err
	}
	if len(m) != 1 || string(m[0]) != authVersion {
		return ErrAuth
	}
	return nil
}

func proof(key []byte, end string, dialer, listener []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(end))
	h.Write(dialer)
	h.Write(listener)
	return h.Sum(nil)
}
