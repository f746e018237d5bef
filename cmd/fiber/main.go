// Command fiber runs programs on a Kubernetes cluster and looks after them there.
//
// Fiber run puts a Go package, or a command in an image, on the cluster as a pod, and ends as it does. The others list
// what runs, show its output, end it, copy files to and from volumes, and say what is missing where nothing works.
// What it reads besides its flags are the FIBER_ variables and the .fiberconfig of the working directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"k8s.io/apimachinery/pkg/util/runtime"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

// commands are the command line.
type commands struct {
	Run        runCommand        `cmd:"" help:"Run a Go package, or a command in an image, on the cluster."`
	Ps         psCommand         `cmd:"" help:"List the programs on the cluster."`
	Logs       logsCommand       `cmd:"" help:"Show what a program has written."`
	Stop       stopCommand       `cmd:"" help:"End programs."`
	Cp         copyCommand       `cmd:"" help:"Copy files to and from a claim (PersistentVolumeClaim)."`
	Clean      cleanCommand      `cmd:"" help:"Remove what programs that have ended left on the cluster."`
	Doctor     doctorCommand     `cmd:"" help:"Say what works here, what does not, and what to do."`
	Version    versionCommand    `cmd:"" help:"Say which version this is."`
	Completion completionCommand `cmd:"" help:"Write a shell's completion of this command."`
	Hold       holdCommand       `cmd:"" hidden:"" help:"Wait in a pod while files are copied."`
	Tar        tarCommand        `cmd:"" hidden:"" help:"Pack and unpack files in a pod."`
}

// status is an exit code that is no error of the command's own.
type status int

func (s status) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

const usageError = 2

// misuse is a command line that is wrong, whoever notices.
type misuse struct{ error }

func (misuse) ExitCode() int { return usageError }

func main() {
	runtime.ErrorHandlers = nil // client-go logs here what its calls return, too
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns its exit code.
func execute(args []string) int {
	parser, err := newParser()
	if err != nil {
		panic(err) // the tags above
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "fiber: %s; fiber --help lists what there is\n", strings.TrimSuffix(err.Error(), "."))
		return usageError
	}
	return exitCode(ctx.Run(ctx))
}

func exitCode(err error) int {
	var code status
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "fiber: %v\n", err)
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) && coded.ExitCode() > 0 {
		return coded.ExitCode()
	}
	return 1
}

// interruptible does something that a signal gives up.
func interruptible(do func(context.Context) error) error {
	code, err := submit.Before(submit.Signals(), do)
	if err == nil && code != 0 {
		return status(code)
	}
	return err
}

func newParser() (*kong.Kong, error) {
	return kong.New(new(commands), kong.Name("fiber"),
		kong.Description("Programs on a Kubernetes cluster: docs/cli.md has examples."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
}

// settings loads the configuration, with what flags say in place of the code.
func settings(flags config.Config) (config.Config, error) {
	cfg, warnings, err := config.Load(flags, config.Sources{})
	for _, w := range warnings {
		fmt.Fprintln(os.Stderr, "fiber: "+w)
	}
	return cfg, err
}

// connect finds the cluster, and the namespace: a flag's, or that of the configuration.
func connect(namespace string) (*kube.Client, error) {
	if namespace == "" {
		cfg, err := settings(config.Config{})
		if err != nil {
			return nil, err
		}
		namespace = cfg.KubernetesNamespace
	}
	return kube.Connect(namespace)
}
