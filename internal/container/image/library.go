package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// extras are libraries that glibc opens by itself, to resolve host names and to end threads. An image has those that this
// machine has.
const extras = "libnss_files.so.2 libnss_dns.so.2 libresolv.so.2 libgcc_s.so.1"

const advice = ": install it, build the program with CGO_ENABLED=0, or set FIBER_BASE_IMAGE to an image that has it"

// libraries returns the loader of a dynamically linked program and the libraries that the program needs, nothing if it is
// static. The loader itself says where it finds them, through a RUNPATH, ld.so.conf or LD_LIBRARY_PATH.
//
// In the image they all are in one directory, which the loader searches by default, however they were found on this machine.
// A loader takes only one library of a name, so one of each is enough.
func (x *executable) libraries() ([]entry, error) {
	loader, err := x.loader()
	if err != nil || loader == "" {
		return nil, err
	}
	file, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return nil, fmt.Errorf("%s is dynamically linked, but its loader %s is not on this machine%s", x.path, loader, advice)
	}
	into := filepath.Dir(file)
	if strings.HasPrefix(path.Base(loader), "ld-musl-") {
		into = "/lib" // wherever musl itself is
	}
	list, err := x.list(loader)
	if err != nil {
		return nil, err
	}
	entries := []entry{{path: loader, file: file, mode: 0o755}}
	for line := range strings.Lines(list) { // such as "libc.so.6 => /lib/libc.so.6 (0x…)", or "/opt/own.so (0x…)"
		line, _, _ = strings.Cut(strings.TrimSpace(line), " (0x")
		name, found, moves := strings.Cut(line, " => ")
		if !moves {
			found = name
		}
		if found, err = filepath.Abs(found); err != nil { // LD_LIBRARY_PATH or a RUNPATH may be relative
			return nil, fmt.Errorf("find the library %s: %w", name, err)
		}
		_, missing := os.Stat(found)
		switch {
		case missing != nil && !moves || path.Base(found) == path.Base(loader): // the kernel's own library, and the loader
		case !filepath.IsAbs(name) && strings.Contains(name, "/"):
			return nil, fmt.Errorf("%s is linked with %s, which depends on the working directory: link it with a library's name or absolute path", x.path, name)
		case !filepath.IsAbs(name):
			entries = append(entries, entry{path: path.Join(into, name), file: found, mode: 0o755})
		default:
			entries = append(entries, entry{path: found, file: found, mode: 0o755})
		}
	}
	return entries, nil
}

// loader returns the path of the loader that a dynamically linked program asks for, "" for a static program.
func (x *executable) loader() (string, error) {
	for _, p := range x.elf.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(p.Open())
		if err != nil {
			return "", fmt.Errorf("read the headers of %s: %w", x.path, err)
		}
		return strings.TrimRight(string(text), "\x00"), nil
	}
	return "", nil
}

// list has the loader list what the program needs, and returns the loader's words. Nothing of the program runs.
func (x *executable) list(loader string) (string, error) {
	real, err := filepath.EvalSymlinks(x.path) // $ORIGIN is the directory of the file, not of a link to it
	if err != nil {
		real = x.file // the path has been deleted
	}
	cmd := exec.Command(loader, "--list", real)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+extras)
	list, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", errors.New(said[len(said)-1] + advice) // before it come complaints of extras that are not there
	}
	if err != nil {
		return "", fmt.Errorf("%s is dynamically linked, but its loader does not run on this machine: %w%s", x.path, err, advice)
	}
	return string(list), nil
}
