package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is a file in a layer or, if its path ends with a slash, a directory. It belongs to root.
type entry struct {
	path string
	mode int64
	file string // where a file's content is on this machine
	text string // a file's content if file is ""
}

// layer is a tar file that is never stored: each time it is read, it is written from its files. It is a [v1.Layer] that is
// not compressed, of which [partial.UncompressedToLayer] makes one that is.
type layer struct {
	comment string // for the image's history
	entries []entry
	diffID  v1.Hash
	size    int64
}

// identify reads the tar file to find the layer's digest and size. The same entries in the same order make the same layer.
func (l *layer) identify() (err error) {
	content := reading(l.write)
	defer content.Close()
	l.diffID, l.size, err = v1.SHA256(content)
	return err
}

// write writes the tar file. A directory comes before what is in it: engines do not agree on the mode of one that does not
// come at all.
func (l *layer) write(to io.Writer) error {
	w := tar.NewWriter(to)
	written := map[string]bool{"/": true}
	for _, e := range l.entries {
		for i, c := range e.path[:len(e.path)-1] {
			if dir := e.path[:i+1]; c == '/' && !written[dir] {
				written[dir] = true
				if err := (entry{path: dir, mode: 0o755}).write(w); err != nil {
					return fmt.Errorf("put %s into a layer: %w", dir, err)
				}
			}
		}
		written[e.path] = true
		if err := e.write(w); err != nil {
			return fmt.Errorf("put %s into a layer: %w", e.path, err)
		}
	}
	return w.Close()
}

func (e entry) write(w *tar.Writer) error {
	header := &tar.Header{Name: e.path[1:], Mode: e.mode, Size: int64(len(e.text))} // the slash makes it a directory
	content := io.Reader(strings.NewReader(e.text))
	if e.file != "" {
		f, err := os.Open(e.file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file", e.file)
		}
		header.Size, content = info.Size(), f
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

func (l *layer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *layer) Digest() (v1.Hash, error)            { return l.diffID, nil }
func (l *layer) Size() (int64, error)                { return l.size, nil }
func (l *layer) Compressed() (io.ReadCloser, error)  { return l.Uncompressed() }
func (l *layer) MediaType() (types.MediaType, error) { return types.DockerLayer, nil }

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
