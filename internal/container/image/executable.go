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

// running is the same file even when a build has replaced it or go run has deleted it.
const running = "/proc/self/exe"

// executable is a program, or a library, as its ELF headers tell.
type executable struct {
	name string // what it was called by
	path string // where it is, or was
	file string // what to open
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
		x.path = real // $ORIGIN is where the file is, not where a link to it is
	}
	f, err := os.Open(x.file)
	if err != nil {
		return nil, fmt.Errorf("read the executable: %w", err)
	}
	x.from = f
	if x.elf, err = elf.NewFile(f); err != nil {
		x.elf = nil // check says what it is instead
	}
	return x, nil
}

func runningPath() (path, file string) {
	if target, err := os.Readlink(running); err == nil {
		return strings.TrimSuffix(target, " (deleted)"), running
	}
	path, _ = os.Executable() // without one, the file that can't be opened is named
	return path, path
}

// PlatformOf is what a program was built for, "" the running one.
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

func (x *executable) close() { _ = x.from.Close() } // it was only read

// check says whether the program runs on p, and if not, how to make one that does.
func (x *executable) check(p Platform) error {
	is, err := x.platform()
	if err != nil {
		return fmt.Errorf("%s %w", x.path, err)
	}
	if is == p {
		return nil
	}
	return fmt.Errorf("%s is built for %s, and its image is to run on %s: build it with GOOS=%s GOARCH=%s CGO_ENABLED=0 go build -o program-%s%s, "+
		"and set FIBER_EXECUTABLE to the path of program-%s", x.path, is, p, p.OS, p.Arch, p.Arch, x.mainPackage(), p.Arch)
}

// platform is what the program was built for. What is no ELF file may still be Go's, for another system.
func (x *executable) platform() (Platform, error) {
	if x.elf != nil {
		if t := x.elf.Type; t != elf.ET_EXEC && t != elf.ET_DYN {
			return Platform{}, errors.New("is no program")
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
	return errors.New("is no program that could be put into an image")
}

// mainPackage is what to give to go build, with a space in front, "" where it is not known.
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

// interpreter is the path of the loader that a dynamically linked program asks for, "" for a static one.
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

// dynamic is what the program asks its loader for.
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
