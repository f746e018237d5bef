package pid1_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/container/delivery"
	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/logmux"
	"github.com/fiber-go/fiber/transport"
)

// programKey makes the test binary a program.
const programKey = "PID1_TEST_PROGRAM"

// fileKey names a file for programs that need one.
const fileKey = "PID1_TEST_FILE"

func TestMain(m *testing.M) {
	what := os.Getenv(programKey)
	if guard := os.Getenv(pid1.FenceKey); guard != "" && os.Getenv(pid1.Key) == pid1.Value {
		os.Unsetenv(pid1.FenceKey)
		os.Exit(pid1.Run(guarding(guard)))
	}
	switch what {
	case "":
		os.Exit(m.Run())
	case "in a container": // whose root does not have these capabilities
		for _, capability := range []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_PERFMON} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && os.Getuid() == 0 {
				panic(err)
			}
		}
		os.Setenv(programKey, "forge")
		os.Setenv(pid1.Key, pid1.Value)
		panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	case "forge":
		forge()
	case "wait":
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		fmt.Println("waits")
		<-told
		os.Exit(0)
	case "loud": // prints, and says in a file who it is when nobody reads that
		var lines atomic.Int64
		go func() {
			for last := int64(-1); last != lines.Load(); time.Sleep(200 * time.Millisecond) {
				last = lines.Load()
			}
			_ = os.WriteFile(os.Getenv(fileKey)+".new", []byte(strconv.Itoa(os.Getpid())), 0o600)
			_ = os.Rename(os.Getenv(fileKey)+".new", os.Getenv(fileKey))
		}()
		for {
			fmt.Println("line", lines.Add(1))
		}
	case "much":
		for i := range muchLines {
			fmt.Println("line", i)
		}
		fmt.Println(os.LookupEnv(delivery.Key))
	}
	os.Exit(7)
}

// forge tries all that a program may do to end its own log, prints what it could read, and waits for a SIGTERM.
func forge() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Println("\x1b[;;m0")
	fmt.Println("\x1b[;;2147483648;2147483648;2147483648m")
	fmt.Println("\x1b[;;2147483648;2147483648;2147483648m0")
	of := "/proc/" + strconv.Itoa(os.Getppid()) + "/"
	for _, name := range []string{"environ", "mem", "maps", "auxv", "fd/1"} {
		if f, err := os.Open(of + name); err == nil {
			fmt.Println("read", name)
			f.Close()
		}
	}
	if log, err := os.OpenFile(of+"fd/1", os.O_WRONLY, 0); err == nil {
		fmt.Println("opened the log")
		log.Close()
	}
	var word [8]byte
	local := []unix.Iovec{{Base: &word[0], Len: 8}}
	// Tracing a process takes the same permission.
	if _, err := unix.ProcessVMReadv(os.Getppid(), local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0); err != unix.EPERM {
		fmt.Println("read its memory:", err)
	}
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "FIBER_") {
			fmt.Println("has", kv)
		}
	}
	fmt.Fprintln(os.Stderr, "tried")
	<-told
	fmt.Println("told")
}

// A program does not know how the log ends, although the init is the same user, and root as in a container.
func TestTheProgramCanNotForgeItsEnd(t *testing.T) {
	t.Parallel()
	users := []uint32{uint32(os.Getuid())}
	if os.Getuid() == 0 {
		users = append(users, 65534)
	}
	binary := reachable(t)
	for _, user := range users {
		t.Run(fmt.Sprint("user ", user), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(binary)
			ours := func(kv string) bool { return strings.HasPrefix(kv, "FIBER_") }
			cmd.Env = append(slices.DeleteFunc(os.Environ(), ours), programKey+"=in a container")
			cmd.Dir = "/"
			if user != uint32(os.Getuid()) {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
			}
			cmd.Stderr = os.Stderr
			log, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			var stdout, stderr bytes.Buffer
			r := &logmux.Reader{Stdout: &stdout, Stderr: &stderr}
			buf := make([]byte, 4096)
			for !strings.Contains(stderr.String(), "tried\n") {
				n, err := log.Read(buf)
				_, _ = r.Write(buf[:n])
				require.NoError(t, err, "%s%s", stdout.String(), stderr.String())
			}
			_, ended := r.Ended()
			require.False(t, ended, "it goes on")
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			_, err = io.Copy(r, log)
			require.NoError(t, err)
			r.Close()
			end, ended := r.Ended()
			require.True(t, ended)
			require.Equal(t, logmux.End{Code: 7}, end)
			const line = "\x1b[;;2147483648;2147483648;2147483648m"
			require.Equal(t, "\x1b[;;m0\n"+line+"\n"+line+"0\ntold\n", stdout.String())
		})
	}
}

const muchLines = 200_000

// joined is the joined stream as a reader gets it.
type joined struct{ bytes.Buffer }

func (j *joined) Missing(n int64, why string) { fmt.Fprintln(j, "missing:", n, why) }

