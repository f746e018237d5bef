//go:build unix

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/meta"
)

// spec is a job of backendtest's.
func spec(what string) backend.JobSpec {
	env, _ := config.Portable(os.Environ(), []string{"*", config.Own})
	return backend.JobSpec{Name: "Job", Run: "run", Parent: "MainProcess", Env: append(env, "BACKENDTEST_JOB="+what)}
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func launched(t testing.TB, b *docker.Backend, s backend.JobSpec) backend.Job {
	t.Helper()
	j, err := b.Launch(soon(t), s)
	require.NoError(t, err)
	return j
}

// up launches a job and waits until it reports that it runs.
func up(t testing.TB, b *docker.Backend, s backend.JobSpec) backend.Job {
	t.Helper()
	j := launched(t, b, s)
	logs, err := j.Logs(soon(t), true)
	require.NoError(t, err)
	defer logs.Close()
	_, err = io.ReadFull(logs, make([]byte, len("up\n")))
	require.NoError(t, err)
	return j
}

func ended(t testing.TB, j backend.Job) backend.ExitStatus {
	t.Helper()
	status, err := j.Wait(soon(t))
	require.NoError(t, err)
	return status
}

// refused returns the error of a launch that fails permanently.
func refused(t testing.TB, b *docker.Backend, s backend.JobSpec) error {
	t.Helper()
	j, err := b.Launch(soon(t), s)
	require.Nil(t, j)
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.Equal(t, "docker", launch.Backend)
	require.Equal(t, s.Name, launch.Job)
	require.True(t, launch.Permanent, "it would be tried again: %v", err)
	return err
}

func TestNoEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///no/such.sock")
	err := refused(t, newBackend(t, config.Config{}), spec("exit 0"))
	require.ErrorContains(t, err, "no docker engine answers at DOCKER_HOST=unix:///no/such.sock")
	_, err = newBackend(t, config.Config{}).Network(soon(t))
	require.ErrorContains(t, err, "/no/such.sock")
}

func TestSocketThatIsNone(t *testing.T) {
	file := t.TempDir() + "/docker.sock"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("DOCKER_HOST", "unix://"+file)
	err := refused(t, newBackend(t, config.Config{}), spec("exit 0"))
	require.ErrorContains(t, err, file)
}

func TestSocketThatMayNotBeUsed(t *testing.T) {
	t.Parallel()
	needEngine(t)
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "DOCKER_TEST_STRANGER=1")
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "cannot start Job on docker")
	require.Contains(t, string(out), "permission denied")
	require.Contains(t, string(out), "the group docker")
}

func TestWhatTheEngineHasNot(t *testing.T) {
	t.Parallel()
	needEngine(t)
	b := newBackend(t, config.Config{})
	ended(t, launched(t, b, spec("exit 0"))) // from now on the engine has the image
	for _, test := range []struct {
		resources meta.Resources
		says      string
	}{
		{meta.Resources{Memory: 1 << 30}, "meta.Memory(1073741824) is more than the"},
		{meta.Resources{CPU: 100_000}, "CPUs"},
		{meta.Resources{GPU: 1}, "could not select device driver"},
	} {
		s := spec("exit 0")
		s.Resources = test.resources
		require.ErrorContains(t, refused(t, b, s), test.says)
	}
}

func TestNamesThatDockerRefuses(t *testing.T) {
	t.Parallel()
	needEngine(t)
	b := newBackend(t, config.Config{})
	for _, name := range []string{"with spaces and ünïcode ✓", "///", strings.Repeat("long", 200), "-x", "a\nb"} {
		s := spec("wait")
		s.Name = name
		j := launched(t, b, s)
		details, err := engine.ContainerInspect(soon(t), j.ID())
		require.NoError(t, err)
		require.Equal(t, name, details.Config.Labels["fiber.name"])
		require.Equal(t, "run", details.Config.Labels["fiber.run"])
		require.Equal(t, "MainProcess", details.Config.Labels["fiber.parent"])
		require.NoError(t, j.Remove(soon(t)))
	}
}

// made makes an image of files, and removes it at the end.
func made(t testing.TB, name string, changes []string, files map[string]string) string {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for path, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	progress, err := engine.ImageImport(soon(t), image.ImportSource{Source: &archive, SourceName: "-"}, name,
		image.ImportOptions{Changes: changes})
	require.NoError(t, err)
	_, err = new(bytes.Buffer).ReadFrom(progress)
	require.NoError(t, err)
	require.NoError(t, progress.Close())
	t.Cleanup(func() {
		engine.ImageRemove(context.Background(), name, image.RemoveOptions{Force: true})
	})
	return name
}

