//go:build unix

package docker_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// needyKey makes a process of this program end at once if it has no DATABASE_URL.
const needyKey = "FIBER_TEST_NEEDY"

var _ = func() (none fibertest.None) {
	if os.Getenv(needyKey) != "" && os.Getenv("DATABASE_URL") == "" {
		fmt.Fprintln(os.Stderr, "DATABASE_URL is not set")
		os.Exit(3)
	}
	return
}()

var (
	sees = fiber.Register("sees", func(context.Context, fibertest.None) (seen []string, err error) {
		for _, name := range []string{"SEED", "HF_TOKEN", "RATE", "TZ", "DATABASE_URL", "XDG_CACHE_HOME", "PWD"} {
			seen = append(seen, name+"="+os.Getenv(name))
		}
		return seen, nil
	})
	seesBelow = fiber.Register("seesBelow", func(ctx context.Context, _ fibertest.None) ([]string, error) {
		return fiber.Go(ctx, sees, fibertest.None{}).Get(ctx)
	})
	_ = fibertest.MainProgram("environment", func(ctx context.Context) error {
		for _, f := range []*fiber.Func[fibertest.None, []string]{sees, seesBelow} {
			seen, err := fiber.Go(ctx, f, fibertest.None{}).Get(ctx)
			if err != nil {
				return err
			}
			fmt.Println(seen)
		}
		return nil
	})
)

// Containers get what FIBER_ENV names and what means the same everywhere, at any depth.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	here := []string{"SEED=7", "HF_TOKEN=secret", "TZ=Asia/Tokyo", "DATABASE_URL=secret", "XDG_CACHE_HOME=/of/the/host"}
	for names, want := range map[string]string{
		"":                   "[SEED= HF_TOKEN= RATE= TZ=Asia/Tokyo DATABASE_URL= XDG_CACHE_HOME= PWD=]\n",
		"SEED,HF_*,RATE=0.1": "[SEED=7 HF_TOKEN=secret RATE=0.1 TZ=Asia/Tokyo DATABASE_URL= XDG_CACHE_HOME= PWD=]\n",
		"*":                  "[SEED=7 HF_TOKEN=secret RATE= TZ=Asia/Tokyo DATABASE_URL=secret XDG_CACHE_HOME= PWD=]\n",
	} {
		x := contained(t, "environment", append(here, "FIBER_ENV="+names, "FIBER_LOG_LEVEL=debug")...)
		require.Equal(t, 0, x.Wait(containerPatience), x.Err.String())
		require.Equal(t, want+want, x.Out.String(), names)
		if names != "*" {
			require.Regexp(t, `msg="fiber: variables that stay here; .*DATABASE_URL`, x.Err.String())
		}
	}
}

// A process that ends since a variable stayed here says so.
func TestVariableThatIsMissing(t *testing.T) {
	t.Parallel()
	x := contained(t, "environment", needyKey+"=yes", "DATABASE_URL=secret", "FIBER_ENV=")
	require.Equal(t, 1, x.Wait(containerPatience))
	require.Contains(t, x.Err.String(), "DATABASE_URL is not set; DATABASE_URL is set here: FIBER_ENV=DATABASE_URL takes it along")
	require.NotContains(t, x.Err.String(), "secret")
}
