package warden

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// key is the environment variable that tells a process of the run which
	// descriptor is the socket, and the guard that it is the guard.
	key     = "FIBER_GUARD"
	isGuard = "guard"
	// sendTimeout bounds the wait, in seconds, for a guard that does not read.
	sendTimeout = 1
	// closeTimeout bounds the wait for the guard's end.
	closeTimeout = 5 * time.Second
)

// guard is this process's connection to the guard of its run.
var guard struct {
	sync.Mutex
	socket  *os.File    // nil before there is a guard
	process *os.Process // in the root
}

func init() {
	value, ok := os.LookupEnv(key)
	if !ok {
		return
	}
	os.Unsetenv(key) // not for the programs that this process starts
	if value == isGuard {
		stand(3)
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return
	}
	unix.CloseOnExec(fd)
	guard.socket = os.NewFile(uintptr(fd), "fiber-guard")
	enrol(fd)
}

// enrol tells the guard of this process. If that fails, on a kernel without pidfds
// or because the guard was killed, only the parent kills the group.
func enrol(socket int) {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return
	}
	defer unix.Close(self)
	pid := strconv.Itoa(os.Getpid())
	for unix.Sendmsg(socket, []byte(pid), unix.UnixRights(self), nil, unix.MSG_NOSIGNAL) == unix.EINTR {
	}
}

// Inherit adds what a child on this machine needs to enrol: a file after those
// that it inherits, and a variable in env, whose value is the number of that file.
// In the root it starts the guard, unless there is one.
func Inherit(files []*os.File, env map[string]string) ([]*os.File, error) {
	guard.Lock()
	defer guard.Unlock()
	if err := start(); err != nil {
		return nil, err
	}
	env[key] = strconv.Itoa(len(files))
	return append(files, guard.socket), nil
}

// Cover makes a command of the root end with this process, by putting it into the
// guard's group. It is called before the command starts.
func Cover(cmd *exec.Cmd) error {
	guard.Lock()
	defer guard.Unlock()
	if err := start(); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: guard.process.Pid}
	return nil
}

// start starts the guard unless there is one; the lock is held.
func start() error {
	if guard.socket != nil {
		return nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making the guard's socket: %w", os.NewSyscallError("socketpair", err))
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "fiber-guard"), os.NewFile(uintptr(fds[1]), "fiber-run")
	defer theirs.Close()
	unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: sendTimeout})
	// The guard holds neither the program's output nor its directory. Of the
	// environment it gets only what its executable needs to be loaded.
	env := []string{key + "=" + isGuard, "GOMAXPROCS=1"}
	if path, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		env = append(env, "LD_LIBRARY_PATH="+path)
	}
	// The terminal's signals go to the root's group, not to the guard's own. A guard that was stopped goes on at the root's end.
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"fiber-guard"}, Dir: "/", Env: env,
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return fmt.Errorf("starting the guard: %w", err)
	}
	guard.socket, guard.process = ours, cmd.Process
	return nil
}

// Close ends the guard of a run whose other processes have ended, and the commands
// that Cover covers. It returns when the guard has gone. In processes other than
// the root it does nothing.
func Close() {
	guard.Lock()
	defer guard.Unlock()
	if guard.process == nil {
		return
	}
	guard.socket.Close()
	late := time.AfterFunc(closeTimeout, func() { unix.Kill(-guard.process.Pid, unix.SIGKILL) })
	guard.process.Wait()
	late.Stop()
	guard.socket, guard.process = nil, nil
}
