package main

import "github.com/alecthomas/kong"

type helpCommand struct {
	Command string `arg:"" optional:"" help:"The command; without one, all are listed."`
}

// Run does what --help does behind the command.
func (c *helpCommand) Run(app *kong.Kong) error {
	args := []string{"--help"}
	if c.Command != "" {
		args = []string{c.Command, "--help"}
	}
	if _, err := app.Parse(args); err != nil {
		return misuse{err}
	}
	return nil
}
