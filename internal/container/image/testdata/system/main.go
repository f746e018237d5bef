// Command system uses what a program expects of the system around it, and prints what it found.
package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/user"
)

func main() {
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run() error {
	me, err := user.Current()
	if err != nil {
		return fmt.Errorf("user: %w", err)
	}
	temp, err := os.CreateTemp("", "")
	if err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	if err := os.Remove(temp.Name()); err != nil {
		return err
	}
	if os.Getenv("CERTIFICATES") != "" {
		roots, err := x509.SystemCertPool()
		if err != nil || roots.Equal(x509.NewCertPool()) {
			return fmt.Errorf("certificates: none, %v", err)
		}
	}
	if _, err := net.DefaultResolver.LookupHost(context.Background(), "localhost"); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	fmt.Println("fine", me.Username, me.HomeDir, linked)
	return nil
}
