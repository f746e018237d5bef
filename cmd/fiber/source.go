package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// source is where a program comes from.
type source struct {
	kind sourceKind
	what string // the package, the image, or the Dockerfile
	name string // the program's name
}

type sourceKind int

const (
	goPackage sourceKind = iota
	inImage
	dockerfile
)

// find returns what the arguments name, and which of them are the program's own.
func (c *runCommand) find(backend string) (source, []string, error) {
	switch {
	case c.Image != "" && c.Build != "":
		return source{}, nil, errors.New("--image names an existing image, and --build builds one: use only one of them")
	case c.Image != "":
		return source{kind: inImage, what: c.Image, name: commandName(c.Args, c.Image)}, c.Args, nil
	case c.Build != "":
		if kindOf(c.Build) != "file" {
			return source{}, nil, fmt.Errorf("--build: there is no Dockerfile %s", c.Build)
		}
		return source{kind: dockerfile, what: c.Build, name: folderName()}, c.Args, nil
	case len(c.Args) == 0:
		return source{}, nil, errors.New("nothing to run: name a Go package, or a command and its --image")
	case isPackage(c.Args[0]):
		if kindOf(c.Args[0]) == "none" && isLocal(c.Args[0]) {
			return source{}, nil, fmt.Errorf("there is no package %s", c.Args[0])
		}
		return source{kind: goPackage, what: c.Args[0], name: packageName(c.Args[0])}, c.Args[1:], nil
	case backend == "local":
		return source{kind: inImage, name: c.Args[0]}, c.Args, nil
	}
	files, _ := filepath.Glob("Dockerfile")
	more, _ := filepath.Glob("*.docker")
	files = slices.DeleteFunc(append(files, more...), func(name string) bool { return kindOf(name) != "file" })
	switch {
	case len(files) == 0:
		return source{}, nil, fmt.Errorf("%s is not a Go package, and there is no image to run it in: use --image, or put a Dockerfile or a *.docker file in this folder", c.Args[0])
	case len(files) > 1:
		return source{}, nil, fmt.Errorf("%s is not a Go package, and several files could build its image: choose one of %s with --build", c.Args[0], strings.Join(files, ", "))
	}
	return source{kind: dockerfile, what: files[0], name: folderName()}, c.Args, nil
}

// isPackage reports whether an argument is a Go package or file: it looks like one, or is a folder with Go files.
func isPackage(arg string) bool {
	if strings.HasSuffix(arg, ".go") {
		return true
	}
	if kindOf(arg) == "dir" {
		files, _ := filepath.Glob(filepath.Join(arg, "*.go"))
		return len(files) > 0 || strings.HasPrefix(arg, ".") || filepath.IsAbs(arg)
	}
	if strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
		return filepath.Ext(arg) == ""
	}
	host, _, path := strings.Cut(arg, "/")
	return path && strings.Contains(host, ".") && !filepath.IsAbs(arg) // an import path
}

// isLocal reports whether a package's name is the path of a file or folder.
func isLocal(name string) bool {
	return strings.HasPrefix(name, ".") || filepath.IsAbs(name) || strings.HasSuffix(name, ".go")
}

func packageName(arg string) string {
	if abs, err := filepath.Abs(arg); err == nil && !strings.Contains(filepath.Base(arg), "@") {
		arg = abs
	}
	return strings.TrimSuffix(filepath.Base(arg), ".go")
}

func folderName() string { return packageName(".") }

func commandName(args []string, image string) string {
	if len(args) > 0 {
		return filepath.Base(args[0])
	}
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(filepath.Base(image), ":")
	return name
}

// compile builds the package, and returns the path of the program. The compiler's output goes to stderr.
func (p *plan) compile(ctx context.Context, env []string) (program string, err error) {
	target, dir := p.source.what, ""
	if kindOf(target) == "dir" {
		target, dir = ".", target
	}
	run := func(stdout io.Writer, args ...string) error {
		cmd := goCommand(ctx, p.dir, args...)
		cmd.Dir, cmd.Env, cmd.Stdout = dir, append(cmd.Env, env...), stdout
		if err := runTool(ctx, cmd); err != nil {
			return fmt.Errorf("%s does not build: %w", p.source.what, err)
		}
		return nil
	}
	var found strings.Builder
	if err := run(&found, "list", "-f", "{{.Name}} {{.Dir}}", target); err != nil {
		return "", err
	}
	name, folder, _ := strings.Cut(strings.TrimSpace(found.String()), " ")
	if strings.Contains(folder, "\n") {
		return "", fmt.Errorf("%s is several packages: name the one to run", p.source.what)
	}
	if name != "main" {
		return "", fmt.Errorf("%s is package %s, not a program: its package must be main", p.source.what, name)
	}
	program = filepath.Join(p.dir, p.source.name)
	args := []string{"build", "-o", program, target}
	if p.Dashboard {
		overlay, file, err := p.importing("github.com/fiber-go/fiber/dashboard", folder)
		if err != nil {
			return "", err
		}
		args = slices.Insert(args, 1, "-overlay", overlay)
		if strings.HasSuffix(target, ".go") { // only files that are named are built
			args = append(args, filepath.Join(filepath.Dir(target), filepath.Base(file)))
		}
	}
	err = run(os.Stderr, args...)
	if err != nil && p.Dashboard && ctx.Err() == nil {
		err = fmt.Errorf("%w; --dashboard has it import github.com/fiber-go/fiber/dashboard, which is not there for a package without Fiber, or in a vendor folder", err)
	}
	return program, err
}

// importing returns an overlay with which the main package in a folder imports another one, and the file of that package that does.
func (p *plan) importing(path, folder string) (overlay, file string, err error) {
	overlay, file = filepath.Join(p.dir, "overlay.json"), filepath.Join(folder, "fiber_run_imports.go")
	source := filepath.Join(p.dir, "imports.go")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: source}})
	return overlay, file, errors.Join(err, os.WriteFile(overlay, text, 0o600), os.WriteFile(source, []byte("package main\n\nimport _ \""+path+"\"\n"), 0o600))
}

// usesFiber reports whether a program has Fiber with the backend kubernetes in it, which alone needs a client of clusters.
func usesFiber(program string) bool {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return false
	}
	const fiber, client = "github.com/fiber-go/fiber", "k8s.io/client-go"
	has := func(module string) bool {
		return info.Main.Path == module || slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
	}
	return has(fiber) && has(client)
}

// temporaryFolder makes a folder for what the commands that this one calls may leave when they are interrupted.
func temporaryFolder() (string, error) { return os.MkdirTemp(os.Getenv("GOTMPDIR"), "fiber-run") }

// goCommand returns a go command with its temporary files in dir.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOTMPDIR="+dir)
	return cmd
}

// toolGrace is how long a command that was interrupted may take to end.
const toolGrace = 5 * time.Second

// toolLag is how much later a terminal's Ctrl-C, which reaches the command as well, may end ctx.
const toolLag = 500 * time.Millisecond

// runTool runs a command whose output is on stderr, and which the end of ctx interrupts. Its errors say what to do.
func runTool(ctx context.Context, cmd *exec.Cmd) error {
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, toolGrace // so it ends what it has started
	cmd.Stderr = os.Stderr
	if cmd.Stdout == nil {
		cmd.Stdout = os.Stderr
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		select {
		case <-ctx.Done():
		case <-time.After(toolLag):
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("the %s command is not in PATH", cmd.Args[0])
	case errors.As(err, &exit):
		return fmt.Errorf("see %s's output above", cmd.Args[0])
	}
	return err
}
