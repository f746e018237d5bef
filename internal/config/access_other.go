//go:build !unix

package config

import "io/fs"

// The mode bits say nothing here; what can't be used fails when it is used.

func writable(string) bool { return true }

func executable(fs.FileInfo) bool { return true }
