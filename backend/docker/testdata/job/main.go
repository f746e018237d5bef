//go:build unix

// Command job runs backendtest's jobs in a program that needs no libraries.
package main

import "github.com/fiber-go/fiber/backend/backendtest"

func main() { backendtest.Main() }
