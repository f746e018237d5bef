package config

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// Key describes one setting, for docs/config.md.
type Key struct {
	Name    string // as in .fiberconfig: heartbeat_timeout
	Env     string // FIBER_HEARTBEAT_TIMEOUT
	Field   string // of Config: HeartbeatTimeout
	Type    string // word, path, image, name, address, list, boolean, duration or size
	Allowed string // what the value may be
	Default string // in words if it is not the same everywhere
	Meaning string // the comment of the field, in Markdown
}

// Keys returns every key in the order of Config's fields.
func Keys() []Key {
	meanings := meanings()
	var keys []Key
	for _, s := range settings() {
		keys = append(keys, Key{
			Name: s.key, Env: s.env, Field: s.field.Name, Type: s.name, Allowed: s.allowed,
			Default: cmp.Or(s.initial, s.field.Tag.Get("unset")),
			Meaning: meanings[s.field.Name],
		})
	}
	return keys
}

var (
	subject = regexp.MustCompile(`^\w+ (is |are )?`)
	code    = regexp.MustCompile(`"([^"]+)"`)
)

// meanings are the comments of Config's fields.
func meanings() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	meanings := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if ok && field.Doc != nil {
			text := strings.Join(strings.Fields(field.Doc.Text()), " ")
			text = strings.TrimPrefix(text, subject.FindString(text))
			text = strings.ToUpper(text[:1]) + text[1:]
			meanings[field.Names[0].Name] = strings.ReplaceAll(code.ReplaceAllString(text, "`$1`"), "|", `\|`)
		}
		return true
	})
	return meanings
}
