package config

import "fmt"

// Error is a value that a setting can't have, or a key that no setting has.
type Error struct {
	Key     string // as in .fiberconfig; "" where a line has none
	Value   string // as it was given; "" where the key itself is wrong
	Source  string // ".fiberconfig:3", "environment variable FIBER_LOG_LEVEL", "code, Config.LogLevel" or "default"
	Reason  string // what is wrong: "is too short"
	Allowed string // what would be right; "" where the reason says it
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
