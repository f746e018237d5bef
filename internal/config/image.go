package config

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

func image(s, _ string) (string, bool) {
	_, err := name.ParseReference(s)
	return s, err == nil
}

func registry(s, _ string) (string, bool) {
	s = strings.TrimSuffix(s, "/")
	_, err := name.NewRepository(s + "/program")
	return s, err == nil
}

// baseImage tells a path from a reference. A text is a path if it looks like one, or if an image exists at that path: a
// directory that happens to be called debian is not enough.
func baseImage(s, dir string) (string, bool) {
	path, isFile := existing(fs.FileMode.IsRegular)(s, dir)
	_, isLayout := existing(fs.FileMode.IsRegular)(filepath.Join(path, "oci-layout"), "")
	if isFile || isLayout || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".tar") || filepath.IsAbs(s) {
		return path, isFile || isLayout
	}
	return image(s, dir)
}
