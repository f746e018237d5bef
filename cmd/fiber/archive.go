package main

import (
	"archive/tar"
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

// pack writes a file, or a folder with its content, as an archive in which it has the given name and owner. Links stay
// links; a link that leads out of the folder is an error.
func pack(w io.Writer, from, name string, uid, gid int) error {
	from, err := filepath.EvalSymlinks(from) // the user means what a link leads to
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	err = filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		switch info.Mode().Type() {
		case 0, fs.ModeDir:
		case fs.ModeSymlink:
			if link, err = os.Readlink(file); err != nil {
				return err
			}
		default:
			return nil // sockets and devices are not copied
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		h.Name = path.Join(name, filepath.ToSlash(rel))
		if link != "" && !staysInside(h.Name, link) {
			return leavesError(h.Name, link)
		}
		h.Uid, h.Gid, h.Uname, h.Gname = uid, gid, "", ""
		if info.Mode().IsRegular() {
			h.Mode &= int64(fs.ModePerm) // the new owner has not made it a set-user-ID program
		}
		// Busybox finds the size of a file of more than 8 GiB only in GNU's format, which then can't hold these times.
		h.Format, h.AccessTime, h.ChangeTime = tar.FormatGNU, time.Time{}, time.Time{}
		if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		return send(out, file, info.Size())
	})
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

// unpack writes an archive into a folder, and nowhere else. The given name replaces the first element of all names.
func unpack(r io.Reader, dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // the archive's padding
			return err
		}
		if err != nil {
			return err
		}
		h.Name, err = renamed(h.Name, name)
		if err == nil && h.Typeflag == tar.TypeLink { // to another file in the archive
			h.Linkname, err = renamed(h.Linkname, name)
		}
		if err == nil {
			err = unpackOne(root, h, in)
		}
		if err != nil {
			return err
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
		_ = root.Remove(to) // an older file or link
		return root.Symlink(h.Linkname, to)
	case tar.TypeLink:
		info, err := root.Lstat(h.Linkname)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() { // a symbolic link could lead out of the folder from here
			return fmt.Errorf("%s is a hard link to %s, which is not a regular file: fiber cp does not copy such links", to, h.Linkname)
		}
		_ = root.Remove(to) // an older file or link
		return root.Link(h.Linkname, to)
	case tar.TypeReg:
	default:
		return nil
	}
	if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	// An older file may be a hard link, and writing into it would change the file's other names as well.
	if info, err := root.Lstat(to); err == nil && info.Mode().Type()&^fs.ModeSymlink == 0 {
		if err := root.Remove(to); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode|0o200)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, body); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
