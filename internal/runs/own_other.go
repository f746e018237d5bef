//go:build !unix

package runs

// own reports whether a directory is this user's alone.
func own(string) bool { return true }
