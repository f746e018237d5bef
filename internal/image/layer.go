package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
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
	text string // a file's content, where file is ""
	link string // where a link leads
}

// layer is a tar file that is never stored: it is read from the files in it, each time. It is a [v1.Layer].
type layer struct {
	comment string // for the image's history
	parts   []part
	diffID  v1.Hash
	size    int64
	oci     bool
}

// part is some bytes of the tar file: of bytes, then of a file.
type part struct {
	bytes []byte
	file  string
	size  int64 // of the file
}

const blockSize = 512

// newLayer makes a layer of entries, in any order, and of the directories above them. A path that comes twice counts
// once.
func newLayer(comment string, entries []entry) (*layer, error) {
	l := &layer{comment: comment}
	for _, e := range tree(entries) {
		if err := l.append(e); err != nil {
			return nil, err
		}
	}
	l.parts = append(l.parts, part{bytes: make([]byte, 2*blockSize)})
	sum := sha256.New()
	r := &layerReader{rest: l.parts, sum: sum}
	defer r.Close()
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return nil, err
	}
	l.size = n
	l.diffID = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	return l, nil
}

// tree sorts entries, so that each directory comes before what is in it, and adds those that are missing.
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

// append adds an entry's header, and its content: the size is the file's at this moment.
func (l *layer) append(e entry) error {
	h := &tar.Header{Name: strings.TrimPrefix(e.path, "/"), Mode: int64(e.mode.Perm())}
	p := part{file: e.file}
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
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file", e.file)
		}
		h.Typeflag, h.Size, p.size = tar.TypeReg, info.Size(), info.Size()
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(e.text))
	}
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(h); err != nil {
		return fmt.Errorf("put %s into a layer: %w", e.path, err)
	}
	p.bytes = append(header.Bytes(), e.text...)
	l.parts = append(l.parts, p, part{bytes: make([]byte, -h.Size&(blockSize-1))})
	return nil
}

// as is the layer, its media type, and how it is stored, as an image wants it.
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

// Uncompressed reads the tar file. A file that has changed meanwhile is an error at the end of it.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return &layerReader{rest: l.parts, sum: sha256.New(), want: l.diffID.Hex}, nil
}

// gzipped is a layer for a registry.
type gzipped struct{ *layer }

func (g gzipped) MediaType() (types.MediaType, error) {
	if g.oci {
		return types.OCILayer, nil
	}
	return types.DockerLayer, nil
}

// layerReader reads one part after another.
type layerReader struct {
	rest []part
	head []byte   // what is left of a part's bytes
	file *os.File // the file behind them
	left int64    // what is left of it
	sum  hash.Hash
	want string // what sum must be in the end, "" for anything
}

func (r *layerReader) Read(p []byte) (int, error) {
	for {
		n, err := r.read(p)
		r.sum.Write(p[:n]) // a hash never fails
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if len(r.rest) == 0 {
			return 0, r.end()
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
}

// read reads from the part that is open, nothing at its end.
func (r *layerReader) read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.left == 0 {
		return 0, nil
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("%s became shorter while it was read", r.file.Name())
	}
	return 0, err
}

func (r *layerReader) next() error {
	p := r.rest[0]
	r.rest = r.rest[1:]
	r.head, r.left = p.bytes, p.size
	if err := r.Close(); err != nil || p.file == "" {
		return err
	}
	var err error
	r.file, err = os.Open(p.file)
	return err
}

func (r *layerReader) end() error {
	if got := hex.EncodeToString(r.sum.Sum(nil)); r.want != "" && got != r.want {
		return errors.New("a file of the image has changed since the program started to use it: start it again")
	}
	return io.EOF
}

func (r *layerReader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}
