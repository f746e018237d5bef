//go:build unix

package image_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
)

func TestShipBySettings(t *testing.T) {
	t.Parallel()
	_, err := image.Ship(t.Context(), config.Config{}, "", here, nil)
	require.ErrorIs(t, err, image.ErrNoRegistry)

	reg, program := newRegistry(t), built(t, static)
	cfg := config.Config{Registry: reg.host(), Executable: program}
	ref, err := image.Ship(t.Context(), cfg, "", here, nil)
	require.NoError(t, err)
	want, err := newImage(t, program).Push(t.Context(), reg.host(), image.Pushing{})
	require.NoError(t, err)
	assert.Equal(t, want, ref)

	other, err := image.Ship(t.Context(), cfg, built(t, dynamic), here, nil)
	require.NoError(t, err)
	assert.NotEqual(t, ref, other, "what is named counts more than the settings")
	cfg.BaseImage = ref
	on, err := image.Ship(t.Context(), cfg, "", here, nil)
	require.NoError(t, err)
	assert.NotEqual(t, ref, on, "it is on a base")
	cfg.BaseImage = t.TempDir()
	_, err = image.Ship(t.Context(), cfg, "", here, nil)
	require.ErrorContains(t, err, "base image")
}

func TestImagesArePreparedOnce(t *testing.T) {
	t.Parallel()
	var images image.Cache[string]
	made := 0
	prepare := func() (string, error) {
		if made++; made == 1 {
			return "", errors.New("not yet")
		}
		return "image", nil
	}
	_, err := images.Do(t.Context(), "program", prepare)
	require.EqualError(t, err, "not yet")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			img, err := images.Do(t.Context(), "program", prepare)
			assert.NoError(t, err)
			assert.Equal(t, "image", img)
		})
	}
	all.Wait()
	assert.Equal(t, 2, made)
	require.NoError(t, images.Forget(t.Context()))
	_, err = images.Do(t.Context(), "program", prepare)
	require.NoError(t, err)
	assert.Equal(t, 3, made)
}
