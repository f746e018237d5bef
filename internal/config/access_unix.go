//go:build unix

package config

import "golang.org/x/sys/unix"

// mayWrite returns an error if files can't be made in a directory.
func mayWrite(dir string) error { return unix.Access(dir+"/.", unix.W_OK|unix.X_OK) }
