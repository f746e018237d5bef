package lock_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/lock"
)

// Each change wakes all that wait for it, and costs nothing when nobody does.
func TestChanges(t *testing.T) {
	var mu sync.Mutex
	var changes lock.Changes
	require.Zero(t, testing.AllocsPerRun(10, changes.Tell))
	count := 0
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for count < 1000 {
				next := changes.Next()
				mu.Unlock()
				<-next
				mu.Lock()
			}
		})
	}
	for range 1000 {
		mu.Lock()
		count++
		changes.Tell()
		mu.Unlock()
	}
	waiting.Wait()
	next := changes.Next()
	require.Equal(t, next, changes.Next())
	select {
	case <-next:
		t.Fatal("nothing has changed")
	default:
	}
	changes.Tell()
	<-next
}
