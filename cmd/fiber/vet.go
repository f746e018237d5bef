package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/vet"
)

type vetCommand struct {
	Args []string `arg:"" optional:"" passthrough:"" name:"package" help:"Go packages, such as ./...; go vet's flags, such as --json, may precede them."`
}

// Run has go vet call this executable, which then is a vet tool. go vet gets the arguments as they were: the parser has split
// those with an "=".
func (c *vetCommand) Run(line *kong.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return before(submit.Signals(), func(ctx context.Context) error {
		dir, err := temporaryFolder()
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		cmd := goCommand(ctx, dir, append([]string{"vet", "-vettool=" + self}, line.Args[slices.Index(line.Args, "vet")+1:]...)...)
		cmd.Stdout = os.Stdout
		err = runTool(ctx, cmd)
		if err != nil && ctx.Err() == nil && cmd.ProcessState != nil {
			return status(cmd.ProcessState.ExitCode()) // go vet has said why
		}
		return err
	})
}

// asked matches the arguments, one a line, with which go vet starts a vet tool.
var asked = regexp.MustCompile(`^(-V=full|-flags|(-.*\n)*.*\.cfg)$`)

// vetTool does what go vet asks for, and exits, if it is go vet that has started this process.
func vetTool(args []string) {
	if asked.MatchString(strings.Join(args, "\n")) {
		unitchecker.Main(vet.Analyzers...)
	}
}
