package config

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

// VolumePath is where a claim is mounted that says nothing else.
const VolumePath = "/persistent"

// dnsLabel is what a cluster lets a namespace be called, dnsName most other things, resourceName a resource of a node.
var (
	dnsLabel     = form{regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`), 63}
	dnsName      = form{regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`), 253}
	resourceName = form{regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`), 63}
)

// form is what names are like. A count in an expression would take a hundred times as long to compile, in every process.
type form struct {
	letters *regexp.Regexp
	longest int // behind a slash, where there is one
}

func (f form) fits(s string) bool { return f.letters.MatchString(s) && len(path.Base(s)) <= f.longest }

// named is a name of a form.
func named(allowed string, form form, what string) kind[string] {
	return kind[string]{
		name:    "name",
		allowed: always(allowed),
		parse:   verbatim,
		check: func(s string) (string, error) {
			if !form.fits(s) {
				return "", errors.New("is no name of " + what)
			}
			return s, nil
		},
		format: identity,
	}
}

var (
	namespaceName = named("the name of a namespace: small letters, digits and -, at most 63", dnsLabel, "a namespace")
	gpuResource   = named("the name of a resource that nodes have, such as nvidia.com/gpu or amd.com/gpu", resourceName, "a resource")
)

var claims = kind[[]string]{
	name:    "list",
	allowed: always("claim, claim:path or claim:path:ro, several with commas between; claim is the name of a PersistentVolumeClaim, path an absolute one, " + VolumePath + " unless it is given"),
	parse:   parseList,
	check: func(list []string) ([]string, error) {
		checked := make([]string, len(list))
		taken := map[string]bool{}
		for i, item := range list {
			claim, inside, mode, err := cutClaim(item)
			if err == nil && taken[inside] {
				err = fmt.Errorf("has two claims at %s", inside)
			}
			if err != nil {
				return nil, err
			}
			taken[inside] = true
			checked[i] = claim + ":" + inside + mode
		}
		return checked, nil
	},
	format: formatList,
}

// cutClaim splits claim[:path[:ro]]. The mode is "" or ":ro".
func cutClaim(item string) (claim, inside, mode string, err error) {
	claim, rest, given := strings.Cut(item, ":")
	inside, last, more := strings.Cut(rest, ":")
	if !given {
		inside = VolumePath
	}
	switch {
	case !dnsName.fits(claim):
		return "", "", "", fmt.Errorf("has %q in it, whose first part is no name of a claim", item)
	case !path.IsAbs(inside) || path.Clean(inside) == "/" || strings.ContainsRune(item, 0):
		return "", "", "", fmt.Errorf("has %q in it, whose second part is no absolute path below /", item)
	case more && last != "ro" && last != "rw":
		return "", "", "", fmt.Errorf("has %q in it, whose last part is neither ro nor rw", item)
	}
	if last == "ro" {
		mode = ":ro"
	}
	return claim, path.Clean(inside), mode, nil
}

var podTemplate = kind[string]{
	name:    "path",
	allowed: always("the path of a file with a pod in YAML"),
	parse:   verbatim,
	check:   checkPath,
	format:  identity,
	locate: func(file, dir string) (string, error) {
		file = under(dir, file)
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return "", errors.New("does not exist")
		case err != nil:
			return "", err
		case info.IsDir():
			return "", errors.New("is a directory")
		}
		return file, nil
	},
}
