package docker

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
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
	copied     string   // the executable to copy into the container, "" for none
}

// image returns the image for an executable, "" for the running one: the image
// that the user names, or one made for it. Each is prepared once.
func (b *Backend) image(ctx context.Context, e *engine, executable string) (prepared, error) {
	executable = cmp.Or(executable, b.cfg.Executable)
	return b.images.Do(executable, func() (prepared, error) {
		if b.cfg.Image != "" {
			return e.existing(ctx, b.cfg.Image, executable)
		}
		return e.made(ctx, b.cfg, executable)
	})
}

// firstWord bounds the wait for the first progress of a pull.
const firstWord = 8 * time.Second

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
	return prepared{name: found.ID, entrypoint: []string{copiedTo}, copied: cmp.Or(executable, "/proc/self/exe")}, nil
}

func (e *engine) pull(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(firstWord, func() {
		cancel(fmt.Errorf("the engine does not have it, and the pull made no progress for %v", firstWord))
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

// followed reads the engine's reports of progress, to their end or to an error
// among them.
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

// copiedTo is where an executable is copied to in containers of a user's image.
const copiedTo = "/fiber-program"

// copyIn copies a program of this machine into a container.
func copyIn(ctx context.Context, e *engine, id, path string) error {
	archive, into := io.Pipe()
	go func() { into.CloseWithError(archived(path, into)) }()
	defer archive.Close()
	return e.CopyToContainer(ctx, id, "/", archive, container.CopyToContainerOptions{})
}

// archived writes a tar file that contains a program at copiedTo.
func archived(path string, to io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	if err := w.WriteHeader(&tar.Header{Name: copiedTo[1:], Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(w, f); err != nil {
		return err
	}
	return w.Close()
}

// made prepares the image of an executable, and loads it into the engine unless
// it is there.
func (e *engine) made(ctx context.Context, cfg config.Config, executable string) (prepared, error) {
	img, err := image.Of(ctx, cfg, executable, e.platform)
	if err != nil {
		return prepared{}, lives.Refuse(err)
	}
	err = e.touch(ctx, img.Name())
	for tries := 0; errdefs.IsNotFound(err) && tries < 3; tries++ {
		if err := e.load(ctx, img); err != nil {
			return prepared{}, fmt.Errorf("giving the engine the image %s: %w", img.Name(), err)
		}
		if err = e.touch(ctx, img.Name()); err == nil {
			e.forgetOld(ctx, img)
		}
	}
	return prepared{name: img.Name()}, err
}

// touch makes the engine note that an image is used; if the engine does not have
// the image, that is the error. Tagging the image with its own name notes the
// time. Loading does so only in containerd's image store, and only once.
func (e *engine) touch(ctx context.Context, name string) error { return e.ImageTag(ctx, name, name) }

func (e *engine) load(ctx context.Context, img *image.Image) error {
	archive, into := io.Pipe()
	go func() { into.CloseWithError(img.Save(ctx, into)) }()
	defer archive.Close()
	loaded, err := e.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer loaded.Body.Close()
	return followed(loaded.Body, func() {})
}

// imagesKept is how many builds of a program the engine keeps, so that several
// programs of one name can take turns.
const imagesKept = 4

// forgetOld removes the images of a program's least recently used builds. Images
// in use by a container stay. So does latest, even if the engine's clock was put
// back and others look more recent.
func (e *engine) forgetOld(ctx context.Context, latest *image.Image) {
	all, err := e.ImageList(ctx, dockerimage.ListOptions{Filters: filters.NewArgs(filters.Arg("reference", latest.Repository()), filters.Arg("label", image.Label))})
	all = slices.DeleteFunc(all, func(s dockerimage.Summary) bool { return slices.Contains(s.RepoTags, latest.Name()) })
	if err != nil || len(all) < imagesKept {
		return
	}
	used := map[string]time.Time{}
	for _, old := range all {
		if details, err := e.ImageInspect(ctx, old.ID); err == nil {
			used[old.ID] = details.Metadata.LastTagTime
		}
	}
	slices.SortFunc(all, func(a, b dockerimage.Summary) int { return used[b.ID].Compare(used[a.ID]) })
	for _, old := range all[imagesKept-1:] {
		for _, tag := range old.RepoTags {
			e.ImageRemove(ctx, tag, dockerimage.RemoveOptions{})
		}
	}
}
