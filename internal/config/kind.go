package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is a type of setting: how it is read from text, what it may be, and how it is written.
type kind[T any] struct {
	name    string
	allowed func() string
	parse   func(text string) (T, error)
	check   func(T) (T, error) // returns the value in its one canonical form
	format  func(T) string
	// locate, where not nil, ties the value that was chosen to this machine: a path becomes absolute and must exist.
	locate func(value T, dir string) (T, error)
}

var boolean = kind[Switch]{
	name:    "boolean",
	allowed: always("on, true, yes or 1; off, false, no or 0 (in code: On or Off)"),
	parse:   parseSwitch,
	check:   checkSwitch,
	format:  Switch.String,
}

var duration = kind[time.Duration]{
	name:    "duration",
	allowed: always("a duration of at least 1ms, such as 500ms, 10s or 1m30s"),
	parse:   parseDuration,
	check: func(d time.Duration) (time.Duration, error) {
		// 10 instead of 10*time.Second is ten nanoseconds: no setting here makes sense below a millisecond.
		if d < time.Millisecond {
			return 0, errors.New("is too short")
		}
		return d, nil
	},
	format: time.Duration.String,
}

// minMessage is what Fiber's own messages need.
const minMessage = 4 * KiB

var size = kind[ByteSize]{
	name:    "size",
	allowed: always("a whole number of B, KiB, MiB or GiB, at least 4KiB, such as 512MiB"),
	parse:   ParseByteSize,
	check: func(s ByteSize) (ByteSize, error) {
		if s < minMessage {
			return 0, errors.New("is too small")
		}
		return s, nil
	},
	format: ByteSize.String,
}

// oneOf is a word out of those that words returns, in any case.
func oneOf(words func() []string) kind[string] {
	return kind[string]{
		name:    "word",
		allowed: func() string { return orList(words()) },
		parse:   verbatim,
		check: func(s string) (string, error) {
			if s = strings.ToLower(s); slices.Contains(words(), s) {
				return s, nil
			}
			return "", errors.New("is not known")
		},
		format: identity,
	}
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := time.ParseDuration(text + "s"); err == nil && endsInDigit(text) {
		return 0, fmt.Errorf("has no unit, write %q", text+"s")
	}
	return 0, errors.New("is no duration")
}

// parseList reads items with commas between.
func parseList(text string) ([]string, error) {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list, nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("is no whole number")
	}
	return n, nil
}

func endsInDigit(s string) bool {
	return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9'
}

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func always(s string) func() string        { return func() string { return s } }
func formatList(list []string) string      { return strings.Join(list, ",") }
func verbatim(text string) (string, error) { return text, nil }
func identity(s string) string             { return s }
