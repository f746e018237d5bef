package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
)

// prepared is an image that containers can be made from.
type prepared struct {
	name       string
	entrypoint []string // nil for the image's own
	program    string   // the executable to copy into the container, "" for none
}

// image returns the image for an executable, "" for the running one: the image
// that the user names, or one made for it. Each is prepared once.
func (b *Backend) image(ctx context.Context, e *engine, executable string) (prepared, error) {
	executable = cmp.Or(executable, b.cfg.Executable)
	return b.images.Do(ctx, executable, func() (prepared, error) {
		if b.cfg.Image != "" {
			return e.existing(ctx, b.cfg.Image, executable)
		}
		return e.made(ctx, b.cfg, executable)
	})
}

// existing prepares an image that the user names, which is pulled if the engine
// does not have it. The executable is copied into its containers, whatever the
// image contains. If it cannot run there, the image's own entrypoint has to be
// the program.
func (e *engine) existing(ctx context.Context, name, executable string) (prepared, error) {
	found, err := e.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		if err := e.pull(ctx, name); err != nil {
			return prepared{}, lives.Refuse(fmt.Errorf("image %s: %w", name, err))
		}
		found, err = e.ImageInspect(ctx, name)
	}
	if err != nil {
		return prepared{}, fmt.Errorf("image %s: %w", name, err)
	}
	if p := (image.Platform{OS: found.Os, Arch: found.Architecture}); p != e.platform {
		return prepared{}, lives.Refuse(fmt.Errorf("image %s is for %s, but the engine runs %s", name, p, e.platform))
	}
	// A file that is no program is a script, which runs wherever its interpreter is.
	if p, err := image.PlatformOf(executable); err == nil && p != e.platform {
		if found.Config == nil || len(found.Config.Entrypoint) == 0 {
			return prepared{}, lives.Refuse(fmt.Errorf("image %s has no entrypoint, and this program is for %s; set FIBER_EXECUTABLE to a build for %s", name, p, e.platform))
		}
		return prepared{name: found.ID}, nil
	}
	return prepared{name: found.ID, entrypoint: []string{image.Path}, program: cmp.Or(executable, "/proc/self/exe")}, nil
}

func (e *engine) pull(ctx context.Context, name string) error {
	progress, err := e.ImagePull(ctx, name, dockerimage.PullOptions{})
	if err != nil {
		return err
	}
	defer progress.Close()
	return followed(progress)
}

// followed reads the engine's reports of progress, to their end or to an error among them.
func followed(progress io.Reader) error {
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
	}
}

// made prepares the image of an executable, and loads it into the engine unless
// it is there.
func (e *engine) made(ctx context.Context, cfg config.Config, executable string) (prepared, error) {
	img, err := image.Of(ctx, cfg, executable, e.platform)
	if err != nil {
		return prepared{}, lives.Refuse(err)
	}
	_, err = e.ImageInspect(ctx, img.Name())
	if errdefs.IsNotFound(err) {
		if err = e.load(ctx, img); err == nil {
			e.forgetOld(ctx, img)
		}
	}
	if err != nil {
		return prepared{}, fmt.Errorf("giving the engine the image %s: %w", img.Name(), err)
	}
	return prepared{name: img.Name()}, nil
}

func (e *engine) load(ctx context.Context, img *image.Image) error {
	archive, into := io.Pipe()
	go func() { into.CloseWithError(img.Save(ctx, into)) }()
	defer archive.Close()
	loaded, err := e.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer loaded.Body.Close()
	return followed(loaded.Body)
}

// forgetOld removes the images of a program's other builds, except those in use
// by a container. If another run still needs one, it loads it again.
func (e *engine) forgetOld(ctx context.Context, latest *image.Image) {
	ours := filters.NewArgs(filters.Arg("reference", latest.Repository()), filters.Arg("label", image.Label))
	all, _ := e.ImageList(ctx, dockerimage.ListOptions{Filters: ours}) // what is left over is removed the next time
	for _, one := range all {
		for _, tag := range one.RepoTags {
			if tag != latest.Name() {
				e.ImageRemove(ctx, tag, dockerimage.RemoveOptions{})
			}
		}
	}
}
