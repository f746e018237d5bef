package pid1

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/delivery"
	"github.com/fiber-go/fiber/internal/logmux"
	"github.com/fiber-go/fiber/internal/runs"
)

const (
	// outputGrace bounds the wait for the output of a child that has ended:
	// processes that it has started may hold it open for ever.
	outputGrace = time.Second
	// readGrace bounds the wait for the reader of the output then.
	readGrace = 10 * time.Second
	// toldGrace is that bound after a SIGTERM: more may be killed with the pod.
	toldGrace = time.Second
)

func init() {
	if os.Getenv(Key) == Value && os.Getenv(FenceKey) == "" {
		os.Exit(Run(nil))
	}
}

// Run runs the program as a child while its guard, which may be nil, lets it. It
// joins the program's outputs on this process's stdout, and returns its exit code,
// 128+n if signal n ended it. A program with a guard that ends because of a
// SIGTERM has not succeeded.
//
// The program must not know the mark of the stream's end, although it may run as
// the same user. So this process is made not dumpable: then reading its memory
// or its files in /proc takes CAP_SYS_PTRACE. If that fails, the stream has no
// end.
func Run(g Guard) int {
	output := outputs{deliver()}
	answer()
	to := logmux.NewWriter(output)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err == nil {
		to.Begin()
	}
	var reading sync.WaitGroup
	var ends []*os.File
	for _, s := range []*logmux.Stream{to.Stdout(), to.Stderr()} {
		from, end, err := os.Pipe()
		if err != nil {
			fmt.Fprintln(os.Stderr, "fiber: the outputs of the program:", err)
			return 127
		}
		reading.Go(func() {
			io.Copy(s, from)
			s.Flush()
		})
		ends = append(ends, end)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	say := func(err error) { fmt.Fprintln(to.Stderr(), "fiber:", err) }
	end, told := guarded(g, signals, say, func(lost <-chan struct{}) (logmux.End, bool) {
		return child(signals, lost, output.ending, ends[0], ends[1])
	})
	if g != nil && told && end.Code == 0 {
		end.Code = 128 + int(syscall.SIGTERM)
	}
	for _, f := range ends { // the program may not have been started
		f.Close()
	}
	output.ending()
	read := make(chan struct{})
	go func() { reading.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(outputGrace):
	}
	last, _ := to.End(end)
	if log, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		log.Write(last)
		log.Close()
	}
	if output.reader != nil {
		awaitReader(output.reader, signals, told)
	}
	return end.Code
}

// terminationLog is a file that a node of a cluster makes, and reports with the
// end of a container, unless its pod says otherwise. It gets the last line of the
// output, which may have left the log before a reader comes.
const terminationLog = "/dev/termination-log"

// outputs takes what this process writes: for the log of the container, and for
// the reader if there is one.
type outputs struct{ reader *delivery.Sender }

func (o outputs) Write(lines []byte) (int, error) {
	n, err := os.Stdout.Write(lines)
	if o.reader != nil {
		o.reader.Write(lines)
	}
	return n, err
}

// ending lets the program write its last words, even without a reader.
func (o outputs) ending() {
	if o.reader != nil {
		o.reader.Ending()
	}
}

// deliver returns what hands the output to its reader, nil if the environment
// names none, or one that can't be found: that reader says so. The program does
// not learn how the reader is found.
func deliver() *delivery.Sender {
	defer os.Unsetenv(delivery.Key)
	s, _ := delivery.Deliver(context.Background(), os.Getenv(delivery.Key))
	return s
}

// answer has those who may reach a port of the pod's ask how the program is.
func answer() {
	defer os.Unsetenv(runs.PortKey)
	port := os.Getenv(runs.PortKey)
	if port == "" {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fiber: fiber top will not show this program:", err)
		return
	}
	go runs.Serve(l, func() string {
		cfg, _, _ := config.Load(config.Config{}, config.Sources{Others: true}) // the program says what is wrong with it
		return cfg.RuntimeDir
	})
}

// awaitReader waits, within the grace, until the reader has the whole output.
func awaitReader(s *delivery.Sender, signals <-chan os.Signal, told bool) {
	ctx, cancel := context.WithTimeout(context.Background(), readGrace)
	defer cancel()
	if told {
		time.AfterFunc(toldGrace, cancel)
	}
	go func() {
		for sig := range signals {
			if sig == syscall.SIGTERM {
				time.AfterFunc(toldGrace, cancel)
			}
		}
	}()
	s.End(ctx)
}

// child runs the program with these outputs, which child closes, and kills it when
// lost is closed. It reports how the program ended, and whether a SIGTERM came
// before, at which ending is called.
func child(signals <-chan os.Signal, lost <-chan struct{}, ending func(), stdout, stderr *os.File) (end logmux.End, told bool) {
	defer stdout.Close()
	defer stderr.Close()
	os.Unsetenv(Key) // the child is the program
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: os.Environ(),
		Files: []uintptr{0, stdout.Fd(), stderr.Fd()}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "fiber: starting the program below an init:", err)
		return logmux.End{Code: 127}, false
	}
	for {
		var s os.Signal
		select {
		case s = <-signals:
		case <-lost:
			s, lost = syscall.SIGKILL, nil
		}
		switch s {
		case syscall.SIGCHLD:
			if end, ended := reap(pid); ended {
				return end, told
			}
		case syscall.SIGURG, syscall.SIGPIPE: // the Go runtime's, and our own
		default:
			if s == syscall.SIGTERM {
				told = true
				ending()
			}
			syscall.Kill(pid, s.(syscall.Signal))
		}
	}
}

// reap reaps all dead processes, and returns how the child ended if it has.
func reap(child int) (end logmux.End, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case pid <= 0:
			return end, ended
		case pid != child:
		case status.Signaled():
			end, ended = logmux.End{Code: 128 + int(status.Signal()), OutOfMemory: status.Signal() == syscall.SIGKILL && ranOut()}, true
		default:
			end, ended = logmux.End{Code: status.ExitStatus()}, true
		}
	}
}

// ranOut reports whether the kernel has killed a process of this container for
// the memory used. The kernel counts that before it kills, so the count is right
// once the process has been reaped.
func ranOut() bool {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		counts, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(counts)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strings.TrimSpace(n) != "0"
			}
		}
	}
	return false
}
