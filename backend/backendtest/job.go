//go:build unix

package backendtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

// jobKey is the environment variable that makes a test binary a job.
const jobKey = "BACKENDTEST_JOB"

// Main runs the job that this process was started as, and never returns. In a
// process that is no job it does nothing. A test binary calls Main first thing
// in its TestMain, since the jobs of Run are the binary itself.
func Main() {
	if what := getenv(jobKey); what != "" {
		self.Of().Exit(job(what))
	}
}

// getenv is os.Getenv, also in a simulated process.
func getenv(key string) string {
	if env := self.Of().Env; env != nil {
		return env[key]
	}
	return os.Getenv(key)
}

// job does what its first word says; the rest are arguments.
func job(what string) int {
	me := self.Of()
	word, arg, _ := strings.Cut(what, " ")
	number, _ := strconv.Atoi(arg)
	switch word {
	case "exit":
		return number
	case "signal": // whose handling is left as it was
		if me.Env == nil {
			syscall.Kill(os.Getpid(), syscall.Signal(number))
			forever()
		}
		me.Die(syscall.Signal(number))
	case "orphan": // waits until a process whose parent has ended is gone
		pid := must(strconv.Atoi(strings.TrimSpace(string(must(itself("parent").Output())))))
		for syscall.Kill(pid, 0) != syscall.ESRCH {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Fprintln(me.Stdout, "gone")
	case "parent": // its child outlives it for a moment
		child := itself("brief")
		must(0, child.Start())
		fmt.Fprintln(me.Stdout, child.Process.Pid)
	case "brief":
		time.Sleep(100 * time.Millisecond)
	case "dial":
		answer(must(net.DialTimeout("tcp", arg, 10*time.Second)))
	case "answer": // on the inherited socket
		answer(os.NewFile(3, "socket"))
	case "wait": // for a signal
		fmt.Fprintln(me.Stdout, "up")
		forever()
	case "heed", "forge": // exits with the number on SIGTERM
		signals := make(chan os.Signal, 1)
		me.Notify(signals, syscall.SIGTERM)
		if word == "forge" { // how package logmux ends a log, as far as a program can know
			fmt.Fprint(me.Stdout, "\x1b[;;m0\n\x1b[;;2147483648;2147483648;2147483648m\n\x1b[;;2147483648;2147483648;2147483648m0\n")
		}
		fmt.Fprintln(me.Stdout, "up")
		select {
		case <-signals:
		case <-me.Context().Done():
		}
		return number
	case "ignore":
		me.Notify(make(chan os.Signal), syscall.SIGTERM)
		fmt.Fprintln(me.Stdout, "up")
		forever()
	case "print":
		fmt.Fprintln(me.Stdout, "first to stdout")
		fmt.Fprintln(me.Stderr, "then to stderr")
	case "count": // a line every millisecond
		for i := range number {
			fmt.Fprintln(me.Stdout, "line", i)
			time.Sleep(time.Millisecond)
		}
	case "chatter": // so many KiB
		line := strings.Repeat("x", 1023) + "\n"
		for range number {
			io.WriteString(me.Stdout, line)
		}
		fmt.Fprintln(me.Stdout, "the end")
	case "environment":
		for _, key := range strings.Fields(arg) {
			fmt.Fprintf(me.Stdout, "%s=%s\n", key, getenv(key))
		}
	case "file":
		b, err := os.ReadFile(arg)
		fmt.Fprintf(me.Stdout, "%s%v\n", b, err)
	case "arguments":
		fmt.Fprintf(me.Stdout, "%q\n", os.Args[1:])
	case "stdin":
		b, err := io.ReadAll(os.Stdin)
		fmt.Fprintln(me.Stdout, len(b), err)
	case "hog": // so many MiB
		var held [][]byte
		for range number {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = byte(i)
			}
			held = append(held, b)
			time.Sleep(time.Millisecond)
		}
		runtime.KeepAlive(held)
	default:
		panic("no such job: " + what)
	}
	return 0
}

// forever waits for a signal. One that kills ends a simulated process by its context: its goroutines go on.
func forever() {
	select {
	case <-self.Of().Context().Done():
	case <-time.After(time.Hour):
	}
}

// must ends a job that fails, with a panic, and returns what has not failed.
func must[T any](of T, err error) T {
	if err != nil {
		panic(err)
	}
	return of
}

// itself returns a command that runs this program as another job.
func itself(what string) *exec.Cmd {
	exe, _ := os.Executable() // if this fails, so does starting it
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), jobKey+"="+what)
	return cmd
}

// answer repeats a line that it receives.
func answer(c io.ReadWriteCloser) {
	defer c.Close()
	line := must(bufio.NewReader(c).ReadString('\n'))
	must(fmt.Fprintf(c, "you said %s", line))
}
