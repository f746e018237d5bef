//go:build !linux

package warden

import (
	"os"
	"os/exec"
)

// Inherit adds nothing: there is no guard on this system.
func Inherit(files []*os.File, _ map[string]string) ([]*os.File, error) { return files, nil }

// Cover does nothing: there is no guard on this system.
func Cover(*exec.Cmd) error { return nil }

// Close does nothing: there is no guard on this system.
func Close() {}
