package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

func (versionCommand) Run() error {
	fmt.Println(versionLine())
	return nil
}

func versionLine() string {
	return "fiber " + version() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// version returns the module's version, which names the commit where there is no release.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
