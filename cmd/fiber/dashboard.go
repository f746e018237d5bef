package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/runs"
)

type dashboardCommand struct {
	where
	NoBrowser bool   `help:"Print the address of the page, and do not open it. So it is where stdout is no terminal."`
	Name      string `arg:"" help:"A program's name, as fiber ps shows it, or the program's own."`
}

func (c *dashboardCommand) Run() error {
	return c.about(c.Name, func(ctx context.Context, r *runs.Run) error {
		page, err := pageOf(ctx, r.Name(), r.AskOnce)
		if err != nil {
			return err
		}
		fmt.Println(page)
		remove, opens := c.open(page)
		defer remove()
		if opens {
			err = pause(ctx, browserTime)
		}
		return err
	}, c.forward)
}

// pageOf asks a program for the address of its page.
func pageOf(ctx context.Context, name string, ask func(context.Context) (runs.Status, error)) (*url.URL, error) {
	s, err := answer(ctx, name, ask)
	switch {
	case err != nil:
		return nil, err
	case s.Page == "":
		return nil, fmt.Errorf("%s serves no page: start it with fiber run --dashboard, or have it import github.com/fiber-go/fiber/dashboard and set FIBER_DASHBOARD=127.0.0.1:0", name)
	}
	return url.Parse(s.Page)
}

// forward has a port of this machine lead to the page of a program on the cluster, until the program ends or ctx does.
func (c *dashboardCommand) forward(ctx context.Context, client *kube.Client, pod *corev1.Pod) error {
	status, err := submit.NewStatus(client, pod)
	if err != nil {
		return err
	}
	defer status.Close()
	page, err := pageOf(ctx, pod.Name, status.Ask)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(page.Port())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	page.Host = fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
	fmt.Println(page)
	ctx, over := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer l.Close()
	defer over()
	group.Go(func() {
		retry.Accept(l, func(conn net.Conn) {
			join(ctx, conn, func() (net.Conn, error) { return client.DialPod(ctx, pod.Name, port) })
		})
	})
	remove, _ := c.open(page)
	defer remove()
	for !status.Over(ctx) {
		if err := pause(ctx, lookAtEnd); err != nil {
			return err
		}
	}
	fmt.Println(pod.Name + " has ended")
	return nil
}

// lookAtEnd is how often the cluster is asked whether a program has ended.
const lookAtEnd = 2 * time.Second

// pause blocks for so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}

// join passes on what comes over a connection to another one, and back, until one of them or ctx ends.
func join(ctx context.Context, a net.Conn, dial func() (net.Conn, error)) {
	defer a.Close()
	b, err := dial()
	if err != nil {
		return
	}
	defer b.Close()
	ctx, over := context.WithCancel(ctx)
	defer over()
	off := context.AfterFunc(ctx, func() {
		a.Close()
		b.Close()
	})
	defer off()
	go func() {
		defer over()
		io.Copy(b, a)
	}()
	io.Copy(a, b)
}

// browserTime is how long a browser may take to read the file that leads to the page.
const browserTime = 10 * time.Second

// open opens a page in a browser if stdout is a terminal and there is a browser, and reports whether it does. The caller removes the file
// that leads there. The address has a token in it: as an argument of the browser, all users of the machine could read it.
func (c *dashboardCommand) open(page *url.URL) (remove func(), opens bool) {
	name, args := "xdg-open", []string(nil)
	here := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	switch runtime.GOOS {
	case "darwin":
		name, here = "open", true
	case "windows":
		name, args, here = "rundll32", []string{"url.dll,FileProtocolHandler"}, true
	}
	remove = func() {}
	if !here || c.NoBrowser || !term.IsTerminal(int(os.Stdout.Fd())) {
		return remove, false
	}
	dir, err := os.MkdirTemp("", "fiber-dashboard")
	if err == nil {
		remove = func() { os.RemoveAll(dir) }
		file, to := filepath.Join(dir, "dashboard.html"), html.EscapeString(page.String())
		cmd := exec.Command(name, append(args, file)...)
		cmd.SysProcAttr = apart() // Ctrl-C is for this command
		if err = os.WriteFile(file, []byte(`<!doctype html><meta http-equiv="refresh" content="0; url=`+to+`"><a href="`+to+`">The page of the run</a>`), 0o600); err == nil {
			err = cmd.Start()
		}
		if err == nil {
			go func() {
				if err := cmd.Wait(); err != nil {
					fmt.Fprintf(os.Stderr, "fiber: %s: %v; open the address yourself\n", name, err)
				}
			}()
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fiber: no browser opens: %v; open the address yourself\n", err)
	}
	return remove, err == nil
}
