package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	lives "github.com/fiber-go/fiber/backend/job"
)

// answers is an engine: it returns the answer to each request, and how long the answer takes after its header.
type answers func() (string, time.Duration, error)

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	text, after, err := a()
	if err != nil {
		return nil, err
	}
	body, to := io.Pipe()
	go func() {
		time.Sleep(after)
		io.WriteString(to, text)
		to.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}

// A container's end is reported, however often the wait for it broke off, and although the engine was down for minutes.
func TestBrokenWaits(t *testing.T) {
	t.Parallel()
	const end = `{"StatusCode":7}`
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		engine func(n int, since time.Duration) (string, time.Duration, error)
		code   int
		lasts  time.Duration // at least
	}{
		"often": {func(n int, _ time.Duration) (string, time.Duration, error) {
			if n < 1000 {
				return "", time.Minute, nil
			}
			return end, 0, nil
		}, 7, 998 * time.Minute},
		"an upgrade": {func(_ int, since time.Duration) (string, time.Duration, error) {
			if since < 4*time.Minute {
				return "", 0, refused
			}
			return end, time.Hour, nil
		}, 7, time.Hour},
		"gone for good": {func(int, time.Duration) (string, time.Duration, error) { return "", 0, refused }, -1, maxSilence},
		"useless":       {func(int, time.Duration) (string, time.Duration, error) { return "", time.Second, nil }, -1, maxSilence},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, n := time.Now(), 0
				transport := answers(func() (string, time.Duration, error) {
					n++
					if n == 1 { // the wait from before the container starts
						return "", time.Second, nil
					}
					return test.engine(n, time.Since(start))
				})
				cli, err := client.NewClientWithOpts(client.WithVersion("1.41"), client.WithHTTPClient(&http.Client{Transport: transport}))
				require.NoError(t, err)
				j := &job{Life: lives.New(), engine: &engine{Client: cli}, id: strings.Repeat("0", 64)}
				require.NoError(t, j.wait(context.Background()))
				defer j.stop()
				require.Equal(t, test.code, j.exit().Code)
				require.GreaterOrEqual(t, time.Since(start), test.lasts)
				require.Less(t, time.Since(start), test.lasts+10*time.Minute)
			})
		})
	}
}
