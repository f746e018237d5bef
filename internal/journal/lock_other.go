//go:build !unix

package journal

// Lock does nothing where files have no locks of that kind.
func (f file) Lock() error { return nil }
