//go:build unix

package metrics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/metrics"
	"github.com/fiber-go/fiber/test/fibertest"
)

// step is a task, number 3 of which ends its worker the first time, and number 5 fails.
var step = fiber.Register("step", func(ctx context.Context, i int) (int, error) {
	time.Sleep(5 * time.Millisecond)
	switch first := filepath.Join(os.Getenv("DIR"), "first"); i {
	case 3:
		if os.Mkdir(first, 0o777) == nil {
			os.Exit(7)
		}
	case 5:
		return 0, errors.New("no luck")
	}
	return i, nil
})

// works runs 40 tasks in a pool and puts something in a queue, says what the pool's figures are, and waits.
func works(ctx context.Context, then func() error) error {
	pool, err := fiber.NewPool(3)
	if err != nil {
		return err
	}
	defer pool.Close()
	queue, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		return err
	}
	for range 4 {
		if err := queue.Put(ctx, 1); err != nil {
			return err
		}
	}
	for range fiber.Results(ctx, pool, step, func(yield func(int) bool) {
		for i := 0; i < 40 && yield(i); i++ {
		}
	}, fiber.ChunkSize(1)) {
	}
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	said, err := json.Marshal(pool.Stats())
	if err != nil {
		return err
	}
	fmt.Printf("figures: %s\n", said)
	if err := then(); err != nil {
		return err
	}
	return fibertest.Await(ctx, filepath.Join(os.Getenv("DIR"), "end"))
}

var _ = fibertest.MainProgram("measured", func(ctx context.Context) error { return works(ctx, func() error { return nil }) })

// In a registry of the program's own are the same figures, until the program shuts Fiber down.
var _ = fibertest.MainProgram("collects", func(ctx context.Context) error {
	for name, ctx := range map[string]context.Context{"nil": nil, "ended": func() context.Context { ctx, end := context.WithCancel(ctx); end(); return ctx }()} {
		if _, err := metrics.NewCollector(ctx); err == nil {
			return errors.New("there is a collector for the context that is " + name)
		}
	}
	c, err := metrics.NewCollector(ctx)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return err
	}
	return works(ctx, func() error {
		for {
			answer := httptest.NewRecorder()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			text := answer.Body.String()
			if strings.Contains(text, `fiber_tasks_total{func="step",outcome="done"} 39`+"\n") && strings.Contains(text, `fiber_object_items{kind="queue"} 4`+"\n") {
				fmt.Println("it has collected")
				return nil
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("%w; it is\n%s", ctx.Err(), text)
			}
		}
	})
})

func TestCollector(t *testing.T) {
	t.Parallel()
	dir := fibertest.OpenDir(t)
	x := fibertest.Start(t, "collects", "DIR="+dir)
	x.Says("it has collected")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "end"), 0o777))
	require.Equal(t, 0, x.Wait(fibertest.Patience), x.Err.String())
}

