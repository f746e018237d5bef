//go:build unix

package settings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber"
	_ "github.com/fiber-go/fiber/dashboard"
	"github.com/fiber-go/fiber/meta"
	_ "github.com/fiber-go/fiber/metrics"
	"github.com/fiber-go/fiber/test/fibertest"
)

// The variables of the program.
const (
	codeKey  = "SETTINGS_CODE"  // the fiber.Config of its code, in JSON
	gpuKey   = "SETTINGS_GPU"   // its workers need a GPU each
	briefKey = "SETTINGS_BRIEF" // it takes no more time than it needs to start its processes
)

// seen is what a process has seen of the effects of settings, by their keys.
type seen map[string]string

// levels are the root, a worker of its, and a worker of that one.
const levels = 3

// stuckMiB is the memory of a process that does not come up: it knows itself by that.
const stuckMiB = 77

// The program writes what its processes see, as one line of JSON, and goes on until it is told to end.
var _ = fibertest.Program("settings", func() {
	if debug.SetMemoryLimit(-1) == stuckMiB<<10*9/10<<10 {
		time.Sleep(time.Hour)
	}
	var code fiber.Config
	if text := os.Getenv(codeKey); text != "" {
		if err := json.Unmarshal([]byte(text), &code); err != nil {
			panic(err)
		}
	}
	fiber.Main(func(ctx context.Context) error {
		all, err := look(ctx, 0)
		if err != nil {
			return err
		}
		line, err := json.Marshal(all)
		if err != nil {
			return err
		}
		fmt.Printf("seen %s\n", line)
		<-ctx.Done()
		return nil
	}, code)
})

var (
	below = fiber.Register("below", look)

	stuck = fiber.Register("stuck", func(context.Context, fibertest.None) (fibertest.None, error) { return fibertest.None{}, nil }, meta.Memory(stuckMiB))

	// halt stops its process.
	halt = fiber.Register("halt", func(context.Context, fibertest.None) (fibertest.None, error) {
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // another thread is stopped first
	})

	// linger goes on for a while when its context has ended.
	linger = fiber.Register("linger", func(ctx context.Context, says *fiber.SimpleQueue[string]) (fibertest.None, error) {
		if err := says.Put(ctx, "up"); err != nil {
			return fibertest.None{}, err
		}
		<-ctx.Done()
		time.Sleep(lingers)
		return fibertest.None{}, says.Put(context.Background(), "lingered")
	})

	// hear counts what its process, which does nothing else, reads while a heartbeat ticks.
	hear = fiber.Register("hear", func(_ context.Context, beats int) (int, error) {
		before, err := reads()
		if err != nil {
			return 0, err
		}
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for range beats {
			<-tick.C
		}
		after, err := reads()
		return after - before, err
	})
)

// lookBelow has a worker look. It is set here, since the worker's function uses it as well.
var lookBelow func(ctx context.Context, pool *fiber.Pool, level int) ([]seen, error)

func init() {
	lookBelow = func(ctx context.Context, pool *fiber.Pool, level int) ([]seen, error) {
		return fiber.Apply(ctx, pool, below, level)
	}
}

// stays is the pool of this process whose worker is looked at from outside as well: it ends with the process.
var stays *fiber.Pool

