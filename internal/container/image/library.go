package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// extras are libraries that glibc opens by itself, to resolve host names and to end threads. An image has those that this
// machine has.
var extras = []string{"libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libgcc_s.so.1"}

// libraries finds the libraries that a dynamically linked program needs.
//
// In the image they all are in one directory, which the loader searches by default, however they were found on this machine:
// through a RUNPATH, ld.so.conf or LD_LIBRARY_PATH. A loader takes only one library of a name, so one of each is enough.
type libraries struct {
	header  elf.FileHeader
	loader  string   // its path
	into    string   // the directory in the image, which the loader searches by default
	env     []string // LD_LIBRARY_PATH
	system  []string // the directories of ld.so.conf, and the default ones
	found   map[string]entry
	missing []string
}

// wanted is a library that a program or another library needs.
type wanted struct {
	name string
	by   *needer
}

// needer is a program or a library, and what has loaded it.
type needer struct {
	dynamic
	path string
	by   *needer
}

// findLibraries returns the loader and the libraries of x: nothing if x is static.
func findLibraries(x *executable, conf string) ([]entry, error) {
	loader, err := x.interpreter()
	if err != nil || loader == "" {
		return nil, err
	}
	file, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return nil, fmt.Errorf("%s is dynamically linked, but its loader %s is not on this machine%s", x.path, loader, advice)
	}
	l := &libraries{
		header: x.elf.FileHeader,
		loader: loader,
		into:   filepath.Dir(file),
		env:    filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")),
		found:  map[string]entry{},
	}
	l.system = append(ldDirs(conf), l.into)
	if t := triplet(l.header); t != "" {
		l.system = append(l.system, "/lib/"+t, "/usr/lib/"+t)
	}
	if strings.HasPrefix(path.Base(loader), "ld-musl-") {
		l.into = "/lib" // wherever musl itself is
	}
	l.system = append(l.system, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
	if err := l.search(x); err != nil {
		return nil, err
	}
	if l.missing != nil {
		return nil, errors.New(strings.Join(l.missing, "\n") + advice)
	}
	entries := []entry{{path: loader, file: file, mode: 0o755}}
	for _, name := range slices.Sorted(maps.Keys(l.found)) {
		entries = append(entries, l.found[name])
	}
	return entries, nil
}

const advice = ": install it, build the program with CGO_ENABLED=0, or set FIBER_BASE_IMAGE to an image that has it"

// search finds what x needs, and what that needs in turn, in the loader's order: breadth first.
func (l *libraries) search(x *executable) error {
	need, err := l.needs(x, nil)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(need, func(w wanted) bool { return w.name == "libc.so.6" }) {
		for _, name := range extras {
			need = append(need, wanted{name, nil})
		}
	}
	for len(need) > 0 {
		w := need[0]
		need = need[1:]
		if _, ok := l.found[w.name]; ok || w.name == path.Base(l.loader) {
			continue
		}
		lib := l.open(w)
		if lib == nil {
			if w.by != nil {
				l.missing = append(l.missing, fmt.Sprintf("the library %s, which %s needs, is not found", w.name, w.by.path))
				l.found[w.name] = entry{}
			}
			continue
		}
		more, err := l.needs(lib, w.by)
		lib.close()
		if err != nil {
			return err
		}
		at := path.Join(l.into, w.name)
		if strings.Contains(w.name, "/") {
			at = lib.path
		}
		l.found[w.name] = entry{path: at, file: lib.path, mode: 0o755}
		need = append(need, more...)
	}
	return nil
}

// needs returns what x needs, which was loaded for by.
func (l *libraries) needs(x *executable, by *needer) ([]wanted, error) {
	d, err := x.dynamic()
	if err != nil {
		return nil, err
	}
	n := &needer{dynamic: d, path: x.path, by: by}
	need := make([]wanted, len(d.needed))
	for i, name := range d.needed {
		need[i] = wanted{name, n}
	}
	return need, nil
}

// open opens the first library of the name that fits, or returns nil.
func (l *libraries) open(w wanted) *executable {
	if strings.Contains(w.name, "/") {
		return l.fits(w.name)
	}
	for _, dir := range l.dirs(w.by) {
		if x := l.fits(filepath.Join(dir, w.name)); x != nil {
			return x
		}
	}
	return nil
}

// dirs returns the directories in which to look for a library that by needs; see ld.so(8). An RPATH also applies to
// libraries further down; a RUNPATH does not, and disables its owner's RPATH.
func (l *libraries) dirs(by *needer) []string {
	var dirs []string
	if by == nil {
		return l.system
	}
	if by.runpath == nil {
		for n := by; n != nil; n = n.by {
			if n.runpath == nil {
				dirs = append(dirs, n.rpath...)
			}
		}
	}
	return slices.Concat(dirs, l.env, by.runpath, l.system)
}

// fits opens a library if it is for the program's platform. It returns nil for other files of the same name.
func (l *libraries) fits(file string) *executable {
	if !filepath.IsAbs(file) {
		return nil // it would be another file in each working directory
	}
	x, err := openExecutable(file)
	if err != nil {
		return nil
	}
	x.path = file // $ORIGIN of a library is the directory where it was found
	h := l.header
	if x.elf == nil || x.elf.Type != elf.ET_DYN || x.elf.Machine != h.Machine || x.elf.Class != h.Class || x.elf.Data != h.Data {
		x.close()
		return nil
	}
	return x
}
