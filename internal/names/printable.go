package names

import (
	"strings"
	"unicode"
)

// Printable returns a text with something else in the place of what a terminal does not show, or takes for a command.
func Printable(text string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return instead
		}
		return r
	}, text)
}
