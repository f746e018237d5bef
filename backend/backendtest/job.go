package backendtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jobKey is the environment variable that makes a test binary a job.
const jobKey = "BACKENDTEST_JOB"

// Main runs the job that this process was started as, and then never returns.
// In a process that is no job it does nothing. A test binary calls it first
// thing in its TestMain, since the jobs of Run are the binary itself.
func Main() {
	if what, ok := os.LookupEnv(jobKey); ok {
		os.Exit(job(what))
	}
}

// job does what the word says, with the arguments behind it.
func job(what string) int {
	word, arg, _ := strings.Cut(what, " ")
	number, _ := strconv.Atoi(arg)
	switch word {
	case "exit":
		return number
	case "signal":
		signal.Reset(syscall.Signal(number))
		syscall.Kill(os.Getpid(), syscall.Signal(number))
	case "wait": // for a signal
		fmt.Println("up")
	case "heed": // exits with the number at a SIGTERM
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
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