// What a program writes is delivered as it is in the log, its end included, to a reader that the program does not learn of.
func TestTheOutputIsDelivered(t *testing.T) {
	t.Parallel()
	cred, err := transport.NewCredentials()
	require.NoError(t, err)
	l, err := transport.ListenTLS("127.0.0.1:0", cred, transport.Options{})
	require.NoError(t, err)
	defer l.Close()
	target := delivery.Target{Endpoint: l.Endpoint(), Process: "id"}
	target.Credentials, err = cred.MarshalBinary()
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programKey+"=much", pid1.Key+"="+pid1.Value, delivery.Key+"="+target.String())
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var got joined
	require.NoError(t, delivery.Read(t.Context(), func(context.Context) (*transport.Conn, error) {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Recv() // its hello
		}
		return conn, err
	}, &got))
	_ = cmd.Wait()
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
	require.True(t, log.String() == got.String(), "it differs")
	var stdout bytes.Buffer
	r := &logmux.Reader{Stdout: &stdout, Stderr: os.Stderr}
	r.Write(got.Bytes())
	end, ended := r.Ended()
	require.True(t, ended)
	require.Equal(t, logmux.End{Code: 7}, end)
	require.Equal(t, muchLines+1, strings.Count(stdout.String(), "\n"))
	require.True(t, strings.HasSuffix(stdout.String(), "line 199999\n false\n"))
}

// After a SIGTERM nobody waits for long for a reader that does not come; without one, longer than that.
func TestTheInitEndsWithoutAReader(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	target := delivery.Target{Endpoint: "tls:127.0.0.1:1", Process: "id", Credentials: append([]byte{1}, make([]byte, 32)...)}
	target.Credentials[1] = 1
	cmd.Env = append(os.Environ(), programKey+"=end", pid1.Key+"="+pid1.Value, delivery.Key+"="+target.String())
	log, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	r := &logmux.Reader{Stdout: io.Discard, Stderr: os.Stderr}
	for ended := false; !ended; _, ended = r.Ended() {
		buf := make([]byte, 4096)
		n, err := log.Read(buf)
		require.NoError(t, err)
		r.Write(buf[:n])
	}
	require.NoError(t, cmd.Process.Signal(syscall.Signal(0)), "it waits")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
}

// guarding is a guard that does what its name says, and notes on the init's stderr what it is told.
type guarding string

func (g guarding) Hold(ctx context.Context) error {
	switch g {
	case "refuses":
		return errors.New("refused")
	case "waits":
		fmt.Fprintln(os.Stderr, "holding")
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (g guarding) Lost(ctx context.Context) error {
	switch g {
	case "loses":
		return errors.New("lost")
	case "loses in the end":
		for {
			if _, err := os.Stat(os.Getenv(fileKey)); err == nil {
				return errors.New("lost")
			}
			time.Sleep(time.Millisecond)
		}
	}
	<-ctx.Done()
	return nil
}

func (g guarding) Ended(end logmux.End, told bool) error {
	fmt.Fprintln(os.Stderr, "ended", end.Code, told)
	return nil
}

// A guard decides whether the program runs, and for how long; the init tells it how the program has ended.
func TestAGuard(t *testing.T) {
	t.Parallel()
	for guard, want := range map[string]struct {
		program, says string
		code          int
		told          string // the line after which a SIGTERM comes
		notes         string
	}{
		"lets":    {"end", "", 7, "", "ended 7 false\n"},
		"refuses": {"end", "fiber: refused\n", 1, "", "ended 1 false\n"},
		"loses":   {"wait", "fiber: lost\n", 137, "", ""},
		"keeps":   {"wait", "waits\n", 143, "waits\n", "ended 0 true\n"}, // it has not succeeded
		"waits":   {"end", "", 143, "holding\n", "holding\nended 143 true\n"},
	} {
		t.Run(guard, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), programKey+"="+want.program, pid1.Key+"="+pid1.Value, pid1.FenceKey+"="+guard)
			tell := func(so string) {
				if want.told != "" && strings.HasSuffix(so, want.told) {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			said, notes := telling{tell: tell}, telling{tell: tell}
			cmd.Stdout, cmd.Stderr = &logmux.Reader{Stdout: &said, Stderr: &said}, &notes
			require.NoError(t, cmd.Start())
			_ = cmd.Wait()
			require.Equal(t, want.code, cmd.ProcessState.ExitCode())
			require.Equal(t, want.notes, notes.so.String())
			require.Contains(t, said.so.String(), want.says)
		})
	}
}

// A program that has lost its guard ends although nobody reads what it prints.
func TestAGuardThatIsLostByALoudProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "program")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programKey+"=loud", fileKey+"="+file, pid1.Key+"="+pid1.Value, pid1.FenceKey+"=loses in the end")
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	w.Close()
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := 0
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(text))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, time.Minute, time.Millisecond)
}

// telling calls tell with what was written so far.
type telling struct {
	so   strings.Builder
	tell func(so string)
}

func (w *telling) Write(p []byte) (int, error) {
	n, err := w.so.Write(p)
	w.tell(w.so.String())
	return n, err
}

// reachable returns the path of the test binary where other users can run it.
func reachable(t *testing.T) string {
	t.Helper()
	body, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "fiber-pid1")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, "pid1.test")
	require.NoError(t, os.WriteFile(file, body, 0o755))
	return file
}
