// Package image makes an executable into a container image, without a Dockerfile and without an engine.
//
// The image holds the executable at [Path], on a base image or on nothing. Without a base it also holds what a program
// expects of a system: the loader and the libraries that it names, certificates, a user, a temporary directory. The
// same input produces the same image, and its tag is a hash of the input: if the tag exists, the image need not be made.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/fiber-go/fiber/internal/names"
)

const (
	// Path is where the executable is in every image.
	Path = "/fiber/program"
	// Label is a label of every image, with the program's name.
	Label = "fiber.program"
	// User is the unprivileged user and group that an image runs as, unless its base sets another user.
	User = "65532:65532"

	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Options say what an image is made from. Only Platform is required.
type Options struct {
	// Executable is the path of the program. Defaults to the running one, even when its file was replaced or deleted.
	Executable string
	// Platform is what the image has to run on. The executable must be built for it.
	Platform Platform
	// Base is the image that the executable is put on. Defaults to nothing.
	Base *Base
}

// Image is an image that is named after its content, and made when it is saved or pushed. Several goroutines may use it.
type Image struct {
	program  string
	platform Platform
	base     *Base
	layers   []*layer
	tag      string
}

// New reads the executable and the files that go with it, to find the image's name, and has the program's loader list its
// libraries. It takes as long as reading these files, and writes nothing. It fails if the executable is for another
// platform, or a library is missing.
func New(o Options) (*Image, error) {
	exe, err := openExecutable(o.Executable)
	if err != nil {
		return nil, err
	}
	defer exe.close()
	if err := exe.check(o.Platform); err != nil {
		return nil, err
	}
	img := &Image{program: names.Program(strings.TrimSuffix(filepath.Base(exe.path), ".exe")), platform: o.Platform, base: o.Base}
	if o.Base == nil {
		entries, err := exe.system()
		if err != nil {
			return nil, err
		}
		img.layers = append(img.layers, &layer{comment: "the system", entries: entries})
	}
	program := entry{path: Path, file: exe.file, mode: 0o755}
	img.layers = append(img.layers, &layer{comment: "the program", entries: []entry{program}})
	for _, l := range img.layers {
		if err := l.identify(); err != nil {
			return nil, fmt.Errorf("make the image of %s: %w", img.program, err)
		}
	}
	img.tag = img.hash()
	return img, nil
}

// Name returns the image's name and tag, such as fiber-pi:0b5d…, which depend only on the image's content.
func (i *Image) Name() string { return i.Repository() + ":" + i.tag }

// Repository returns the image's name without the tag, which is the same for all builds of a program.
func (i *Image) Repository() string { return "fiber-" + i.program }

// image makes the image. Its own layers are compressed for the network, or uncompressed for an engine on this machine.
func (i *Image) image(ctx context.Context, compressed bool) (v1.Image, error) {
	var base v1.Image = empty.Image
	if i.base != nil {
		var err error
		if base, err = i.base.Open(ctx); err != nil {
			return nil, err
		}
	}
	config, err := i.config(base)
	if err != nil {
		return nil, err
	}
	kind, err := base.MediaType()
	if err != nil {
		return nil, fmt.Errorf("read the base image: %w", err)
	}
	img, err := mutate.ConfigFile(base, config)
	if err != nil {
		return nil, fmt.Errorf("configure the image of %s: %w", i.program, err)
	}
	adds := make([]mutate.Addendum, len(i.layers))
	for n, l := range i.layers {
		adds[n] = mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "fiber", Comment: l.comment}}
		if compressed {
			adds[n].Layer, _ = partial.UncompressedToLayer(l) // its error is always nil
		}
		if kind == types.OCIManifestSchema1 {
			adds[n].MediaType = types.OCILayer
		}
	}
	if img, err = mutate.Append(img, adds...); err != nil {
		return nil, fmt.Errorf("make the image of %s: %w", i.program, err)
	}
	return img, nil
}

// epoch is the creation time of all images.
var epoch = time.Unix(0, 0).UTC()

// config returns the base's configuration with the executable as the entrypoint.
func (i *Image) config(base v1.Image) (*v1.ConfigFile, error) {
	have, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the base image: %w", err)
	}
	c := have.DeepCopy()
	if i.base == nil {
		c.OS, c.Architecture = i.platform.OS, i.platform.Arch
		c.Config.Env = []string{"PATH=" + searchPath}
		c.Config.WorkingDir = "/tmp"
	} else if on := (Platform{c.OS, c.Architecture}); on != i.platform {
		return nil, fmt.Errorf("the base image is for %s, but the program has to run on %s", on, i.platform)
	}
	c.Created = v1.Time{Time: epoch}
	c.Config.Entrypoint, c.Config.Cmd = []string{Path}, nil
	if c.Config.User == "" {
		c.Config.User = User
	}
	if c.Config.WorkingDir == "" {
		c.Config.WorkingDir = "/"
	}
	if c.Config.Labels == nil {
		c.Config.Labels = map[string]string{}
	}
	c.Config.Labels[Label] = i.program
	return c, nil
}

// hash returns a hash of everything that determines the image, with the version of the way this package makes images.
func (i *Image) hash() string {
	const version = 3
	sum := sha256.New()
	fmt.Fprintln(sum, version, i.program, i.platform)
	if i.base != nil {
		fmt.Fprintln(sum, i.base.ID)
	}
	for _, l := range i.layers {
		fmt.Fprintln(sum, l.diffID)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
