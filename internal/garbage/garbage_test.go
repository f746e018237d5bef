package garbage_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/garbage"
)

func TestThen(t *testing.T) {
	t.Parallel()
	kept, dropped := new([64]byte), new([64]byte)
	called := make(chan string, 2)
	garbage.Then(kept, func(name string) { called <- name }, "kept")
	garbage.Then(dropped, func(name string) { called <- name }, "dropped")
	runtime.GC()
	select {
	case name := <-called:
		require.Equal(t, "dropped", name)
	case <-time.After(time.Minute):
		require.Fail(t, "it was not called")
	}
	runtime.GC()
	select {
	case name := <-called:
		require.Fail(t, "it was called for what is still in use", name)
	default:
	}
	runtime.KeepAlive(kept)
}
