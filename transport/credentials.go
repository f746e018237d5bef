package transport

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

const (
	secretSize         = 32
	credentialsVersion = 1
	// serverName is in every run's certificate: membership of a run is decided
	// by its key, never by a host's name.
	serverName = "fiber.run"
)

// Credentials are what the processes of one run have in common: a secret, and
// the keys and certificates that each process derives from it when TLS first
// needs them. Whoever holds them belongs to the run. The zero value belongs to
// none. Safe for concurrent use.
type Credentials struct {
	secret [secretSize]byte
	once   sync.Once
	tls    *tls.Config
	err    error
}

// NewCredentials makes the credentials of a new run.
func NewCredentials() (*Credentials, error) {
	c := new(Credentials)
	if _, err := rand.Read(c.secret[:]); err != nil {
		return nil, fmt.Errorf("transport: credentials: %w", err)
	}
	return c, nil
}

// MarshalBinary returns the credentials in the form that a child is given. They
// include the secret: keep them private.
func (c *Credentials) MarshalBinary() ([]byte, error) {
	return append([]byte{credentialsVersion}, c.secret[:]...), nil
}

// UnmarshalBinary sets c, which must not have been used, to what MarshalBinary
// returned.
func (c *Credentials) UnmarshalBinary(data []byte) error {
	if len(data) != 1+secretSize || data[0] != credentialsVersion {
		return errors.New("transport: malformed credentials")
	}
	copy(c.secret[:], data[1:])
	return nil
}

// String keeps the secret out of logs.
func (c *Credentials) String() string { return "transport.Credentials{…}" }

// derive returns the run's key for a purpose.
func (c *Credentials) derive(purpose string) ([]byte, error) {
	if c.secret == [secretSize]byte{} {
		return nil, errors.New("transport: the credentials are empty")
	}
	return hkdf.Key(sha256.New, c.secret[:], nil, "fiber "+purpose, ed25519.SeedSize)
}

// secure puts TLS over a socket, as its client or server says.
func (c *Credentials) secure(nc net.Conn, over func(net.Conn, *tls.Config) *tls.Conn) (net.Conn, error) {
	if self.Trusted(nc) {
		return nc, nil
	}
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	return over(nc, config), nil
}

// tlsConfig returns the configuration of both ends: TLS 1.3, with each end
// showing the run's certificate.
func (c *Credentials) tlsConfig() (*tls.Config, error) {
	c.once.Do(func() { c.tls, c.err = c.certify() })
	return c.tls, c.err
}

// certify derives the run's key and makes the run's certificate, which is the
// same in each of its processes: nothing about it is random, and ends accept no
// other. It does not expire: clocks differ, and the run's secret ends with the
// run.
func (c *Credentials) certify() (*tls.Config, error) {
	seed, err := c.derive("member")
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "fiber member"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{serverName},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("transport: credentials: %w", err)
	}
	member, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("transport: credentials: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(member)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: member}},
		ServerName:             serverName,
		RootCAs:                pool,
		ClientCAs:              pool,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		// TLS would begin with records that fit a packet, which helps the first
		// page of a web site and slows bulk transfers.
		DynamicRecordSizingDisabled: true,
	}, nil
}
