package owner_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/owner"
)

func TestGone(t *testing.T) {
	t.Parallel()
	require.False(t, owner.Gone(owner.Name()), "it runs")
	fields := strings.Split(owner.Name(), " ")
	require.Len(t, fields, 4)
	with := func(n int, value string) string {
		other := append([]string(nil), fields...)
		other[n] = value
		return strings.Join(other, " ")
	}
	require.True(t, owner.Gone(with(3, "1")), "another process has its id now")
	require.False(t, owner.Gone(with(0, "another/machine")), "of another machine nothing can be told")
	require.False(t, owner.Gone(with(1, "12345")), "nor of another user")
	require.False(t, owner.Gone("no name"))

	cmd := exec.Command("sleep", "0")
	require.NoError(t, cmd.Run())
	require.True(t, owner.Gone(with(2, strconv.Itoa(cmd.Process.Pid))), "it has ended")

	require.Equal(t, os.Getpid(), owner.PID(owner.Name()))
	for _, other := range []string{with(3, "1"), with(0, "another/machine"), with(1, "12345"), "no name"} {
		require.Zero(t, owner.PID(other))
	}
	cmd = exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Skip("this system does not tell when processes were started")
	}
	fields[2], fields[3] = strconv.Itoa(cmd.Process.Pid), strings.Fields(string(stat))[21]
	name := strings.Join(fields, " ")
	require.Equal(t, cmd.Process.Pid, owner.PID(name))
	require.False(t, owner.Gone(name))
	require.NoError(t, in.Close())
	require.Eventually(t, func() bool { return owner.Gone(name) }, time.Minute, time.Millisecond, "it has ended, even if its parent does not know that yet")
	require.NoError(t, cmd.Wait())
}
