// Package names turns any text into names that images, containers, pods and labels may have.
package names

import (
	"cmp"
	"crypto/rand"
	"regexp"
	"strings"
)

const (
	longest      = 40 // with prefix and suffix, a pod's name has at most 63 characters
	longestLabel = 63
)

var (
	unnameable  = regexp.MustCompile(`[^a-z0-9]+`)
	unlabelable = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)
)

// Program makes a program's name: lower-case letters, digits, and - between them.
func Program(text string) string { return cmp.Or(plain(text), "program") }

// Unique makes a name that no other thing has: it begins with fiber- and the text, and ends with that many random letters and
// digits.
func Unique(text string, random int) string {
	return "fiber-" + strings.TrimPrefix(plain(text)+"-", "-") + strings.ToLower(rand.Text()[:random])
}

// Label makes a valid value of a label.
func Label(text string) string {
	text = unlabelable.ReplaceAllString(text, "-")
	return strings.Trim(text[:min(len(text), longestLabel)], "-._")
}

func plain(text string) string {
	text = unnameable.ReplaceAllString(strings.ToLower(text), "-")
	return strings.Trim(text[:min(len(text), longest)], "-")
}
