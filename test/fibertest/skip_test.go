//go:build unix

package fibertest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each name in the lists of the tests that some backends leave out is that of a
// test, in the repository's folder or in one of this one's neighbours.
func TestTestsThatAreLeftOutAreThere(t *testing.T) {
	t.Parallel()
	own, err := filepath.Glob("../../*_test.go")
	require.NoError(t, err)
	others, err := filepath.Glob("../*/*_test.go")
	require.NoError(t, err)
	var tests []string
	for _, file := range slices.Concat(own, others) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`).FindAllSubmatch(text, -1) {
			tests = append(tests, string(found[1]))
		}
	}
	beginnings := longOnACluster
	for _, names := range notOnACluster {
		beginnings = slices.Concat(beginnings, names)
	}
	for _, name := range beginnings {
		begins := regexp.MustCompile("^" + name).MatchString
		require.True(t, slices.ContainsFunc(tests, begins), "no test is called %s", name)
	}
	for _, names := range onThisMachine {
		for _, name := range names {
			test, _, _ := strings.Cut(name, "/") // behind that is a subtest
			require.Contains(t, tests, test)
		}
	}
}
