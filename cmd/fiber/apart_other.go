//go:build !unix

package main

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
