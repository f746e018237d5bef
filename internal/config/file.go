package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// FileName is the name of the configuration file, which is read from the working directory only.
const FileName = ".fiberconfig"

// Line is one "key = value" line of a file.
type Line struct{ Value, Source string } // the source is "file:number", counted from 1

// FileKey is the variable that names another file. Who sets it trusts the file.
const FileKey = envPrefix + "CONFIG"

// readFile reads the file that is named or, without one, that in dir, which need not exist; name is that one's name in errors.
// The warning says who else may have written it.
func readFile(named, dir, name string, others bool) (lines map[string]Line, warning string, faults []error) {
	path, flag := filepath.Join(dir, FileName), os.O_RDONLY|syscall.O_NONBLOCK // a stranger's pipe may have no writer
	if named != "" {
		name, path, flag = named, under(dir, named), os.O_RDONLY
	}
	f, err := os.OpenFile(path, flag, 0)
	if named == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	var text []byte
	if err == nil {
		defer f.Close()
		if named == "" {
			if warning, err = trusted(f, dir); err != nil {
				return nil, "", []error{fmt.Errorf("%s: %w; if you trust it, set %s=%s", name, err, FileKey, name)}
			}
		}
		text, err = io.ReadAll(f)
	}
	if err != nil {
		return nil, "", []error{fmt.Errorf("%s: can't be read: %w", name, err)}
	}
	lines, faults = ParseFile(name, text, others)
	return lines, warning, faults
}

// ParseFile reads "key = value" lines, by key. Blank lines, lines that start with # or ; and a [default] header are
// skipped; a # or ; after a space starts a comment. Keys are not case-sensitive. There is one error for each line that
// cannot be read or whose key does not exist, nor with others might be that of another program's backend; all other lines
// are returned even then.
func ParseFile(name string, text []byte, others bool) (map[string]Line, []error) {
	comment := regexp.MustCompile(`(^|[ \t])[#;].*`)
	lines := map[string]Line{}
	var faults []error
	number := 0
	for raw := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		number++
		content := strings.TrimSpace(comment.ReplaceAllString(string(raw), ""))
		if content == "" || strings.EqualFold(content, "[default]") {
			continue
		}
		key, value, found := strings.Cut(content, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		source := fmt.Sprintf("%s:%d", name, number)
		switch {
		case !found || key == "":
			faults = append(faults, fmt.Errorf("%s: %q is not a \"key = value\" line", source, content))
		case value == "":
			faults = append(faults, fmt.Errorf("%s: %s has no value; leave the line out for the default", source, key))
		case value[0] == '"' || value[0] == '\'':
			faults = append(faults, fmt.Errorf("%s: %s = %s is in quotes; write it without", source, key, value))
		case lines[key].Value != "":
			faults = append(faults, fmt.Errorf("%s: %s is set a second time, first at %s", source, key, lines[key].Source))
		case !isKey(key) && !(others && ofAnother(key)):
			faults = append(faults, fmt.Errorf("%s: %s is not a known key%s", source, key, suggestion(key, "")))
		default:
			lines[key] = Line{value, source}
		}
	}
	return lines, faults
}
