package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fiber-go/fiber/internal/config"
)

func TestPortable(t *testing.T) {
	t.Parallel()
	environ := []string{"HF_HOME=/x", "HF_TOKEN=t", "SEED=1", "AWS_SECRET=s", "PATH=/bin", "XDG_CACHE_HOME=/c", "FIBER_IMAGE=i",
		"=C:=C:\\", "TZ=UTC", "LC_ALL=C"}
	for _, test := range []struct{ patterns, goes, stays []string }{
		{nil, []string{"TZ=UTC", "LC_ALL=C"}, []string{"AWS_SECRET", "HF_HOME", "HF_TOKEN", "SEED"}},
		{[]string{"SEED", "HF_*", "RATE=0.1", "NOT_SET"},
			[]string{"HF_HOME=/x", "HF_TOKEN=t", "SEED=1", "TZ=UTC", "LC_ALL=C", "RATE=0.1"}, []string{"AWS_SECRET"}},
		{[]string{"*"}, []string{"HF_HOME=/x", "HF_TOKEN=t", "SEED=1", "AWS_SECRET=s", "TZ=UTC", "LC_ALL=C"}, nil},
		{[]string{"PATH", "XDG_*", config.Own}, []string{"PATH=/bin", "XDG_CACHE_HOME=/c", "FIBER_IMAGE=i", "TZ=UTC", "LC_ALL=C"},
			[]string{"AWS_SECRET", "HF_HOME", "HF_TOKEN", "SEED"}},
		{[]string{"SEED=2"}, []string{"TZ=UTC", "LC_ALL=C", "SEED=2"}, []string{"AWS_SECRET", "HF_HOME", "HF_TOKEN"}},
	} {
		goes, stays := config.Portable(environ, test.patterns)
		assert.Equal(t, test.goes, goes, test.patterns)
		assert.Equal(t, test.stays, stays, test.patterns)
	}
}
