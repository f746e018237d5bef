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
	"sync"
	"time"
)

const (
	secretSize         = 32
	credentialsVersion = 1
	// serverName is in every run's certificate: membership of a run is decided
	// by its authority, never by a host's name.
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

// tlsConfig returns the configuration of both ends: TLS 1.3, with each end
// showing a certificate of this run's own authority.
func (c *Credentials) tlsConfig() (*tls.Config, error) {
	c.once.Do(func() { c.tls, c.err = c.certify() })
	return c.tls, c.err
}

func (c *Credentials) certify() (*tls.Config, error) {
	authority, root, err := c.issue("authority", &x509.Certificate{
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	member, leaf, err := c.issue("member", &x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{serverName},
	}, root, authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: member, Leaf: leaf}},
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

// issue derives a key for a role and makes its certificate, signed by signer
// or, without a parent, by itself. A run's certificates do not expire: clocks
// differ, and the run's secret ends with the run.
func (c *Credentials) issue(role string, cert, parent *x509.Certificate, signer ed25519.PrivateKey) (ed25519.PrivateKey, *x509.Certificate, error) {
	seed, err := c.derive(role)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	cert.SerialNumber = big.NewInt(1)
	cert.Subject = pkix.Name{CommonName: "fiber " + role}
	cert.NotBefore = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	cert.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	cert.BasicConstraintsValid = true
	if parent == nil {
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err == nil {
		cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("transport: credentials: %w", err)
	}
	return key, cert, nil
}
