//go:build !unix

package config

import "os"

// mayWrite returns an error if files can't be made in a directory.
func mayWrite(dir string) error {
	made, err := os.MkdirTemp(dir, "fiber-")
	if err == nil {
		err = os.Remove(made)
	}
	return err
}
