package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Fiber vet says, with go vet's exit code, what go vet says with this command as its tool.
func TestVet(t *testing.T) {
	t.Parallel()
	const root, unclosed = "../..", "./internal/vet/testdata/unclosed"
	small := []string{"GOFLAGS=-buildvcs=false -tags=fiber_nodocker,fiber_nokubernetes"} // less to look at
	_, found, code := fiber(t, root, small, "vet", unclosed)
	assert.Equal(t, 1, code)
	assert.Contains(t, found, "internal/vet/testdata/unclosed/unclosed.go:15:15: the pool is never closed: defer pool.Close()\n")

	tool := exec.Command("go", "vet", "-vettool="+os.Args[0], unclosed)
	tool.Dir, tool.Env = root, append(os.Environ(), commandKey+"=1", small[0])
	out, err := tool.CombinedOutput()
	assert.Error(t, err)
	assert.Equal(t, found, string(out))

	said, stderr, code := fiber(t, root, small, "vet", "--json", "./internal/names")
	assert.Zero(t, code, stderr)
	assert.Contains(t, said, "{}\n")
	said, stderr, code = fiber(t, root, small, "vet", "--unclosed=false", unclosed)
	assert.Zero(t, code, stderr)
	assert.Empty(t, said+stderr)
	said, _, code = fiber(t, root, small, "vet", "./nowhere")
	assert.Equal(t, 1, code)
	assert.Empty(t, said)
}

func TestWhatGoVetAsksFor(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"-V=full": true, "-flags": true, "/tmp/b001/vet.cfg": true, "-json -register /tmp/b001/vet.cfg": true,
		"": false, "-h": false, "--version": false, "vet ./...": false, "cp data:x ./vet.cfg": false,
	} {
		assert.Equal(t, want, asked.MatchString(strings.ReplaceAll(args, " ", "\n")), args)
	}
}
