package config

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// VolumePath is where a claim is mounted unless it says otherwise.
const VolumePath = "/persistent"

// Volume is a directory, file, volume or claim of a container or a pod, and
// where it is mounted.
type Volume struct {
	Name     string // of a volume or a PersistentVolumeClaim, or a path of the host
	Path     string
	ReadOnly bool
}

// String returns v as [ParseVolume] reads it.
func (v Volume) String() string {
	if v.ReadOnly {
		return v.Name + ":" + v.Path + ":ro"
	}
	return v.Name + ":" + v.Path
}

// ParseVolume parses host:container, host:container:ro or host:container:rw.
func ParseVolume(text string) (Volume, error) {
	drive := filepath.VolumeName(text) // C:\data
	return parseVolume(drive, text[len(drive):], "host:container")
}

// ParseClaim parses claim, claim:path, claim:path:ro or claim:path:rw.
func ParseClaim(text string) (Volume, error) {
	claim, _, given := strings.Cut(text, ":")
	if _, err := claimName.check(claim); err != nil {
		return Volume{}, err
	}
	if !given {
		text += ":" + VolumePath
	}
	return parseVolume("", text, "claim:path")
}

// parseVolume parses name:path and an optional mode; drive is put before the
// name. Its errors continue `has "text" in it, `.
func parseVolume(drive, text, shape string) (Volume, error) {
	parts := strings.Split(text, ":")
	parts[0] = drive + parts[0]
	if len(parts) == 2 {
		parts = append(parts, "rw")
	}
	switch {
	case len(parts) != 3 || parts[0] == "":
		return Volume{}, errors.New("which is not " + shape)
	case parts[2] != "ro" && parts[2] != "rw":
		return Volume{}, errors.New("whose last part is neither ro nor rw")
	case !path.IsAbs(parts[1]) || path.Clean(parts[1]) == "/":
		return Volume{}, errors.New("whose second part is not an absolute path below /")
	}
	return Volume{parts[0], path.Clean(parts[1]), parts[2] == "ro"}, nil
}

func parseDockerVolume(text string) (Volume, error) {
	v, err := ParseVolume(text)
	if err == nil && !isHostPath(v.Name) && !dockerName.fits(v.Name) {
		err = errors.New("whose first part is neither a path, which starts with / or ., nor the name of a volume")
	}
	return v, err
}

func isHostPath(s string) bool {
	return filepath.IsAbs(s) || s == "." || s == ".." || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

// volumes returns a function that checks each volume of a list, and that no two
// are mounted at the same path.
func volumes(what string, parse func(string) (Volume, error)) func(reflect.Value) error {
	return func(value reflect.Value) error {
		var at []string
		err := each(func(text string) (string, error) {
			v, err := parse(text)
			at = append(at, v.Path)
			return v.String(), err
		})(value)
		for i, path := range at {
			if err == nil && slices.Contains(at[:i], path) {
				return fmt.Errorf("has two %s at %s", what, path)
			}
		}
		return err
	}
}

// locateVolume makes a host's path absolute. It does not check that the path
// exists: the engine may be on another machine.
func locateVolume(text, dir string) (string, error) {
	v, err := ParseVolume(text)
	if isHostPath(v.Name) {
		v.Name = under(dir, v.Name)
	}
	return v.String(), err
}
