// Command fiber runs programs on a Kubernetes cluster and manages them there.
//
// Fiber run runs a Go package, or a command in an image, as a pod on the cluster, and exits with its exit code. The other
// commands list what runs, there and on this machine, show how it is and what it writes, end it, copy files to and from volumes,
// and find out what is missing if nothing works. Fiber vet, which needs no cluster, finds mistakes in Go packages before they run.
// Besides its flags, fiber reads the FIBER_ variables and the .fiberconfig of the working directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"k8s.io/apimachinery/pkg/util/runtime"

	_ "github.com/fiber-go/fiber/backend/kubernetes"
	_ "github.com/fiber-go/fiber/backend/local"
	_ "github.com/fiber-go/fiber/internal/bars" // of programs on a cluster
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

// commands are the command line.
type commands struct {
	Run        runCommand        `cmd:"" help:"Run a Go package, or a command in an image, on the cluster."`
	Ps         psCommand         `cmd:"" help:"List the programs that run on this machine, and those on the cluster."`
	Top        topCommand        `cmd:"" help:"Show how a program is: calls, pools, processes."`
	Dashboard  dashboardCommand  `cmd:"" help:"Open the page that a program serves."`
	Logs       logsCommand       `cmd:"" help:"Show a program's output."`
	Stop       stopCommand       `cmd:"" help:"End programs."`
	Cp         copyCommand       `cmd:"" help:"Copy files to and from a claim (PersistentVolumeClaim)."`
	Clean      cleanCommand      `cmd:"" help:"Remove what ended programs have left on the cluster."`
	Checkpoint checkpointCommand `cmd:"" help:"Show what is in a file of fiber.Checkpoint."`
	Report     reportCommand     `cmd:"" help:"Make the page of FIBER_REPORT for a run that was killed."`
	Vet        vetCommand        `cmd:"" help:"Find mistakes in Go packages before they run."`
	Doctor     doctorCommand     `cmd:"" help:"Check what works here, what does not, and what to do."`
	Version    versionCommand    `cmd:"" help:"Print the version of this command."`
	Help       helpCommand       `cmd:"" help:"Show what a command does, and its flags."`
	Completion completionCommand `cmd:"" help:"Print a shell's completion script for this command."`
	Complete   completeCommand   `cmd:"" hidden:"" help:"Complete the line in COMP_LINE."`
	VersionToo kong.VersionFlag  `name:"version" help:"Print the version of this command."`
}

// status is the exit code of a program, without an error of the command itself.
type status int

func (s status) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

const usageError = 2

// misuse is the error of a wrong command line.
type misuse struct{ error }

func (misuse) ExitCode() int { return usageError }

func main() {
	runtime.ErrorHandlers = nil // they log errors that client-go's calls return as well
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns its exit code.
func execute(args []string) int {
	vetTool(args)
	parser, err := newParser()
	if err != nil {
		panic(err) // the tags above are wrong
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "fiber: %s; see fiber --help\n", strings.TrimSuffix(err.Error(), "."))
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

func newParser() (*kong.Kong, error) {
	return kong.New(new(commands), kong.Name("fiber"),
		kong.Description("Runs programs on a Kubernetes cluster. For examples, see docs/cli.md."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Vars{"version": versionLine()})
}

// settings loads the configuration; the flags take the place of settings in code.
func settings(flags config.Config) (config.Config, error) {
	cfg, warnings, err := config.Load(flags, config.Sources{Others: true})
	for _, w := range warnings {
		fmt.Fprintln(os.Stderr, "fiber: "+w)
	}
	return cfg, err
}

// connect finds the cluster. The namespace, if it is "", comes from the configuration.
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

// where is the flag for the namespace.
type where struct {
	Namespace string `short:"n" placeholder:"NAME" help:"The namespace."`
}

// onCluster calls do, which a signal cancels, with a client of the cluster.
func (w where) onCluster(do func(context.Context, *kube.Client) error) error {
	client, err := connect(w.Namespace)
	if err != nil {
		return err
	}
	return before(submit.Signals(), func(ctx context.Context) error { return do(ctx, client) })
}

// before calls do, which a signal cancels; see [submit.Before].
func before(signals chan os.Signal, do func(context.Context) error) error {
	code, err := submit.Before(signals, do)
	if err == nil && code != 0 {
		return status(code)
	}
	return err
}
