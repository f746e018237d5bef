package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// hooks have a shell run fiber complete, with the line so far in COMP_LINE, and complete files otherwise.
var hooks = map[string]string{
	"bash": `complete -o default -C "fiber complete" fiber`,
	"zsh":  `autoload -U +X bashcompinit && bashcompinit && complete -o default -C "fiber complete" fiber`,
	"fish": `complete -c fiber -a '(COMP_LINE=(commandline -cp) fiber complete)'`,
}

func (c *completionCommand) Run() error {
	fmt.Println(hooks[c.Shell])
	return nil
}

// completeCommand prints the words that may stand at the end of a line.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"What bash adds; the line has it, too."`
}

func (completeCommand) Run(app *kong.Kong) error {
	line := os.Getenv("COMP_LINE")
	words := strings.Fields(line)
	last := line[strings.LastIndex(line, " ")+1:]
	var all []string
	for _, command := range app.Model.Children {
		switch {
		case command.Hidden:
		case len(words) < 2 || len(words) == 2 && last != "":
			all = append(all, command.Name)
		case command.Name == words[1] && strings.HasPrefix(last, "-"):
			all = flags(command)
		}
	}
	for _, word := range append(all, "--help") {
		if strings.HasPrefix(word, last) && (last != "" || len(words) < 2) {
			fmt.Println(word)
		}
	}
	return nil
}

// flags returns a command's flags, as they are written.
func flags(command *kong.Node) []string {
	var all []string
	for _, f := range command.Flags {
		all = append(all, "--"+f.Name)
		if f.Tag.Negatable != "" {
			all = append(all, "--no-"+f.Name)
		}
	}
	return all
}
