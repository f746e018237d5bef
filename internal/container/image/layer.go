package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is a file, a directory or a symbolic link in a layer. All belong to root.
type entry struct {
	path string
	mode os.FileMode
	file string // where a file's content is on this machine
	text string // a file's content if file is ""
	link string // the target of a link
}

// layer is a tar file that is never stored: each time it is read, it is written from its files. It is a [v1.Layer].
type layer struct {
	comment string // for the image's history
	items   []item
	diffID  v1.Hash
	size    int64
	oci     bool
}

// item is an entry with its header, which has the size that a file had when the layer was made.
type item struct {
	entry
	header *tar.Header
}

// newLayer makes a layer of entries, in any order, and of the directories above them. A path may come more than once; its
// last entry counts.
func newLayer(comment string, entries []entry) (*layer, error) {
	l := &layer{comment: comment}
	for _, e := range tree(entries) {
		header, err := e.header()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, item{e, header})
	}
	content := reading(l.write)
	defer content.Close()
	var err error
	l.diffID, l.size, err = v1.SHA256(content)
	return l, err
}

// tree sorts entries so that each directory comes before its content, and adds missing directories.
func tree(entries []entry) []entry {
	byPath := map[string]entry{}
	for _, e := range entries {
		byPath[e.path] = e
		for dir := path.Dir(e.path); dir != "/"; dir = path.Dir(dir) {
			if _, ok := byPath[dir]; !ok {
				byPath[dir] = entry{path: dir, mode: os.ModeDir | 0o755}
			}
		}
	}
	all := make([]entry, 0, len(byPath))
	for _, e := range byPath {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return all
}

// header returns the entry's header, with the present size of its file.
func (e entry) header() (*tar.Header, error) {
	h := &tar.Header{Name: strings.TrimPrefix(e.path, "/"), Mode: int64(e.mode.Perm()), Typeflag: tar.TypeReg}
	switch {
	case e.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	case e.mode.IsDir():
		h.Typeflag = tar.TypeDir
		h.Name += "/"
		if e.mode&os.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
	case e.file != "":
		info, err := os.Stat(e.file)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", e.file)
		}
		h.Size = info.Size()
	default:
		h.Size = int64(len(e.text))
	}
	return h, nil
}

// write writes the tar file.
func (l *layer) write(w io.Writer) error {
	t := tar.NewWriter(w)
	for _, i := range l.items {
		if err := t.WriteHeader(i.header); err != nil {
			return fmt.Errorf("put %s into a layer: %w", i.path, err)
		}
		if err := i.copy(t); err != nil {
			return err
		}
	}
	return t.Close()
}

// copy writes the content of a file; other entries have none.
func (i item) copy(w io.Writer) error {
	if i.file == "" {
		_, err := io.WriteString(w, i.text)
		return err
	}
	f, err := os.Open(i.file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, i.header.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s became shorter while it was read", i.file)
	}
	return err
}

// as returns the layer as an image stores it, compressed or not, with OCI's or docker's media type.
func (l *layer) as(compressed, oci bool) v1.Layer {
	c := *l
	c.oci = oci
	if !compressed {
		return &c
	}
	z, _ := partial.UncompressedToLayer(gzipped{&c}) // it has no error to return
	return z
}

func (l *layer) Digest() (v1.Hash, error)           { return l.diffID, nil }
func (l *layer) DiffID() (v1.Hash, error)           { return l.diffID, nil }
func (l *layer) Size() (int64, error)               { return l.size, nil }
func (l *layer) Compressed() (io.ReadCloser, error) { return l.Uncompressed() }
func (l *layer) MediaType() (types.MediaType, error) {
	if l.oci {
		return types.OCIUncompressedLayer, nil
	}
	return types.DockerUncompressedLayer, nil
}

// Uncompressed reads the tar file. If a file has changed since the layer was made, reading ends with an error.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return reading(func(w io.Writer) error {
		sum := sha256.New()
		if err := l.write(io.MultiWriter(w, sum)); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != l.diffID.Hex {
			return errors.New("a file of the image has changed since the program started to use it: start it again")
		}
		return nil
	}), nil
}

// reading returns a reader of what write writes.
func reading(write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	return r
}

// gzipped is a layer for a registry.
type gzipped struct{ *layer }

func (g gzipped) MediaType() (types.MediaType, error) {
	if g.oci {
		return types.OCILayer, nil
	}
	return types.DockerLayer, nil
}
