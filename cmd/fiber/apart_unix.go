//go:build unix

package main

import "syscall"

// apart has a command not be of the terminal's.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
