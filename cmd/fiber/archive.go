package main

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// leftOut are the names of what is not copied: pipes, sockets and devices.
type leftOut []string

func (l leftOut) String() string {
	names, rest := strings.Join(l[:min(len(l), 3)], ", "), ""
	if len(l) > 3 {
		rest = fmt.Sprintf(" and %d more", len(l)-3)
	}
	return fmt.Sprintf("left out %s%s: pipes, sockets and devices are not copied", names, rest)
}

func notCopied(name string) error {
	return fmt.Errorf("%s is a pipe, a socket or a device: fiber cp copies files and folders", name)
}

// check finds what would keep a file or folder from being copied, before anything is done.
func check(from string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	if kindOf(from) == "other" {
		return notCopied(from)
	}
	abs, err := filepath.Abs(from)
	if err == nil {
		_, err = walk(from, filepath.Base(abs), func(string, *tar.Header) error { return nil })
	}
	return err
}

// walk calls visit with a file, or a folder and all that is in it, and the header of each in an archive where from has the
// given name. Links stay links; a link that leads out of the folder is an error. Other copies that are unfinished are skipped.
func walk(from, name string, visit func(file string, h *tar.Header) error) (left leftOut, err error) {
	from, err = filepath.EvalSymlinks(from) // the user means what a link leads to
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		inside, link := path.Join(name, filepath.ToSlash(rel)), ""
		switch info.Mode().Type() {
		case 0:
		case fs.ModeDir:
			if file != from && strings.HasPrefix(d.Name(), unfinished) {
				return fs.SkipDir
			}
		case fs.ModeSymlink:
			if link, err = os.Readlink(file); err != nil {
				return err
			}
			if !staysInside(inside, link) {
				return leavesError(inside, link)
			}
		default:
			left = append(left, inside)
			return nil
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = inside
		switch {
		case info.IsDir():
			h.Mode |= 0o700 // it is written to
		case info.Mode().IsRegular():
			h.Mode &= int64(fs.ModePerm) // the new owner has not made it a set-user-ID program
		}
		return visit(file, h)
	})
	return left, err
}

// sending is a file or folder on its way into a claim.
type sending struct {
	from     string
	name     string // in an existing folder; with the folders between, which are made
	uid, gid int    // the owner of all of it
	end      string // the name of the last file, which is empty
	left     leftOut
}