// A Prometheus reads the same figures as the program has, and its own tool finds nothing wrong with how they are called.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	p := newPrometheus(t)
	dir := fibertest.OpenDir(t)
	x := fibertest.Start(t, "measured", "DIR="+dir, "FIBER_METRICS=127.0.0.1:0")
	x.Says("figures: ")
	address := regexp.MustCompile(`(?m)^fiber: metrics: http://(127\.0\.0\.1:\d+)/metrics$`).FindStringSubmatch(x.Err.String())
	require.NotNil(t, address, x.Err.String())
	p.scrape(address[1])
	var s fiber.PoolStats
	require.NoError(t, json.Unmarshal([]byte(regexp.MustCompile(`figures: (.*)`).FindStringSubmatch(x.Out.String())[1]), &s))
	require.Equal(t, []int{39, 1, 1}, []int{s.Done, s.Failed, s.WorkersLost})
	require.NotZero(t, s.Retried)

	for query, want := range map[string]string{
		`fiber_tasks_total{func="step",outcome="done"}`:                                   fmt.Sprint(s.Done),
		`fiber_tasks_total{func="step",outcome="failed"}`:                                 fmt.Sprint(s.Failed),
		`fiber_task_retries_total`:                                                        fmt.Sprint(s.Retried),
		`fiber_calls_total{outcome="failed"}`:                                             "1",
		`fiber_calls_open`:                                                                "0",
		`fiber_workers{state="ready"}`:                                                    fmt.Sprint(s.Ready),
		`fiber_workers_lost_total{reason="exit code 7"}`:                                  fmt.Sprint(s.WorkersLost),
		`fiber_process_starts_total{role="worker"}`:                                       "4",
		`fiber_object_items{kind="queue"}`:                                                "4",
		`fiber_run_info`:                                                                  "1",
		`histogram_count(fiber_task_duration_seconds)`:                                    "40", // a native histogram
		`histogram_quantile(0.5, fiber_task_duration_seconds) > bool 0.004`:               "1",
		`fiber_processes_resident_memory_bytes{role="worker"} > bool 1e6`:                 "1",
		`fiber_processes_cpu_seconds_total{role="main"} > bool 0`:                         "1",
		`sum(go_goroutines) > bool 1`:                                                     "1",
		`fiber_events_missed_total`:                                                       "0",
		`count(count by (__name__) ({__name__=~"fiber_(task|worker_start)_duration.*"}))`: "2",
	} {
		fibertest.Eventually(t, fibertest.Patience, func() bool { return p.value(query) == want }, query+" is not "+want)
	}

	get := func(path string) (int, []byte) {
		answer, err := http.Get("http://" + address[1] + path)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, text
	}
	code, text := get("/metrics")
	require.Equal(t, 200, code)
	require.Contains(t, string(text), `fiber_task_duration_seconds_bucket{func="step",le="10"} 40`)
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = bytes.NewReader(text)
	said, err := check.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Empty(t, string(said))
	for _, path := range []string{"/", "/debug/pprof/", "/recording"} {
		code, _ := get(path)
		require.Equal(t, 404, code, path)
	}
	answer, err := http.Post("http://"+address[1]+"/metrics", "text/plain", nil)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 405, answer.StatusCode)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "end"), 0o777))
	require.Equal(t, 0, x.Wait(fibertest.Patience), x.Err.String())
	_, err = net.Dial("tcp", address[1])
	require.Error(t, err, "something listens after the end")
}

// An address that is taken ends the program before it does anything.
func TestAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	x := fibertest.Start(t, "measured", "DIR="+t.TempDir(), "FIBER_METRICS="+l.Addr().String())
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Empty(t, x.Out.String())
	require.Regexp(t, `^FIBER_METRICS=127.0.0.1:\d+: .*address already in use; name an address of this machine with a free port\n$`, x.Err.String())
}

// server is a Prometheus.
type server struct {
	t       *testing.T
	targets string // the file that names what it scrapes
	address string
}

func newPrometheus(t *testing.T) *server {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus: apt-get install prometheus")
	}
	dir := t.TempDir()
	p := &server{t: t, targets: filepath.Join(dir, "targets.json")}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(`
scrape_configs:
- job_name: fiber
  scrape_interval: 100ms
  scrape_timeout: 100ms
  file_sd_configs:
  - files: [targets.json]
`), 0o644))
	var said lines
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--enable-feature=native-histograms")
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		found := listening.FindStringSubmatch(said.String())
		if found != nil {
			p.address = found[1]
		}
		return found != nil
	}, "prometheus does not listen")
	return p
}

func (p *server) scrape(address string) {
	require.NoError(p.t, os.WriteFile(p.targets, []byte(`[{"targets": ["`+address+`"]}]`), 0o644))
}

// value returns the only value of a query, "" for none.
func (p *server) value(query string) string {
	answer, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(query))
	require.NoError(p.t, err)
	defer answer.Body.Close()
	var result struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	require.NoError(p.t, json.NewDecoder(answer.Body).Decode(&result))
	require.Empty(p.t, result.Error, query)
	if len(result.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(result.Data.Result[0].Value[1])
}

// lines keeps what a process writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
