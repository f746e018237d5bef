package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// busyFile is created every busyPause while files are copied.
	busyFile  = "/tmp/.fiber-busy"
	busyPause = 9 * time.Second
	// idle is how long a pod for copying stays at least, and twice that at most, while nothing is copied: then its fiber
	// cp is gone.
	idle = 90 * time.Second
)

// holdCommand is the program of a pod of fiber cp.
type holdCommand struct{}

func (holdCommand) Run() error {
	hold(busyFile)
	return nil
}

// hold returns when the file that it removes does not come back. It ignores the file's time, since the node's clock may jump.
func hold(file string) {
	for busy := true; busy; busy = os.Remove(file) == nil {
		time.Sleep(idle)
	}
}

// holdScript returns a shell script that does what hold does.
func holdScript(file string) string {
	return fmt.Sprintf("while sleep %d && rm %s 2>/dev/null; do :; done", int(idle.Seconds()), file)
}

// tarCommand is what fiber cp runs in its pod.
type tarCommand struct {
	Do   string `arg:"" enum:"stat,pack,unpack"`
	Path string `arg:""`
}

func (c *tarCommand) Run() error {
	go func() {
		for {
			_ = os.WriteFile(busyFile, nil, 0o666) // a pod that may not write ends early
			time.Sleep(busyPause)
		}
	}()
	switch c.Do {
	case "pack":
		return pack(os.Stdout, c.Path, filepath.Base(c.Path))
	case "unpack":
		err := os.MkdirAll(c.Path, 0o755)
		if err == nil {
			err = unpack(os.Stdin, c.Path, "")
		}
		if err != nil { // the sender would wait until its archive is read
			fmt.Println("enough")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
		return err
	}
	info, err := os.Stat(c.Path)
	switch {
	case err != nil:
		fmt.Println("none")
	case info.IsDir():
		fmt.Println("dir")
	default:
		fmt.Println("file")
	}
	return nil
}
