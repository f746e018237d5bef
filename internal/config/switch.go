package config

import (
	"cmp"
	"errors"
	"strings"
)

// Switch is a yes or no that may also be unset, which is the zero value:
//
//	fiber.Config{ForwardLogs: fiber.Off}
type Switch int8

const (
	Off   Switch = -1
	Unset Switch = 0
	On    Switch = 1
)

// Enabled reports whether s is On.
func (s Switch) Enabled() bool { return s == On }

func (s Switch) valid() bool { return s == On || s == Off }

func (s Switch) String() string { return cmp.Or(switchNames[s], "invalid") }

var switchNames = map[Switch]string{On: "on", Off: "off", Unset: "unset"}

func parseSwitch(text string) (Switch, error) {
	switch strings.ToLower(text) {
	case "on", "true", "yes", "1":
		return On, nil
	case "off", "false", "no", "0":
		return Off, nil
	}
	return Unset, errors.New("is neither yes nor no")
}
