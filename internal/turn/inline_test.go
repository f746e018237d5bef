package turn_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/turn"
)

// reading runs what comes, inline.
func reading(work chan func()) (inline *turn.Inline, readers chan struct{}) {
	readers = make(chan struct{}, 100)
	read := func() {
		readers <- struct{}{}
		for f := range work {
			if !inline.Run(f) {
				return
			}
		}
	}
	inline = turn.NewInline(read)
	go read()
	return inline, readers
}

func TestInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := make(chan func())
		_, readers := reading(work)
		ran := 0
		for range 1000 {
			work <- func() { ran++; time.Sleep(10 * time.Microsecond) }
		}
		close(work)
		synctest.Wait()
		require.Equal(t, 1000, ran)
		require.Len(t, readers, 1, "the same goroutine has read all the time")
		time.Sleep(time.Second) // nobody is left that looks after it
	})
}

// Whoever takes long is replaced, and reads no more when it is done.
func TestInlineThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := make(chan func())
		_, readers := reading(work)
		gate := make(chan struct{})
		for range 3 {
			work <- func() {}
			work <- func() { <-gate }
		}
		work <- func() {} // another one reads
		require.Len(t, readers, 4)
		close(gate)
		synctest.Wait()
		for range 10 {
			work <- func() {}
		}
		close(work)
		synctest.Wait()
		require.Len(t, readers, 4)
	})
}

func TestInlineThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := make(chan func())
		_, readers := reading(work)
		work <- runtime.Goexit
		work <- func() {}
		close(work)
		synctest.Wait()
		require.Len(t, readers, 2)
		time.Sleep(time.Second)
	})
}
