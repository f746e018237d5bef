package names_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fiber-go/fiber/internal/names"
)

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Long", 100)
	for text, want := range map[string]struct{ program, unique, label string }{
		"pi":             {"pi", "fiber-pi-", "pi"},
		"PoolWorker 1/ä": {"poolworker-1", "fiber-poolworker-1-", "PoolWorker-1"},
		"a__b..c--d":     {"a-b-c-d", "fiber-a-b-c-d-", "a__b..c--d"},
		"-.x.-":          {"x", "fiber-x-", "x"},
		"π":              {"program", "fiber-", ""},
		"":               {"program", "fiber-", ""},
		long:             {strings.ToLower(long[:40]), "fiber-" + strings.ToLower(long[:40]) + "-", long[:63]},
	} {
		assert.Equal(t, want.program, names.Program(text))
		assert.Equal(t, want.label, names.Label(text))
		unique := names.Unique(text, 10)
		assert.Regexp(t, "^"+want.unique+"[a-z0-9]{10}$", unique)
		assert.LessOrEqual(t, len(unique), 63)
		assert.NotEqual(t, unique, names.Unique(text, 10))
	}
}
