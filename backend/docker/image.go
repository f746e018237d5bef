package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/errdefs"

	"github.com/fiber-go/fiber/internal/image"
)

// prepared is an image that containers can be made of.
type prepared struct {
	name       string
	entrypoint []string // nil for the image's own
	copied     string   // the executable that is put into the container, "" for none
}

// images are those that this process has prepared.
type images struct {
	preparing sync.Mutex // held while one is made, pulled or looked for
	ready     map[string]prepared
}

// image gives the image for an executable, "" for the running one. It is
// prepared once.
func (b *Backend) image(ctx context.Context, e *engine, executable string) (prepared, error) {
	if executable == "" {
		executable = b.opts.Executable
	}
	b.images.preparing.Lock()
	defer b.images.preparing.Unlock()
	if img, ok := b.images.ready[executable]; ok {
		return img, nil
	}
	var img prepared
	var err error
	if b.opts.Image != "" {
		img, err = e.existing(ctx, b.opts.Image, executable)
	} else {
		img, err = e.made(ctx, executable, b.opts.BaseImage)
	}
	if err != nil {
		return prepared{}, err
	}
	if b.images.ready == nil {
		b.images.ready = map[string]prepared{}
	}
	b.images.ready[executable] = img
	return img, nil
}

// firstWord bounds the wait for the first word on an image that is pulled.
const firstWord = 8 * time.Second

// existing prepares an image that the user names: it is pulled if the engine
// does not have it.
func (e *engine) existing(ctx context.Context, name, executable string) (prepared, error) {
	found, err := e.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		if err := e.pull(ctx, name); err != nil {
			return prepared{}, refusal{fmt.Errorf("image %s: %w", name, err)}
		}
		found, err = e.ImageInspect(ctx, name)
	}
	if err != nil {
		return prepared{}, fmt.Errorf("image %s: %w", name, err)
	}
	if found.Architecture != e.arch || found.Os != e.os {
		return prepared{}, refusal{fmt.Errorf("image %s is for %s/%s, and the engine runs %s/%s", name, found.Os, found.Architecture, e.os, e.arch)}
	}
	img := prepared{name: found.ID}
	if found.Config == nil || len(found.Config.Entrypoint) == 0 {
		img.copied, img.entrypoint = self(executable), []string{copiedTo}
	}
	return img, nil
}

func (e *engine) pull(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(firstWord, func() {
		cancel(fmt.Errorf("the engine does not have it, and nothing was heard of its pull for %v", firstWord))
	})
	defer silent.Stop()
	progress, err := e.ImagePull(ctx, name, dockerimage.PullOptions{})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer progress.Close()
	return followed(progress, func() { silent.Stop() })
}

// followed reads what the engine says of its progress to the end, or to an
// error in it.
func followed(progress io.Reader, heard func()) error {
	for words := json.NewDecoder(progress); ; {
		var word struct {
			Error string `json:"error"`
		}
		switch err := words.Decode(&word); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case word.Error != "":
			return errors.New(word.Error)
		}
		heard()
	}
}

// self is the path of an executable, "" for the running one.
func self(executable string) string {
	if executable == "" {
		return "/proc/self/exe"
	}
	return executable
}

// copiedTo is where an executable is put that an image does not have.
const copiedTo = "/fiber-program"

// copyIn puts a file of this machine into a container.
func copyIn(ctx context.Context, e *engine, id, path string) error {
	archive, err := archived(path, copiedTo[1:])
	if err != nil {
		return err
	}
	return e.CopyToContainer(ctx, id, "/", archive, container.CopyToContainerOptions{})
}

func archived(path, name string) (io.Reader, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body))})
	w.Write(body)
	return &buf, w.Close()
}

// made prepares the image of an executable, which the engine is given unless
// it has it.
func (e *engine) made(ctx context.Context, executable, base string) (prepared, error) {
	opts := image.Options{Executable: executable, Platform: image.Platform{OS: e.os, Arch: e.arch}}
	if base != "" {
		on, err := image.FindBase(ctx, base, opts.Platform)
		if err != nil {
			return prepared{}, refusal{err}
		}
		opts.Base = on
	}
	img, err := image.New(opts)
	if err != nil {
		return prepared{}, refusal{err}
	}
	if _, err := e.ImageInspect(ctx, img.Name()); err == nil {
		return prepared{name: img.Name()}, nil
	} else if !errdefs.IsNotFound(err) {
		return prepared{}, err
	}
	archive, into := io.Pipe()
	go func() { into.CloseWithError(img.Save(ctx, into)) }()
	defer archive.Close()
	loaded, err := e.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return prepared{}, fmt.Errorf("giving the engine the image %s: %w", img.Name(), err)
	}
	defer loaded.Body.Close()
	if err := followed(loaded.Body, func() {}); err != nil {
		return prepared{}, fmt.Errorf("giving the engine the image %s: %w", img.Name(), err)
	}
	return prepared{name: img.Name()}, nil
}
