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
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/fiber-go/fiber/internal/image"
	"github.com/fiber-go/fiber/internal/master"
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
		executable = b.cfg.Executable
	}
	b.images.preparing.Lock()
	defer b.images.preparing.Unlock()
	if img, ok := b.images.ready[executable]; ok {
		return img, nil
	}
	var img prepared
	var err error
	if b.cfg.Image != "" {
		img, err = e.existing(ctx, b.cfg.Image, executable)
	} else {
		img, err = e.made(ctx, executable, b.cfg.BaseImage)
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
	if found.Config != nil && len(found.Config.Entrypoint) > 0 {
		its, err := e.isProgram(ctx, found.ID, found.Config.Entrypoint[0])
		if err != nil {
			return prepared{}, fmt.Errorf("image %s: %w", name, err)
		}
		if its {
			return img, nil
		}
	}
	if executable == "" && (runtime.GOOS != e.os || runtime.GOARCH != e.arch) {
		return prepared{}, refusal{fmt.Errorf("image %s has no program as its entrypoint, and this one is for %s/%s; set FIBER_EXECUTABLE to a build for %s/%s",
			name, runtime.GOOS, runtime.GOARCH, e.os, e.arch)}
	}
	img.copied, img.entrypoint = self(executable), []string{copiedTo}
	return img, nil
}

// headSize is how much of a file says what it is.
const headSize = 64 << 10

// isProgram says whether an image's entrypoint is a Go program, which then
// should be this one: the handshake compares the builds. A shell, or a script,
// is none, and the executable is put beside it.
func (e *engine) isProgram(ctx context.Context, image, path string) (bool, error) {
	if !strings.HasPrefix(path, "/") {
		return false, nil
	}
	probe, err := e.ContainerCreate(ctx, &container.Config{Image: image, Labels: map[string]string{labelMaster: master.Name()}}, nil, nil, nil, "")
	if err != nil {
		return false, err
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
		defer cancel()
		e.remove(undo, probe.ID)
	}()
	for range 8 { // links
		archive, about, err := e.CopyFromContainer(ctx, probe.ID, path)
		if errdefs.IsNotFound(err) {
			return false, refusal{fmt.Errorf("its entrypoint %s is not in it", path)}
		}
		if err != nil {
			return false, err
		}
		if about.Mode&os.ModeSymlink != 0 {
			archive.Close()
			path = about.LinkTarget
			continue
		}
		defer archive.Close()
		files := tar.NewReader(archive)
		if _, err := files.Next(); err != nil {
			return false, err
		}
		head, err := io.ReadAll(io.LimitReader(files, headSize))
		// The note that the Go linker leaves: its type, 4, and its name.
		return bytes.HasPrefix(head, []byte("\x7fELF")) && bytes.Contains(head, []byte("\x04\x00\x00\x00Go\x00\x00")), err
	}
	return false, nil
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

// touch has the engine note that an image is used, if it has it. What notes the
// time is giving the image its name; loading it does so only in containerd's
// image store, which notes it once.
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

// imagesKept is how many builds of a program the engine keeps, so that some
// programs of one name can take turns.
const imagesKept = 4

// forgetOld removes the images of those of a program's builds that were not used
// for longest. What a container uses stays, and so does latest, whose time is no
// later than the others' when the engine's clock was put back.
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

// forgetImages has images prepared once more: somebody has removed one.
func (b *Backend) forgetImages() {
	b.images.preparing.Lock()
	defer b.images.preparing.Unlock()
	clear(b.images.ready)
}
