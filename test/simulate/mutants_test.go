package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutantsKey says which mutants TestMutants looks for: all, or those whose names match. Otherwise it sees only that they apply.
const mutantsKey = "MUTANTS"

// seedsOfMutant are enough to find each of them.
const seedsOfMutant = "500"

var changed = regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`)

// Each defect in internal/sim/mutants is found by one of the first seeds.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	patches, err := filepath.Glob(filepath.Join(root, "internal/sim/mutants/*.patch"))
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	wanted := os.Getenv(mutantsKey)
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		t.Run(name, func(t *testing.T) {
			overlay := mutate(t, root, patch)
			if wanted == "" || wanted != "all" && !regexp.MustCompile(wanted).MatchString(name) {
				return
			}
			program := filepath.Join(t.TempDir(), "mutant.test")
			build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, ".")
			out, err := build.CombinedOutput()
			require.NoError(t, err, string(out))
			simulate := func(settings ...string) []byte {
				run := exec.Command(program, "-test.run=^TestSimulate$", "-test.v")
				run.Env = append(environ(), settings...)
				out, _ := run.CombinedOutput() // what it says counts
				return out
			}
			out = simulate(seedsKey+"="+seedsOfMutant, firstKey+"=yes")
			found := foundBy.FindSubmatch(out)
			require.NotNil(t, found, "not found:\n%s", out)
			again := simulate(seedKey+"="+string(found[1]), timesKey+"=10")
			plan := filepath.Join(t.TempDir(), "plan")
			require.NoError(t, os.WriteFile(plan, leftPlan.Find(again), 0o644))
			replayed := simulate(replayKey+"="+plan, timesKey+"=10", firstKey+"=yes")
			if kept := filepath.Join("testdata", name+".json"); exists(kept) && !bytes.Contains(simulate(replayKey+"="+kept, timesKey+"=10", firstKey+"=yes"), []byte("FAIL")) {
				t.Errorf("%s does not find it any more: the work has changed. This does:\n%s", kept, leftPlan.Find(again))
			}
			t.Logf("%s; its seed: %s; its plan: %s", found[0], fails.Find(again), fails.Find(replayed))
		})
	}
}

var (
	foundBy  = regexp.MustCompile(`after \d+ runs: seed (\d+): .*`)
	fails    = regexp.MustCompile(`\d+ of \d+ times it fails`)
	leftPlan = regexp.MustCompile(`(?m)^ *\{"Seed":.*$`)
)

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// mutate makes an overlay of the files that a patch changes, for the go command.
func mutate(t *testing.T, root, patch string) (overlay string) {
	dir := t.TempDir()
	text, err := os.ReadFile(patch)
	require.NoError(t, err)
	replace := map[string]string{}
	for _, name := range changed.FindAllStringSubmatch(string(text), -1) {
		original := filepath.Join(root, name[1])
		replace[original] = filepath.Join(dir, name[1])
		before, err := os.ReadFile(original)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(replace[original]), 0o755))
		require.NoError(t, os.WriteFile(replace[original], before, 0o644))
	}
	require.NotEmpty(t, replace)
	apply := exec.Command("git", "apply", "--whitespace=nowarn", patch)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := apply.CombinedOutput()
	require.NoError(t, err, "%s does not apply any more: %s", patch, out)
	for original, mutant := range replace {
		before, _ := os.ReadFile(original)
		after, err := os.ReadFile(mutant)
		require.NoError(t, err)
		require.NotEqual(t, string(before), string(after), original)
	}
	overlay = filepath.Join(dir, "overlay.json")
	text, err = json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o644))
	return overlay
}
