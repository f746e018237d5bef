//go:build cgo

package main

// #include <gnu/libc-version.h>
// static int glibc(void) { return gnu_get_libc_version()[0] != 0; }
import "C"

var linked = map[bool]string{true: "dynamic", false: "?"}[C.glibc() == 1]
