package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		if info, err := os.Stat(c.Build); err != nil || !info.Mode().IsRegular() {
			return source{}, nil, fmt.Errorf("--build: there is no Dockerfile %s", c.Build)
		}
		return source{kind: dockerfile, what: c.Build, name: folderName()}, c.Args, nil
	case len(c.Args) == 0:
		return source{}, nil, errors.New("nothing to run: name a Go package, or a command and its --image")
	case isPackage(c.Args[0]):
		if _, err := os.Stat(c.Args[0]); err != nil && isLocal(c.Args[0]) {
			return source{}, nil, fmt.Errorf("there is no package %s", c.Args[0])
		}
		return source{kind: goPackage, what: c.Args[0], name: packageName(c.Args[0])}, c.Args[1:], nil
	case backend == "local":
		return source{kind: inImage, name: c.Args[0]}, c.Args, nil
	}
	files, err := dockerfiles(".")
	switch {
	case err != nil:
		return source{}, nil, err
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
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
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

func dockerfiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var files []string
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && (name == "Dockerfile" || strings.HasSuffix(name, ".docker")) {
			files = append(files, name)
		}
	}
	return files, err
}

// compile builds a package. The compiler's output goes to stderr.
func (s source) compile(ctx context.Context, to string, env []string) error {
	target, dir := s.what, ""
	if info, err := os.Stat(s.what); err == nil && info.IsDir() {
		target, dir = ".", s.what
	}
	env = append(os.Environ(), env...)
	kind := make(chan string, 1)
	go func() { kind <- packageKind(ctx, dir, target, env) }()
	kept := keptAt(dir, target, to, env)
	build := exec.CommandContext(ctx, "go", "build", "-o", kept, target)
	build.Dir, build.Env, build.Stdout, build.Stderr = dir, env, os.Stderr, os.Stderr
	err := build.Run()
	if name := <-kind; name != "" && name != "main" && ctx.Err() == nil {
		return fmt.Errorf("%s is package %s, not a program: its package must be main", s.what, name)
	}
	if err != nil {
		return s.unbuilt(ctx, err)
	}
	if kept == to {
		return nil
	}
	// Another build may replace the kept file at any time.
	if err := os.Link(kept, to); err == nil {
		return nil
	}
	program, err := os.ReadFile(kept)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// keptAt returns where a built program is kept, so that go build knows whether to link it again. If there is no place for
// it, keptAt returns to.
func keptAt(dir, target, to string, env []string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return to
	}
	where, err := filepath.Abs(dir)
	if err != nil {
		return to
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q", where, target)
	for _, kv := range env {
		if strings.HasPrefix(kv, "GO") || strings.HasPrefix(kv, "CGO_") {
			fmt.Fprintf(sum, " %q", kv)
		}
	}
	folder := filepath.Join(cache, "fiber", "run", hex.EncodeToString(sum.Sum(nil)[:8]))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return to
	}
	return filepath.Join(folder, filepath.Base(to))
}

// packageKind returns a package's name, "" if go can't tell.
func packageKind(ctx context.Context, dir, target string, env []string) string {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Name}}", target)
	list.Dir, list.Env = dir, env
	name, err := list.Output()
	if err != nil {
		return "" // the build reports the error
	}
	return strings.TrimSpace(string(name))
}

func (s source) unbuilt(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("building a package needs the go command, which is not in PATH")
	}
	return fmt.Errorf("%s does not build: see go's output above", s.what)
}
