package tree

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// onHosts makes a node of a cluster, and returns it with its log.
func onHosts() (*Node, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return &Node{avoids: true, Log: slog.New(slog.NewTextHandler(log, nil))}, log
}

func TestAHostIsAvoidedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, log := onHosts()
		n.strike("b")
		n.strike("a")
		n.strike("") // a process without a machine
		n.strike("")
		require.Empty(t, n.Avoided(), "one failure may be anybody's")
		n.strike("b")
		n.strike("a")
		require.Equal(t, []string{"a", "b"}, n.Avoided())
		time.Sleep(avoidTime - time.Second)
		n.strike("b")
		time.Sleep(time.Second)
		require.Equal(t, []string{"b"}, n.Avoided(), "the time runs from the last failure")
		time.Sleep(avoidTime)
		require.Empty(t, n.Avoided())
		n.strike("a")
		require.Equal(t, []string{"a"}, n.Avoided(), "nothing has succeeded there")
		n.startedOn("a")
		n.strike("a")
		require.Empty(t, n.Avoided())
		synctest.Wait()
		require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("a node is avoided")), "each is said once: %s", log)

		n.strike("c")
		for range 2 {
			n.strike("c")
			time.Sleep(2 * avoidTime)
			synctest.Wait()
		}
		require.Equal(t, 4, bytes.Count(log.Bytes(), []byte("a node is avoided")), "and once more when it is avoided again: %s", log)
	})
}

// Processes that turn out to have ended by themselves do not make a host avoided, and nothing is logged.
func TestAHostIsNotToBlame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, log := onHosts()
		n.strike("a")
		acquit := n.strike("a")
		require.Equal(t, []string{"a"}, n.Avoided(), "what is started before more is known goes elsewhere")
		time.Sleep(sureAfter / 2)
		require.False(t, n.fails("a"))
		acquit()
		require.Empty(t, n.Avoided())
		time.Sleep(sureAfter)
		synctest.Wait()
		require.Empty(t, log.String())

		n.strike("a")
		time.Sleep(sureAfter)
		synctest.Wait()
		require.True(t, n.fails("a"))
		require.Contains(t, log.String(), `msg="fiber: a node is avoided: workers were lost there, or did not start" node=a`)
	})
}

// A backend of a single machine avoids none.
func TestAnOnlyHostIsNotAvoided(t *testing.T) {
	n, _ := onHosts()
	n.avoids = false
	n.strike("a")
	n.strike("a")
	require.Empty(t, n.Avoided())
}

// Machines come and go for days: those of old are forgotten, and a strike of long ago counts no more.
func TestHostsOfOldAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := onHosts()
		for i := range 1000 {
			n.strike(fmt.Sprint("host", i))
			time.Sleep(time.Minute)
		}
		require.LessOrEqual(t, len(n.hosts.bad), 100)
		n.strike("a")
		time.Sleep(strikeTime + time.Second)
		n.strike("a")
		require.Empty(t, n.Avoided())
		for i := range 100 {
			n.strike(fmt.Sprint("innocent", i))()
		}
		require.LessOrEqual(t, len(n.hosts.bad), 1)
	})
}