// look looks at this process, and at those that it starts. It returns what it has seen, followed by what those below have.
func look(ctx context.Context, level int) ([]seen, error) {
	fmt.Println("voice of level", level)
	s := own()
	all := []seen{s}
	if level == levels {
		return all, nil
	}
	// Ways to look that take time go on beside each other.
	var ways errgroup.Group
	results := make([]func(), 10)
	way := func(n int, key string, do func() (string, error)) {
		ways.Go(func() error {
			text, err := do()
			if err != nil {
				return fmt.Errorf("%s at level %d: %w", key, level, err)
			}
			results[n] = func() { s[key] = text }
			return nil
		})
	}
	opts := []fiber.PoolOption{fiber.WithName(fmt.Sprintf("Level%d", level+1))}
	if os.Getenv(gpuKey) != "" {
		opts = append(opts, fiber.WithMeta(meta.GPU(1)))
	}
	pool, err := fiber.NewPool(1, opts...)
	if err != nil {
		return nil, err
	}
	stays = pool
	ways.Go(func() error {
		deeper, err := lookBelow(ctx, pool, level+1)
		if err == nil {
			all = append(all, deeper...)
		}
		return err
	})
	if os.Getenv(briefKey) == "" {
		way(0, "max_message", func() (string, error) { return refusal(ctx, pool) })
		way(1, "heartbeat_timeout", func() (string, error) { return silence(ctx, level) })
		way(2, "heartbeat_interval", func() (string, error) { return pulse(ctx, level) })
		way(3, "cancel_grace", func() (string, error) { return patience(ctx, level) })
		way(4, "start_timeout", func() (string, error) { return deadline(ctx) })
		way(5, "shutdown_grace", func() (string, error) { return ending(ctx) })
		way(6, "share_memory", func() (string, error) { return place(ctx) })
	}
	if err := ways.Wait(); err != nil {
		return nil, err
	}
	for _, set := range results {
		if set != nil {
			set()
		}
	}
	s["backend"] = kind(pool.Stats().Processes[0].ID, all[1])
	s["runtime_dir"] = strings.Join(sockets(), " ")
	return all, nil
}

