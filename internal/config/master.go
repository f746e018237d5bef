package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

var registryName = kind[string]{
	name:    "registry",
	allowed: always("a registry, with a path or without: registry.example.com/team or localhost:5000"),
	parse:   verbatim,
	check: func(s string) (string, error) {
		for _, scheme := range []string{"http://", "https://"} {
			if rest, ok := strings.CutPrefix(s, scheme); ok {
				return "", fmt.Errorf("has a scheme; write %q", strings.TrimSuffix(rest, "/"))
			}
		}
		s = strings.TrimSuffix(s, "/")
		if _, err := name.NewRepository(s + "/program"); err != nil {
			return "", fmt.Errorf("is no registry: %w", err)
		}
		return s, nil
	},
	format: identity,
}

var cpus = kind[float64]{
	name:    "number",
	allowed: always("a number of CPUs, such as 2 or 0.5"),
	parse: func(text string) (float64, error) {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, errors.New("is no number")
		}
		return n, nil
	},
	check: func(n float64) (float64, error) {
		if !(n >= 0.001) || math.IsInf(n, 0) {
			return 0, errors.New("is no number of CPUs")
		}
		return n, nil
	},
	format: func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) },
}

var gpus = kind[int]{
	name:    "number",
	allowed: always("a whole number of GPUs, such as 1"),
	parse:   parseInt,
	check: func(n int) (int, error) {
		if n < 0 {
			return 0, errors.New("is less than none")
		}
		return n, nil
	},
	format: strconv.Itoa,
}

var variable = regexp.MustCompile(`^([a-zA-Z_.-][a-zA-Z0-9_.-]*\*?|\*|[a-zA-Z_.-][a-zA-Z0-9_.-]*=.*)$`)

var variables = kind[[]string]{
	name:    "variables",
	allowed: always("NAME, PREFIX_* or NAME=value, several with commas between"),
	parse:   parseList,
	check: func(list []string) ([]string, error) {
		for _, item := range list {
			if !variable.MatchString(item) || strings.ContainsRune(item, 0) {
				return nil, fmt.Errorf("has %q in it, which names no variable", item)
			}
		}
		return list, nil
	},
	format: formatList,
}
