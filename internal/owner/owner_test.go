package owner_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

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
}
