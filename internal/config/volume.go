package config

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
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

// String returns v as ParseVolume reads it.
func (v Volume) String() string {
	if v.ReadOnly {
		return v.Name + ":" + v.Path + ":ro"
	}
	return v.Name + ":" + v.Path
}

// ParseClaim parses claim, claim:path, claim:path:ro or claim:path:rw.
func ParseClaim(text string) (Volume, error) {
	v, err := ParseVolume(text, VolumePath)
	if wrong := validation.IsDNS1123Subdomain(v.Name); wrong != nil {
		err = fmt.Errorf("%q is not the name of a claim", v.Name)
	}
	return v, err
}

// ParseVolume parses name:path, name:path:ro or name:path:rw. The path may be missing if there is a default.
func ParseVolume(text, defaultPath string) (Volume, error) {
	if !strings.Contains(text, ":") {
		text += ":" + defaultPath
	}
	parts := append(strings.Split(text, ":"), "rw")
	v := Volume{parts[0], path.Clean(parts[1]), parts[2] == "ro"}
	if v.Name == "" || !path.IsAbs(v.Path) || v.Path == "/" || len(parts) > 4 || !v.ReadOnly && parts[2] != "rw" {
		return v, fmt.Errorf("%q is not a name and an absolute path below /", text)
	}
	return v, nil
}

// claim parses a volume of kubernetes_volumes.
func claim(text, _ string) (Volume, error) { return ParseClaim(text) }

// dockerVolume parses a volume of docker_volumes, and makes a host's path absolute. It does not check that the path
// exists: the engine may be on another machine.
func dockerVolume(text, dir string) (Volume, error) {
	v, err := ParseVolume(text, "")
	first, _, _ := strings.Cut(v.Name, "/")
	if first == "" || first == "." || first == ".." {
		v.Name = under(dir, v.Name)
	} else if _, ok := matching(dockerName)(v.Name, ""); !ok {
		err = fmt.Errorf("%q is neither a path nor the name of a volume", v.Name)
	}
	return v, err
}

// volumes tests each volume of a list, and that no two are mounted at the same path.
func volumes(parse func(text, dir string) (Volume, error)) func(reflect.Value, string) bool {
	return func(value reflect.Value, dir string) bool {
		var at []string
		return each(func(text, dir string) (string, bool) {
			v, err := parse(text, dir)
			twice := slices.Contains(at, v.Path)
			at = append(at, v.Path)
			return v.String(), err == nil && !twice
		})(value, dir)
	}
}
