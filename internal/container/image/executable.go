package image

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// running is the running executable, even after a build has replaced it or go run has deleted it.
const running = "/proc/self/exe"

// executable is a program or a library, with its ELF headers.
type executable struct {
	name string // the path that the caller used
	path string // where it is, or was
	file string // the path to open
	elf  *elf.File
	from *os.File
}

// openExecutable opens the program at path, or the running one.
func openExecutable(path string) (*executable, error) {
	x := &executable{name: path, path: path, file: path}
	if path == "" {
		x.path, x.file = runningPath()
		x.name = x.path
	} else if real, err := filepath.EvalSymlinks(path); err == nil {
		x.path = real // $ORIGIN is the directory of the file, not of a link to it
	}
	f, err := os.Open(x.file)
	if err != nil {
		return nil, fmt.Errorf("read the executable: %w", err)
	}
	x.from = f
	if x.elf, err = elf.NewFile(f); err != nil {
		x.elf = nil // check returns the error
	}
	return x, nil
}

func runningPath() (path, file string) {
	if target, err := os.Readlink(running); err == nil {
		return strings.TrimSuffix(target, " (deleted)"), running
	}
	path, _ = os.Executable() // if this fails, opening the file returns the error
	return path, path
}

// PlatformOf returns what a program was built for; "" is the running one.
func PlatformOf(path string) (Platform, error) {
	x, err := openExecutable(path)
	if err != nil {
		return Platform{}, err
	}
	defer x.close()
	p, err := x.platform()
	if err != nil {
		return p, fmt.Errorf("%s %w", x.path, err)
	}
	return p, nil
}

func (x *executable) close() { _ = x.from.Close() } // opened for reading only

// check returns nil if the program runs on p, or else an error that says how to build one that does.
func (x *executable) check(p Platform) error {
	is, err := x.platform()
	if err != nil {
		return fmt.Errorf("%s %w", x.path, err)
	}
	if is == p {
		return nil
	}
	return fmt.Errorf("%s is built for %s, but its image has to run on %s: build it with GOOS=%s GOARCH=%s CGO_ENABLED=0 go build -o program-%s%s, "+
		"and set FIBER_EXECUTABLE to the path of program-%s", x.path, is, p, p.OS, p.Arch, p.Arch, x.mainPackage(), p.Arch)
}

// platform returns what the program was built for. A file that is not ELF may still be a Go program, for another system.
func (x *executable) platform() (Platform, error) {
	if x.elf != nil {
		if t := x.elf.Type; t != elf.ET_EXEC && t != elf.ET_DYN {
			return Platform{}, errors.New("is not a program")
		}
		return Platform{elfOS(x.elf.FileHeader), elfArch(x.elf.FileHeader)}, nil
	}
	info, err := buildinfo.Read(x.from)
	if err != nil {
		return Platform{}, x.notAProgram()
	}
	return Platform{setting(info, "GOOS"), setting(info, "GOARCH")}, nil
}

func (x *executable) notAProgram() error {
	start := make([]byte, 2)
	if _, err := x.from.ReadAt(start, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("can't be read: %w", err)
	}
	if string(start) == "#!" {
		return errors.New("is a script: an image needs the program itself")
	}
	return errors.New("is not a program, and cannot be put into an image")
}

// mainPackage returns the package to pass to go build, with a space in front, or "" if it is not known.
func (x *executable) mainPackage() string {
	info, err := buildinfo.Read(x.from)
	if err != nil || info.Path == "" || strings.HasPrefix(info.Path, "command-line-arguments") || strings.HasSuffix(info.Path, ".test") {
		return ""
	}
	return " " + info.Path
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return "unknown"
}

// interpreter returns the path of the loader that a dynamically linked program asks for, "" for a static program.
func (x *executable) interpreter() (string, error) {
	for _, p := range x.elf.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 1<<12 {
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

// dynamic is what a program asks its loader for.
type dynamic struct {
	origin         string // the directory that $ORIGIN stands for
	needed         []string
	rpath, runpath []string
}

func (x *executable) dynamic() (dynamic, error) {
	d := dynamic{origin: filepath.Dir(x.path)}
	for tag, list := range map[elf.DynTag]*[]string{
		elf.DT_NEEDED: &d.needed, elf.DT_RPATH: &d.rpath, elf.DT_RUNPATH: &d.runpath,
	} {
		values, err := x.elf.DynString(tag)
		if err != nil {
			return d, fmt.Errorf("read the headers of %s: %w", x.path, err)
		}
		for _, value := range values {
			if tag == elf.DT_NEEDED {
				*list = append(*list, value)
				continue
			}
			for dir := range strings.SplitSeq(value, ":") {
				*list = append(*list, strings.NewReplacer("${ORIGIN}", d.origin, "$ORIGIN", d.origin).Replace(dir))
			}
		}
	}
	return d, nil
}
