package config

import "fmt"

// Error reports a value that a setting cannot have, or an unknown key.
type Error struct {
	Key     string // as in .fiberconfig; "" if the line has none
	Value   string // as it was given; "" if the key itself is wrong
	Source  string // ".fiberconfig:3", "environment variable FIBER_LOG_LEVEL", "code, Config.LogLevel" or "default"
	Reason  string // what is wrong: "is too short"
	Allowed string // what would be right; "" if Reason says so
}

func (e *Error) Error() string {
	text := e.Source + ":"
	if e.Key != "" {
		text += " " + e.Key
	}
	if e.Value != "" {
		text += fmt.Sprintf(" = %q", e.Value)
	}
	text += " " + e.Reason
	if e.Allowed != "" {
		text += "; allowed: " + e.Allowed
	}
	return text
}
