package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fiber-go/fiber/internal/config"
)

// In the Python original FIBER_DEBUG=false was true: the text was never parsed.
func TestBooleanWords(t *testing.T) {
	t.Parallel()
	for want, words := range map[config.Switch]string{
		config.On:  "true yes on 1 TRUE Yes oN",
		config.Off: "false no off 0 FALSE No oFF",
	} {
		for word := range strings.FieldsSeq(words) {
			resolved := load(t, config.Config{}, sources(t, "allow_other_build = "+word, "FIBER_FORWARD_LOGS="+word))
			assert.Equal(t, want, resolved.ForwardLogs, word)
			assert.Equal(t, want, resolved.AllowOtherBuild, word)
			assert.Equal(t, want == config.On, resolved.ForwardLogs.Enabled(), word)
		}
	}
}

func TestSwitchString(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "on off unset invalid", strings.Join([]string{
		config.On.String(), config.Off.String(), config.Unset.String(), config.Switch(5).String(),
	}, " "))
}
