//go:build unix

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

const quotaWorkers = 6

// quota maps until all its workers are ready.
var _ = fibertest.MainProgram("quota", func(ctx context.Context) error {
	pool, err := fiber.NewPool(quotaWorkers)
	if err != nil {
		return err
	}
	defer pool.Close()
	for served := false; ; served = true {
		squares, err := fiber.Map(ctx, pool, fibertest.Square, fibertest.Numbers(100))
		var launch *fiber.LaunchError
		if errors.As(err, &launch) {
			fmt.Println("refused:", err)
			return nil
		}
		if err != nil || squares[99] != 99*99 {
			return fmt.Errorf("squares %v: %w", squares, err)
		}
		s := pool.Stats()
		if !served {
			fmt.Println("served")
		}
		if s.Ready == quotaWorkers {
			fmt.Println("all are up")
			return nil
		}
	}
})

// A pool for which a quota has room in part works with the workers that there is room for, and with all of them when there is
// more. Where there is none, its calls say why.
func TestPodsUnderAQuota(t *testing.T) {
	namespace := newNamespace(t)
	hard := func(verb string, pods int) {
		args := map[string][]string{"create": {"create", "quota", "small", "--hard=pods=" + strconv.Itoa(pods)},
			"patch": {"patch", "quota", "small", fmt.Sprintf(`-p={"spec": {"hard": {"pods": "%d"}}}`, pods)}}[verb]
		kubectl(t, append(args, "-n", namespace)...)
		fibertest.Eventually(t, fibertest.Patience, func() bool {
			return kubectl(t, "get", "quota", "small", "-n", namespace, "-o", "jsonpath={.status.hard.pods}") == strconv.Itoa(pods)
		}, "the quota does not count")
	}
	hard("create", 2)
	x := clustered(t, "quota", "FIBER_KUBERNETES_NAMESPACE="+namespace)
	x.Says("served")
	require.Len(t, podsIn(t, namespace), 2)
	hard("patch", quotaWorkers)
	x.Says("all are up")
	require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
	require.Contains(t, x.Err.String(), "exceeded quota: small")

	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(podsIn(t, namespace)) == 0 }, "pods are left")
	hard("patch", 0)
	x = clustered(t, "quota", "FIBER_KUBERNETES_NAMESPACE="+namespace)
	require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
	require.Contains(t, x.Out.String(), "refused: ")
	require.Contains(t, x.Out.String(), "exceeded quota: small")
	require.LessOrEqual(t, strings.Count(x.Err.String(), "a worker did not start"), quotaWorkers, "nobody tries again")
}