// static builds a program of backendtest's jobs that needs no libraries.
func static(t testing.TB) string {
	t.Helper()
	file := t.TempDir() + "/job"
	cmd := exec.Command("go", "build", "-o", file, "./testdata/job")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

func TestImageOfTheUsers(t *testing.T) {
	t.Parallel()
	needEngine(t)
	program := static(t)
	body, err := os.ReadFile(program)
	require.NoError(t, err)
	foreign := foreign(t)
	for _, test := range []struct {
		name       string
		changes    []string
		files      map[string]string
		executable string
		says       string // of the job; else
		refuses    string
	}{
		{"nothing in it", nil, map[string]string{"etc/empty": ""}, program, "", ""},
		{"a script", []string{`ENTRYPOINT ["/start.sh"]`}, map[string]string{"start.sh": "#!/bin/sh\n"}, program, "", ""},
		{"a command of no path", []string{`ENTRYPOINT ["python3"]`}, map[string]string{"etc/empty": ""}, program, "", ""},
		{"the program", []string{`ENTRYPOINT ["/app/job"]`, "ENV MARK=image"}, map[string]string{"app/job": string(body)}, program, "image", ""},
		{"the program only", []string{`ENTRYPOINT ["/app/job"]`, "ENV MARK=image"}, map[string]string{"app/job": string(body)}, foreign, "image", ""},
		{"no program", nil, map[string]string{"etc/empty": ""}, foreign, "", "has no entrypoint, and this program is for linux/riscv64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := made(t, "fiber-test-"+strings.ReplaceAll(test.name, " ", "-")+":v1", test.changes, test.files)
			b := newBackend(t, config.Config{Image: name, Executable: test.executable})
			s := spec("environment MARK")
			if test.refuses != "" {
				require.ErrorContains(t, refused(t, b, s), test.refuses)
				return
			}
			var out bytes.Buffer
			s.Stdout = &out
			require.Equal(t, backend.ExitStatus{}, ended(t, launched(t, b, s)))
			require.Equal(t, "MARK="+test.says+"\n", out.String())
		})
	}
	name := otherImage(t)
	require.ErrorContains(t, refused(t, newBackend(t, config.Config{Image: name}), spec("exit 0")), "is for linux/s390x")
}

// The engine keeps a program's last build, and those in use.
func TestBuildsThatAreKept(t *testing.T) {
	t.Parallel()
	needEngine(t)
	body, err := os.ReadFile(static(t))
	require.NoError(t, err)
	dir, program := t.TempDir(), "kept"+strconv.Itoa(os.Getpid())
	builds := image.ListOptions{Filters: filters.NewArgs(filters.Arg("reference", "fiber-"+program))}
	kept := func() map[string]bool {
		all, err := engine.ImageList(soon(t), builds)
		require.NoError(t, err)
		ids := map[string]bool{}
		for _, one := range all {
			ids[one.ID] = true
		}
		return ids
	}
	t.Cleanup(func() {
		all, _ := engine.ImageList(context.Background(), builds)
		for _, one := range all {
			engine.ImageRemove(context.Background(), one.ID, image.RemoveOptions{Force: true})
		}
	})
	// build returns a backend for another build of the program.
	build := func(n int) *docker.Backend {
		file := filepath.Join(dir, strconv.Itoa(n), program)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, append(bytes.Clone(body), byte(n)), 0o700))
		return newBackend(t, config.Config{Executable: file})
	}
	// use runs a job to its end, and returns the job's image if the engine did not have it.
	use := func(b *docker.Backend) (made string) {
		before := kept()
		j := launched(t, b, spec("exit 0"))
		require.Equal(t, backend.ExitStatus{}, ended(t, j))
		require.NoError(t, b.Close(soon(t)))
		for id := range kept() {
			if !before[id] {
				made = id
			}
		}
		return made
	}
	first := build(0)
	zero := use(first)
	require.NotEmpty(t, zero)
	require.Empty(t, use(build(0)), "the engine has it")
	waiting := up(t, first, spec("wait"))
	one := use(build(1))
	require.Equal(t, map[string]bool{zero: true, one: true}, kept(), "the first is in use")
	require.NoError(t, waiting.Remove(soon(t)))
	require.NoError(t, first.Close(soon(t)))
	require.Equal(t, map[string]bool{use(build(2)): true}, kept())
	require.Equal(t, backend.ExitStatus{}, ended(t, launched(t, first, spec("exit 0"))), "its image is loaded again")
	require.Equal(t, map[string]bool{zero: true}, kept())
}

