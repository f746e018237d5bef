package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

var imageName = kind[string]{
	name:    "image",
	allowed: always("an image's name, such as debian:12 or registry.example.com/team/app:v1"),
	parse:   verbatim,
	check:   func(s string) (string, error) { return s, checkReference(s) },
	format:  identity,
}

// baseImage is a reference or a path. What looks like a path is one, and so is what names an image that is there:
// a directory that happens to be called debian is not.
var baseImage = kind[string]{
	name:    "image",
	allowed: always("an image's name, such as debian:12, or the path of an image: a file (docker save) or a directory (an OCI layout)"),
	parse:   verbatim,
	check: func(s string) (string, error) {
		if looksLikePath(s) {
			return checkPath(s)
		}
		return s, checkReference(s)
	},
	format: identity,
	locate: func(s, dir string) (string, error) {
		path := under(dir, s)
		info, err := os.Stat(path)
		switch {
		case err == nil && (info.Mode().IsRegular() || isLayout(path)):
			return path, nil
		case !looksLikePath(s):
			return s, nil
		case errors.Is(err, os.ErrNotExist):
			return "", errors.New("does not exist")
		case err != nil:
			return "", reason(err)
		case info.IsDir():
			return "", errors.New("is a directory and no OCI layout")
		}
		return "", errors.New("is not a file")
	},
}

func looksLikePath(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".tar") || filepath.IsAbs(s)
}

func isLayout(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "oci-layout"))
	return err == nil
}

func checkReference(s string) error {
	if _, err := name.ParseReference(s); err != nil {
		return fmt.Errorf("is no name of an image: %w", err)
	}
	return nil
}
