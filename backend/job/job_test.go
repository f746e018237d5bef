package job_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/job"
)

// Unread events are kept while there is room, and then dropped, oldest first. The end is never dropped.
func TestEventsThatNobodyReads(t *testing.T) {
	t.Parallel()
	for told, kept := range map[int]int{0: 0, 1: 1, 7: 7, 8: 7, 9: 7, 40: 7} {
		l := job.New()
		for i := range told {
			l.Tell(backend.Event{Kind: backend.Pending, Reason: fmt.Sprint(i)})
		}
		status, failure := backend.ExitStatus{Code: 3}, errors.New("no")
		l.End(status, failure)
		l.Tell(backend.Event{Kind: backend.Started}) // too late
		var got []backend.Event
		for e := range l.Events() {
			got = append(got, e)
		}
		require.Len(t, got, kept+1)
		for i, e := range got[:kept] {
			require.Equal(t, fmt.Sprint(told-kept+i), e.Reason)
		}
		require.Equal(t, backend.Event{Kind: backend.Ended, Reason: "exit code 3"}, got[kept])
		ended, err := l.Wait(t.Context())
		require.Equal(t, status, ended)
		require.Equal(t, failure, err)
	}
}

// Many goroutines may tell while another reads, and while the job ends.
func TestTellingBlocksNobody(t *testing.T) {
	t.Parallel()
	l := job.New()
	var telling, reading sync.WaitGroup
	for range 4 {
		telling.Go(func() {
			for range 1000 {
				l.Tell(backend.Event{Kind: backend.Pending})
			}
		})
	}
	reading.Go(func() {
		for range l.Events() {
		}
	})
	l.End(backend.ExitStatus{}, nil)
	telling.Wait()
	reading.Wait()
}
