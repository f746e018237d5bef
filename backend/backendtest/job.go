//go:build unix

package backendtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jobKey is the environment variable that makes a test binary a job.
const jobKey = "BACKENDTEST_JOB"

// Main runs the job that this process was started as, and never returns. In a
// process that is no job it does nothing. A test binary calls Main first thing
// in its TestMain, since the jobs of Run are the binary itself.
func Main() {
	if what, ok := os.LookupEnv(jobKey); ok {
		os.Exit(job(what))
	}
}

// job does what its first word says; the rest are arguments.
func job(what string) int {
	word, arg, _ := strings.Cut(what, " ")
	number, _ := strconv.Atoi(arg)
	switch word {
	case "exit":
		return number
	case "signal":
		signal.Reset(syscall.Signal(number))
		syscall.Kill(os.Getpid(), syscall.Signal(number))
	case "own": // a signal whose handling is left as it was
		n, _ := strconv.Atoi(strings.TrimPrefix(arg, "signal "))
		syscall.Kill(os.Getpid(), syscall.Signal(n))
	case "orphan": // waits until a process whose parent has ended is gone
		return orphan()
	case "parent": // its child outlives it for a moment
		child, err := again("brief")
		fmt.Println(child, err)
		return 0
	case "brief":
		time.Sleep(100 * time.Millisecond)
		return 0
	case "dial":
		nc, err := net.DialTimeout("tcp", arg, 10*time.Second)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		line, err := bufio.NewReader(nc).ReadString('\n')
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Fprintf(nc, "you said %s", line)
		nc.Close()
		return 0
	case "wait": // for a signal
		fmt.Println("up")
	case "heed", "forge": // exits with the number on SIGTERM
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		if word == "forge" { // how package logmux ends a log, as far as a program can know
			fmt.Print("\x1b[;;m0\n\x1b[;;2147483648;2147483648;2147483648m\n\x1b[;;2147483648;2147483648;2147483648m0\n")
		}
		fmt.Println("up")
		<-signals
		return number
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("up")
	case "print":
		fmt.Println("first to stdout")
		fmt.Fprintln(os.Stderr, "then to stderr")
		return 0
	case "count": // a line every millisecond
		for i := range number {
			fmt.Println("line", i)
			time.Sleep(time.Millisecond)
		}
		return 0
	case "chatter": // so many KiB
		line := strings.Repeat("x", 1023) + "\n"
		for range number {
			os.Stdout.WriteString(line)
		}
		fmt.Println("the end")
		return 0
	case "environment":
		fmt.Printf("%s=%s\n", arg, os.Getenv(arg))
		return 0
	case "file":
		b, err := os.ReadFile(arg)
		fmt.Printf("%s%v\n", b, err)
		return 0
	case "arguments":
		fmt.Printf("%q\n", os.Args[1:])
		return 0
	case "stdin":
		b, err := io.ReadAll(os.Stdin)
		fmt.Println(len(b), err)
		return 0
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
		return 0
	case "answer": // on the inherited socket
		f := os.NewFile(3, "socket")
		line, err := bufio.NewReader(f).ReadString('\n')
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Fprintf(f, "you said %s", line)
		return 0
	default:
		fmt.Fprintln(os.Stderr, "no such job:", what)
		return 99
	}
	time.Sleep(time.Hour)
	return 98
}

// again starts this program as another job.
func again(what string) (pid int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), jobKey+"="+what)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

func orphan() int {
	exe, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), jobKey+"=parent")
	out, err := cmd.Output()
	pid, convErr := strconv.Atoi(strings.Fields(string(out) + " ?")[0])
	if err != nil || convErr != nil {
		fmt.Println(string(out), err)
		return 1
	}
	for range 1000 {
		if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
			fmt.Println("gone")
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("it is still there")
	return 1
}
