//go:build !cgo

package main

var linked = "static"
