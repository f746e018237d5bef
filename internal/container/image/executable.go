package image

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// executable is a program with its ELF headers.
type executable struct {
	path string // where it is, or was
	file string // the path to open
	elf  *elf.File
	from *os.File
}

// openExecutable opens the program at path, or the running one, even after a build has replaced it or go run has deleted it.
func openExecutable(path string) (*executable, error) {
	x := &executable{path: path, file: path}
	if path == "" {
		x.path, _ = os.Executable() // if this fails, opening the file returns the error
		x.file = fmt.Sprintf("/proc/%d/exe", os.Getpid())
		if _, err := os.Stat(x.file); err != nil { // not on Linux
			x.file = x.path
		}
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

// PlatformOf returns what a program was built for; "" is the running one.
func PlatformOf(path string) (Platform, error) {
	x, err := openExecutable(path)
	if err != nil {
		return Platform{}, err
	}
	defer x.close()
	return x.platform()
}

func (x *executable) close() { _ = x.from.Close() } // opened for reading only

// check returns nil if the program runs on p, or else an error that says how to build one that does.
func (x *executable) check(p Platform) error {
	is, err := x.platform()
	if err != nil || is == p {
		return err
	}
	return fmt.Errorf("%s is built for %s, but its image has to run on %s: build it with GOOS=%s GOARCH=%s CGO_ENABLED=0 go build -o program-%s%s, "+
		"and set FIBER_EXECUTABLE to the path of program-%s", x.path, is, p, p.OS, p.Arch, p.Arch, x.mainPackage(), p.Arch)
}

// platform returns what the program was built for. A program in Go says so itself; others are taken for Linux's.
func (x *executable) platform() (Platform, error) {
	info, err := buildinfo.Read(x.from)
	if err == nil && setting(info, "GOARCH") != "" {
		return Platform{setting(info, "GOOS"), setting(info, "GOARCH")}, nil
	}
	if x.elf == nil {
		return Platform{}, x.notAProgram()
	}
	if t := x.elf.Type; t != elf.ET_EXEC && t != elf.ET_DYN {
		return Platform{}, fmt.Errorf("%s is not a program", x.path)
	}
	return Platform{"linux", cmp.Or(machines[x.elf.Machine], x.elf.Machine.String())}, nil
}

func (x *executable) notAProgram() error {
	start := make([]byte, 2)
	if _, err := x.from.ReadAt(start, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s can't be read: %w", x.path, err)
	}
	if string(start) == "#!" {
		return fmt.Errorf("%s is a script: an image needs the program itself", x.path)
	}
	return fmt.Errorf("%s is not a program, and cannot be put into an image", x.path)
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
	return ""
}
