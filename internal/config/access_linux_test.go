package config_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/config"
)

func TestWhatMustBeWritable(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), sources(t, "")
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, from.Dir: 0o755, dir: 0o555} {
		require.NoError(t, os.Chmod(path, mode))
	}
	failed := make(chan error)
	go func() {
		// Root may write everywhere, so this thread, which ends here, becomes
		// the user nobody.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			const nobody = 65534
			syscall.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		}
		_, _, err := config.Load(config.Config{RuntimeDir: dir}, from)
		failed <- err
	}()
	assert.ErrorContains(t, <-failed, "is not the path of a directory that exists and is writable")
}