// otherImage loads an image for another CPU into the engine.
func otherImage(t testing.TB) string {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "s390x", RootFS: v1.RootFS{Type: "layers"}})
	require.NoError(t, err)
	tag, err := name.NewTag("fiber-test-other:v1")
	require.NoError(t, err)
	var archive bytes.Buffer
	require.NoError(t, tarball.Write(tag, img, &archive))
	loaded, err := engine.ImageLoad(soon(t), &archive)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, loaded.Body)
	require.NoError(t, err)
	require.NoError(t, loaded.Body.Close())
	t.Cleanup(func() {
		engine.ImageRemove(context.Background(), tag.String(), image.RemoveOptions{Force: true})
	})
	return tag.String()
}

func TestImageThatIsNowhere(t *testing.T) {
	t.Parallel()
	needEngine(t)
	err := refused(t, newBackend(t, config.Config{Image: "registry.invalid/no/such:image"}), spec("exit 0"))
	require.ErrorContains(t, err, "registry.invalid/no/such:image")
}

func TestExecutableForAnotherPlatform(t *testing.T) {
	t.Parallel()
	needEngine(t)
	require.ErrorContains(t, refused(t, newBackend(t, config.Config{Executable: foreign(t)}), spec("exit 0")), "riscv64")
}

// foreign builds a program for another CPU.
func foreign(t testing.TB) string {
	t.Helper()
	file := t.TempDir() + "/program"
	cmd := exec.Command("go", "build", "-o", file, "../../internal/container/image/testdata/empty")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=riscv64")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// A paused container can be ended.
func TestPaused(t *testing.T) {
	t.Parallel()
	needEngine(t)
	b := newBackend(t, config.Config{})
	for _, end := range []func(backend.Job) error{
		func(j backend.Job) error { return j.Signal(soon(t), backend.Terminate) },
		func(j backend.Job) error { return j.Signal(soon(t), backend.Kill) },
		func(j backend.Job) error { return j.Remove(soon(t)) },
	} {
		j := up(t, b, spec("wait"))
		require.NoError(t, engine.ContainerPause(soon(t), j.ID()))
		require.NoError(t, end(j))
		require.NotZero(t, ended(t, j).Signal)
	}
}

// What a killed run has left is removed by its user's next run; what belongs to
// a living run stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	needEngine(t)
	living := newBackend(t, config.Config{})
	j := launched(t, living, spec("wait"))
	details, err := engine.ContainerInspect(soon(t), j.ID())
	require.NoError(t, err)
	left := *details.Config
	mine := strings.Fields(left.Labels["fiber.root"])
	require.Len(t, mine, 4)
	leave := func(root ...string) string {
		left.Labels = map[string]string{"fiber.root": strings.Join(root, " ")}
		c, err := engine.ContainerCreate(soon(t), &left, nil, nil, nil, "")
		require.NoError(t, err)
		t.Cleanup(func() {
			engine.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true})
		})
		return c.ID
	}
	dead := leave(mine[0], mine[1], mine[2], "1")
	elsewhere := leave("another-machine", mine[1], mine[2], "1")
	others := leave(mine[0], "4711", mine[2], "1")
	next := newBackend(t, config.Config{})
	require.Equal(t, backend.ExitStatus{}, ended(t, launched(t, next, spec("exit 0"))))
	there := containers()
	require.True(t, there[details.ID])
	for id, left := range map[string]bool{dead: false, elsewhere: true, others: true} {
		_, err := engine.ContainerInspect(soon(t), id)
		require.Equal(t, left, err == nil)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OF_THE_PROGRAM", "yes")
	needEngine(t)
	b := newBackend(t, config.Config{})
	for key, want := range map[string]string{"OF_THE_PROGRAM": "yes", "PWD": "", "FIBER_INIT": ""} {
		var out bytes.Buffer
		s := spec("environment " + key)
		s.Stdout = &out
		ended(t, launched(t, b, s))
		require.Equal(t, key+"="+want+"\n", out.String())
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir := t.TempDir()
	b := newBackend(t, config.Config{DockerVolumes: []string{dir + ":/data:ro"}})
	j := launched(t, b, spec("wait"))
	details, err := engine.ContainerInspect(soon(t), j.ID())
	require.NoError(t, err)
	require.Len(t, details.Mounts, 1)
	require.Equal(t, "/data", details.Mounts[0].Destination)
	require.False(t, details.Mounts[0].RW)
}

// A path that does not exist is not created as a folder of root's.
func TestVolumeThatIsNotThere(t *testing.T) {
	t.Parallel()
	needEngine(t)
	missing := t.TempDir() + "/missing"
	err := refused(t, newBackend(t, config.Config{DockerVolumes: []string{missing + ":/data"}}), spec("exit 0"))
	require.ErrorContains(t, err, "FIBER_DOCKER_VOLUMES names "+missing+", which the engine's machine does not have")
	require.NoFileExists(t, missing)
	require.NoDirExists(t, missing)
}

// A container sees the directory that it shares with this process, if its engine does, and cannot change it.
func TestDirectory(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir := t.TempDir()
	s := spec("wait")
	s.Directory = dir
	b := newBackend(t, config.Config{})
	details, err := engine.ContainerInspect(soon(t), launched(t, b, s).ID())
	require.NoError(t, err)
	require.Len(t, details.Mounts, 1)
	require.Equal(t, []string{dir, dir}, []string{details.Mounts[0].Source, details.Mounts[0].Destination})
	require.False(t, details.Mounts[0].RW)

	s.Directory = dir + "/missing"
	details, err = engine.ContainerInspect(soon(t), launched(t, b, s).ID())
	require.NoError(t, err)
	require.Empty(t, details.Mounts)
	require.NoDirExists(t, s.Directory)
}

// A missing volume of the engine is created, and keeps what is written to it.
func TestNamedVolume(t *testing.T) {
	t.Parallel()
	needEngine(t)
	name := "fiber-test-" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() { engine.VolumeRemove(context.Background(), name, true) })
	b := newBackend(t, config.Config{DockerVolumes: []string{name + ":/data"}})
	j := launched(t, b, spec("wait"))
	details, err := engine.ContainerInspect(soon(t), j.ID())
	require.NoError(t, err)
	require.Len(t, details.Mounts, 1)
	require.Equal(t, name, details.Mounts[0].Name)
	require.True(t, details.Mounts[0].RW)
}

