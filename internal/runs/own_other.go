//go:build !unix

package runs

import "os"

// own reports whether something is a directory, and this user's alone.
func own(info os.FileInfo) bool { return info.IsDir() }
