package wire

import "time"

// Log is a log message of Fiber's own on its way to the root.
type Log struct {
	Time    time.Time
	Level   int
	Message string
	Process string // the name of the process that logged it
	Attrs   []LogAttr
}

// LogAttr is an attribute of a Log. Its value is a string, a number or a bool.
type LogAttr struct {
	Key   string
	Value any
}
