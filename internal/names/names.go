// Package names makes names of any text that images, containers, pods and labels may have.
package names

import (
	"crypto/rand"
	"regexp"
	"strings"
)

const (
	longest      = 40 // with what stands before and behind it a pod's has at most 63
	longestLabel = 63
)

var (
	unnameable  = regexp.MustCompile(`[^a-z0-9]+`)
	unlabelable = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)
)

// Program is what a program may be called: lower-case letters, digits, and - between them.
func Program(text string) string {
	if name := plain(text); name != "" {
		return name
	}
	return "program"
}

// Unique is a name that begins with fiber-, goes on as text does, and ends with so many random letters and digits: nothing
// else has it.
func Unique(text string, random int) string {
	return "fiber-" + strings.TrimPrefix(plain(text)+"-", "-") + strings.ToLower(rand.Text()[:random])
}

// Label is a value that a label may have.
func Label(text string) string {
	text = unlabelable.ReplaceAllString(text, "-")
	return strings.Trim(text[:min(len(text), longestLabel)], "-._")
}

func plain(text string) string {
	text = unnameable.ReplaceAllString(strings.ToLower(text), "-")
	return strings.Trim(text[:min(len(text), longest)], "-")
}
