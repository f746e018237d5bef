package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

func checkImage(s string) (string, error) {
	if _, err := name.ParseReference(s); err != nil {
		return "", fmt.Errorf("is not a valid image name: %w", err)
	}
	return s, nil
}

func checkRegistry(s string) (string, error) {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			return "", fmt.Errorf("has a scheme; write %q", strings.TrimSuffix(rest, "/"))
		}
	}
	s = strings.TrimSuffix(s, "/")
	if _, err := name.NewRepository(s + "/program"); err != nil {
		return "", fmt.Errorf("is not a registry: %w", err)
	}
	return s, nil
}

func checkBaseImage(s string) (string, error) {
	if looksLikePath(s) {
		return s, nil
	}
	return checkImage(s)
}

// locateBaseImage tells a path from a reference. A text is a path if it looks like one, or if an image exists at that
// path: a directory that happens to be called debian is not enough.
func locateBaseImage(s, dir string) (string, error) {
	path, err := existing(fitsImage)(s, dir)
	if err != nil && !looksLikePath(s) {
		return s, nil
	}
	return path, err
}

func looksLikePath(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".tar") || filepath.IsAbs(s)
}

func fitsImage(path string, info fs.FileInfo) error {
	_, err := os.Stat(filepath.Join(path, "oci-layout"))
	switch {
	case info.IsDir() && err != nil:
		return errors.New("is a directory, but not an OCI layout")
	case !info.IsDir() && !info.Mode().IsRegular():
		return errors.New("is not a file")
	}
	return nil
}