// said waits for the end of a job and returns what it has written.
func said(t testing.TB, b *docker.Backend, s backend.JobSpec) string {
	t.Helper()
	var out bytes.Buffer
	s.Stdout = &out
	require.Equal(t, backend.ExitStatus{}, ended(t, launched(t, b, s)))
	return out.String()
}

// A container may do what its program needs and what the settings add, and no more.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	needEngine(t)
	program := static(t)
	body, err := os.ReadFile(program)
	require.NoError(t, err)
	root := made(t, "fiber-test-privileges:v1", []string{`ENTRYPOINT ["/app/job"]`}, map[string]string{"app/job": string(body)})
	const none, chown = "0000000000000000", "0000000000000003" // and DAC_OVERRIDE
	for name, test := range map[string]struct {
		opts                       config.Config
		capabilities, noPrivileges string
		pids                       int64
	}{
		"the program's own image": {config.Config{}, none, "1", 4096},
		"root":                    {config.Config{Image: root, Executable: program}, none, "1", 4096},
		"given": {config.Config{Image: root, Executable: program, DockerCapabilities: []string{"CHOWN", "DAC_OVERRIDE"}, DockerNewPrivileges: config.On, DockerPidsLimit: 100},
			chown, "0", 100},
	} {
		t.Run(name, func(t *testing.T) {
			status := said(t, newBackend(t, test.opts), spec("file /proc/self/status"))
			for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
				require.Contains(t, status, set+":\t"+test.capabilities+"\n")
			}
			require.Contains(t, status, "NoNewPrivs:\t"+test.noPrivileges+"\n")
			b := newBackend(t, test.opts)
			details, err := engine.ContainerInspect(soon(t), launched(t, b, spec("wait")).ID())
			require.NoError(t, err)
			require.Equal(t, test.pids, *details.HostConfig.PidsLimit)
		})
	}
	err = refused(t, newBackend(t, config.Config{DockerCapabilities: []string{"FLY"}}), spec("exit 0"))
	require.ErrorContains(t, err, "FLY")
}

// Jobs that run out of memory are reported so, and not as killed by a signal,
// however many there are at a time and however late the engine says so.
func TestManyOutOfMemory(t *testing.T) { // by itself: it keeps the engine from everything else
	needEngine(t)
	b := newBackend(t, config.Config{})
	s := spec("hog 200")
	s.Resources = meta.Resources{Memory: 64}
	var ending sync.WaitGroup
	defer ending.Wait()
	for range 24 {
		ending.Go(func() {
			j, err := b.Launch(soon(t), s)
			if !assert.NoError(t, err) {
				return
			}
			status, err := j.Wait(soon(t))
			assert.NoError(t, err)
			assert.Equal(t, backend.ExitStatus{Code: 137, Signal: syscall.SIGKILL, OOMKilled: true, Reason: "used more than its 64 MiB"}, status)
		})
	}
}

// Close ends running jobs.
func TestClose(t *testing.T) {
	t.Parallel()
	needEngine(t)
	b := newBackend(t, config.Config{})
	j := launched(t, b, spec("ignore"))
	require.NoError(t, b.Close(soon(t)))
	require.Equal(t, 137, ended(t, j).Code)
	_, err := engine.ContainerInspect(soon(t), j.ID())
	require.Error(t, err)
	require.Equal(t, 3, ended(t, launched(t, b, spec("exit 3"))).Code, "it can be used again")
}
