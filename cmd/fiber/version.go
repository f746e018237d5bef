package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

func (versionCommand) Run() error {
	fmt.Println("fiber " + version() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH)
	return nil
}

// version returns the module's version, or the commit that the command was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
