//go:build unix

// The job program is backendtest's jobs in a program that needs no libraries.
package main

import "github.com/fiber-go/fiber/backend/backendtest"

func main() { backendtest.Main() }