// pack writes the archive.
func (s *sending) pack(w io.Writer) (err error) {
	out := tar.NewWriter(w)
	header := func(h *tar.Header) error {
		h.Uid, h.Gid, h.Uname, h.Gname = s.uid, s.gid, "", ""
		// Busybox finds the size of a file of more than 8 GiB only in GNU's format, which then can't hold these times.
		h.Format, h.AccessTime, h.ChangeTime = tar.FormatGNU, time.Time{}, time.Time{}
		return out.WriteHeader(h)
	}
	parents, name := path.Split(s.name)
	for i, c := range parents {
		if c == '/' {
			if err := header(&tar.Header{Name: parents[:i], Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Now()}); err != nil {
				return err
			}
		}
	}
	s.left, err = walk(s.from, name, func(file string, h *tar.Header) error {
		h.Name = parents + h.Name
		if err := header(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		return send(out, file, h.Size)
	})
	if err == nil {
		err = header(&tar.Header{Name: s.end, Typeflag: tar.TypeReg, Mode: 0o600})
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// staysInside reports whether a link leads to somewhere in its own tree, whose top is the first element of the link's
// name. A target with .. after a name does not count as inside: the name may be another link, and then .. leads elsewhere.
func staysInside(name, target string) bool {
	up, rest := 0, filepath.ToSlash(target)
	for rest == ".." || strings.HasPrefix(rest, "../") {
		up, rest = up+1, strings.TrimPrefix(rest[len(".."):], "/")
	}
	local := rest == "" || filepath.IsLocal(rest) && !slices.Contains(strings.Split(rest, "/"), "..")
	return local && up < strings.Count(name, "/")
}

func leavesError(name, target string) error {
	top, _, _ := strings.Cut(name, "/")
	return fmt.Errorf("%s is a link to %s, which may lead out of %s: fiber cp does not copy such links; copy what it leads to, or remove it", name, target, top)
}

// send writes the first size bytes of a file, as announced in its header: the file may grow meanwhile.
func send(w io.Writer, file string, size int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(w, io.LimitReader(f, size))
	if err == nil && n < size {
		err = fmt.Errorf("%s became shorter while it was copied", file)
	}
	return err
}

// unpack writes an archive into a folder, which need not exist, and nowhere else. The given name replaces the first element of
// all names. It writes into a folder of its own and, when all of the archive is here, moves the files to where they belong: files
// replace files, and folders are merged.
func unpack(r io.Reader, dir, name string) (left leftOut, err error) {
	there, missing := filepath.Clean(dir), "."
	for {
		if _, err := os.Stat(there); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		there, missing = filepath.Dir(there), filepath.Join(filepath.Base(there), missing)
	}
	root, err := os.OpenRoot(there)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	stage := unfinished + strings.ToLower(rand.Text()[:8])
	if err := root.Mkdir(stage, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if e := root.RemoveAll(stage); err == nil {
			err = e
		}
	}()
	if left, err = unpackAll(r, root, stage, name); err != nil {
		return nil, err
	}
	if err := root.MkdirAll(missing, 0o755); err != nil {
		return nil, err
	}
	return left, merge(root, stage, missing)
}

// merge moves what is in one folder into another.
func merge(root *os.Root, from, to string) error {
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(from))
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		move := root.Rename
		if info, err := root.Lstat(target); err == nil && info.IsDir() && e.IsDir() {
			move = func(source, target string) error { return merge(root, source, target) }
		}
		if err := move(source, target); err != nil {
			return err
		}
	}
	return nil
}

// unpackAll writes an archive into a new folder of root.
func unpackAll(r io.Reader, root *os.Root, folder, name string) (left leftOut, err error) {
	root, err = root.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // the archive's padding
			return left, err
		}
		if err != nil {
			return nil, err
		}
		if strings.Contains(h.Name, "/"+unfinished) { // another copy
			continue
		}
		h.Name, err = renamed(h.Name, name)
		if err == nil && h.Typeflag == tar.TypeLink { // to another file in the archive
			h.Linkname, err = renamed(h.Linkname, name)
		}
		if err == nil {
			switch h.Typeflag {
			case tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
				err = unpackOne(root, h, in)
			default:
				left = append(left, h.Name)
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// renamed returns a file's name in an archive with another first element.
func renamed(file, first string) (string, error) {
	if !filepath.IsLocal(file) {
		return "", fmt.Errorf("the archive contains %q, which is outside of it", file)
	}
	_, rest, _ := strings.Cut(path.Clean(file), "/")
	return path.Join(first, rest), nil
}

func unpackOne(root *os.Root, h *tar.Header, body io.Reader) error {
	to, mode := h.Name, h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(to, mode|0o700)
	case tar.TypeSymlink:
		if !staysInside(to, h.Linkname) {
			return leavesError(to, h.Linkname)
		}
		for dir := path.Dir(to); dir != "."; dir = path.Dir(dir) { // a .. in the link is relative to the folder that it is really in
			if info, err := root.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return fmt.Errorf("%s is below %s, which is itself a link: fiber cp does not copy such links", to, dir)
			}
		}
		return root.Symlink(h.Linkname, to)
	case tar.TypeLink:
		info, err := root.Lstat(h.Linkname)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() { // a symbolic link could lead out of the folder from here
			return fmt.Errorf("%s is a hard link to %s, which is not a regular file: fiber cp does not copy such links", to, h.Linkname)
		}
		return root.Link(h.Linkname, to)
	}
	if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode|0o200)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, body); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
