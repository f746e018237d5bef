//go:build !unix

package config

import "io/fs"

// Mode bits mean nothing here: a path that cannot be used fails when it is
// used.

func writable(string) bool { return true }

func executable(fs.FileInfo) bool { return true }
