package image

import (
	"context"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Save writes the image, under its name, in the format of docker load. Its own layers are not compressed.
func (i *Image) Save(ctx context.Context, w io.Writer) error {
	tag, err := name.NewTag(i.Name())
	if err != nil {
		return fmt.Errorf("save the image: %w", err)
	}
	img, err := i.image(ctx, false)
	if err != nil {
		return err
	}
	if err := tarball.Write(tag, img, w); err != nil {
		return fmt.Errorf("save the image %s: %w", i.Name(), err)
	}
	return nil
}

// Archive reads a tar file with the program at an absolute path, to be unpacked in a container: it comes to [Path].
func Archive(program string) io.ReadCloser {
	l := &layer{entries: []entry{{path: Path, file: program, mode: 0o755}}}
	return reading(l.write)
}
