package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCommand) Run(app *kong.Kong) error {
	switch c.Shell {
	case "fish":
		fish(os.Stdout, app.Model)
	case "zsh":
		fmt.Println("#compdef fiber\nautoload -U +X bashcompinit && bashcompinit")
		fallthrough
	default:
		bash(os.Stdout, app.Model)
	}
	return nil
}

// words returns a command's flags, as they are written.
func words(node *kong.Node) []string {
	var all []string
	for _, f := range node.Flags {
		if f.Hidden {
			continue
		}
		all = append(all, "--"+f.Name)
		if f.Tag.Negatable != "" {
			all = append(all, "--no-"+f.Name)
		}
		if f.Short != 0 {
			all = append(all, "-"+string(f.Short))
		}
	}
	return append(all, "--help", "-h")
}

// bash writes a script that completes commands, then a command's flags, and otherwise files.
func bash(w io.Writer, app *kong.Application) {
	var names []string
	var cases strings.Builder
	for _, n := range app.Children {
		if n.Hidden {
			continue
		}
		names = append(names, n.Name)
		fmt.Fprintf(&cases, "    %s) words=%q ;;\n", n.Name, strings.Join(words(n), " "))
	}
	fmt.Fprintf(w, `_fiber() {
  local current=${COMP_WORDS[COMP_CWORD]} words
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W %q -- "$current"))
    return
  fi
  case ${COMP_WORDS[1]} in
%s  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o default -F _fiber fiber
`, strings.Join(append(names, "--help"), " "), cases.String())
}

func fish(w io.Writer, app *kong.Application) {
	for _, n := range app.Children {
		if n.Hidden {
			continue
		}
		fmt.Fprintf(w, "complete -c fiber -n __fish_use_subcommand -a %s -d %q\n", n.Name, n.Help)
		for _, f := range n.Flags {
			if f.Hidden {
				continue
			}
			short, value := "", ""
			if f.Short != 0 {
				short = " -s " + string(f.Short)
			}
			if !f.IsBool() {
				value = " -r"
			}
			fmt.Fprintf(w, "complete -c fiber -n '__fish_seen_subcommand_from %s' -l %s%s%s -d %q\n", n.Name, f.Name, short, value, f.Help)
		}
	}
}
