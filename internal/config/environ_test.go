package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
)

func TestUnknownVariablesAreWarnedOf(t *testing.T) {
	t.Parallel()
	_, warnings, err := config.Load(config.Config{}, sources(t, "",
		"FIBER_PORT=tcp://10.0.0.1:80", "FIBER_LOGLEVEL=debug", "FIBER_log_file=x", "FIBER_EMPTY=", "FIBERGLASS=1",
		"FIBER_BOOTSTRAP=secret", "FIBER_TEST_HELPER=1", "FIBER_LOG_LEVEL=warn", "FIBER_PORT=80", "nonsense",
	))
	require.NoError(t, err)
	assert.Equal(t, []string{
		"environment variable FIBER_LOGLEVEL is not a setting of Fiber and is ignored; did you mean FIBER_LOG_LEVEL?",
		"environment variable FIBER_PORT is not a setting of Fiber and is ignored",
		"environment variable FIBER_log_file is not a setting of Fiber and is ignored; did you mean FIBER_LOG_FILE?",
	}, warnings)
}

func TestWarningsComeWithErrorsToo(t *testing.T) {
	t.Parallel()
	_, warnings, err := config.Load(config.Config{}, sources(t, "", "FIBER_LOG_LEVEL=loud", "FIBER_DEBUG=1"))
	require.Error(t, err)
	assert.Len(t, warnings, 1)
}

func TestTheLastOfTwoVariablesCounts(t *testing.T) {
	t.Parallel()
	resolved := load(t, config.Config{}, sources(t, "", "FIBER_CANCEL_GRACE=1s", "FIBER_CANCEL_GRACE= 2s "))
	assert.Equal(t, 2*time.Second, resolved.CancelGrace)
}
