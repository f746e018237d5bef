package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FileName is the name of the configuration file, which is read from the working directory only.
const FileName = ".fiberconfig"

// Line is one "key = value" line of a file, the key in lower case. Number counts from 1.
type Line struct {
	Number     int
	Key, Value string
}

// ParseFile reads "key = value" lines. Blank lines, lines that start with # or ; and a [default] header are skipped; a
// # or ; after a space starts a comment. Keys are not case-sensitive; ParseFile does not check that they exist. The
// error joins one *[Error] for each line that cannot be read; all other lines are returned even then.
func ParseFile(name string, text []byte) ([]Line, error) {
	if !utf8.Valid(text) {
		return nil, &Error{Source: name, Reason: "is not UTF-8 text"}
	}
	comment := regexp.MustCompile(`(^|[ \t])[#;].*`)
	var lines []Line
	var faults []error
	first := map[string]int{}
	number := 0
	for raw := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		number++
		content := strings.TrimSpace(comment.ReplaceAllString(string(raw), ""))
		if content == "" || strings.EqualFold(content, "[default]") {
			continue
		}
		line, fault := parseLine(content)
		if fault == nil && first[line.Key] != 0 {
			fault = &Error{Key: line.Key, Reason: fmt.Sprintf("is set a second time, first on line %d", first[line.Key])}
		}
		if fault != nil {
			fault.Source = position(name, number)
			faults = append(faults, fault)
			continue
		}
		first[line.Key], line.Number = number, number
		lines = append(lines, line)
	}
	return lines, errors.Join(faults...)
}

func parseLine(content string) (Line, *Error) {
	if content[0] == '[' {
		return Line{}, &Error{Reason: fmt.Sprintf("%q is not a section of this file", content), Allowed: "[default] or none"}
	}
	key, value, found := strings.Cut(content, "=")
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	switch {
	case !found || key == "":
		return Line{}, &Error{Reason: fmt.Sprintf("%q is not a \"key = value\" line", content)}
	case value == "":
		return Line{}, &Error{Key: key, Reason: "has no value; leave the line out for the default"}
	case value[0] == '"' || value[0] == '\'':
		return Line{}, &Error{Key: key, Value: value, Reason: "is in quotes; write it without"}
	}
	return Line{Key: key, Value: value}, nil
}

// readFile parses the file at path, which need not exist.
func readFile(path, name string) ([]Line, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Source: name, Reason: reason(err).Error()}
	}
	return ParseFile(name, text)
}

func position(name string, number int) string { return name + ":" + strconv.Itoa(number) }