// own is what a process sees of itself.
func own() seen {
	s := seen{"pid": strconv.Itoa(os.Getpid())}
	s["hostname"], _ = os.Hostname()
	if info, err := os.Stat("/proc/self/exe"); err == nil {
		s["executable"] = strconv.FormatInt(info.Size(), 10)
		s["allow_other_build"] = s["executable"]
	}
	for key, variable := range map[string]string{"image": "SETTINGS_IMAGE", "base_image": "SETTINGS_BASE", "env": "SETTINGS_ENV"} {
		s[key] = os.Getenv(variable)
	}
	if environ, err := os.ReadFile("/proc/self/environ"); err == nil { // with what Fiber has taken out of it
		if at := regexp.MustCompile(`"endpoint":"tls:([^"]*):\d+[@"]`).FindSubmatch(environ); at != nil {
			s["host"] = string(at[1])
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for key, path := range map[string]string{"docker_volumes": volumePath, "kubernetes_volumes": claimPath} {
		s[key] = strconv.FormatBool(bytes.Contains(mounts, []byte(" "+path+" ")))
	}
	var addresses []string
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		addresses = append(addresses, a.String())
	}
	s["docker_network"] = strings.Join(addresses, " ")
	status, _ := os.ReadFile("/proc/self/status")
	for key, field := range map[string]string{"docker_capabilities": "CapBnd", "docker_new_privileges": "NoNewPrivs"} {
		if found := regexp.MustCompile(`(?m)^` + field + `:\s*(\w+)$`).FindSubmatch(status); found != nil {
			s[key] = string(found[1])
		}
	}
	for key, files := range map[string][]string{
		"docker_pids_limit": {"pids.max", "pids/pids.max"}, "root_memory": {"memory.max", "memory/memory.limit_in_bytes"},
		"root_cpu": {"cpu.max", "cpu/cpu.cfs_quota_us"},
	} {
		for _, file := range files {
			if text, err := os.ReadFile("/sys/fs/cgroup/" + file); err == nil {
				s[key] = strings.TrimSpace(string(text))
			}
		}
	}
	return s
}

// Where volumes are mounted.
const (
	volumePath = "/settings/volume"
	claimPath  = "/settings/claim"
)

// kind is what a job is that a process is in.
func kind(id string, process seen) string {
	switch {
	case id == process["pid"]:
		return "process"
	case id != process["hostname"]:
		return "another"
	case strings.Contains(id, "-"):
		return "pod"
	}
	return "container"
}

// place is where a shared value lies, or why there is no room for it.
func place(ctx context.Context) (string, error) {
	s, err := fiber.Share(ctx, make([]byte, 512<<10))
	if err != nil {
		return err.Error(), nil
	}
	defer s.Close()
	maps, err := os.ReadFile("/proc/self/maps")
	if bytes.Contains(maps, []byte(filepath.Join(os.TempDir(), "fiber-"))) {
		return "on disk", err
	}
	return "in memory", err
}

// refusal is what is said of a message that is too large.
func refusal(ctx context.Context, pool *fiber.Pool) (string, error) {
	_, err := fiber.Apply(ctx, pool, fibertest.Shrink, make([]byte, 2*fiber.MiB))
	return fmt.Sprint(err), nil
}

// silence is what is said of a worker that is stopped.
func silence(ctx context.Context, level int) (string, error) {
	pool, err := fiber.NewPool(1, fiber.WithMaxAttempts(1), fiber.WithName(fmt.Sprintf("Silent%d", level)))
	if err != nil {
		return "", err
	}
	defer pool.Terminate()
	_, err = fiber.Apply(ctx, pool, halt, fibertest.None{})
	return fmt.Sprint(err), nil
}

const (
	heartbeat = 20 * time.Millisecond
	beats     = 100
)

// pulse is how often a worker hears something during so many heartbeats.
func pulse(ctx context.Context, level int) (string, error) {
	pool, err := fiber.NewPool(1, fiber.WithName(fmt.Sprintf("Idle%d", level)))
	if err != nil {
		return "", err
	}
	defer pool.Close()
	heard, err := fiber.Apply(ctx, pool, hear, beats)
	return fmt.Sprintf("%t, %d in %d heartbeats", heard >= beats/4, heard, beats), err
}

// patience is how many workers were killed since they kept others waiting; the log says after how long.
func patience(ctx context.Context, level int) (string, error) {
	pool, err := fiber.NewPool(1, fiber.WithName(fmt.Sprintf("Stuck%d", level)))
	if err != nil {
		return "", err
	}
	defer pool.Terminate()
	if _, err := fiber.Apply(ctx, pool, fibertest.Nap, time.Hour, fiber.Timeout(50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("no timeout: %w", err)
	}
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 3)
	return fmt.Sprintf("%d killed", pool.Stats().WorkersKilled), err
}

// deadline is what is said of a process that does not come up.
func deadline(ctx context.Context) (string, error) {
	return fmt.Sprint(fiber.NewProcess(stuck, fibertest.None{}).Start(ctx)), nil
}

// lingers is how long a process goes on when it is told to end, longer than the default lets it.
const lingers = 3 * time.Second

// ending is the last that is heard of such a process.
func ending(ctx context.Context) (string, error) {
	says, err := fiber.NewSimpleQueue[string]()
	if err != nil {
		return "", err
	}
	defer says.Close()
	p := fiber.NewProcess(linger, says)
	if err := p.Start(ctx); err != nil {
		return "", err
	}
	if _, err := says.Get(ctx); err != nil {
		return "", err
	}
	if err := p.Terminate(); err != nil {
		return "", err
	}
	p.Join(ctx) // it was told to end
	if n, err := says.Len(ctx); err != nil || n == 0 {
		return "nothing", err
	}
	return says.Get(ctx)
}

// reads is how often this process has read something.
func reads() (n int, err error) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte("syscr: "))
	_, err = fmt.Sscan(string(rest), &n)
	return n, err
}

// sockets lists the paths at which this process listens.
func sockets() (paths []string) {
	files, _ := os.ReadDir("/proc/self/fd")
	text, _ := os.ReadFile("/proc/net/unix")
	for _, f := range files {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err != nil || !strings.HasPrefix(to, "socket:[") {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) == 8 && "socket:["+fields[6]+"]" == to && fields[3] == "00010000" {
				paths = append(paths, fields[7])
			}
		}
	}
	return paths
}
