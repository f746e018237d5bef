package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// busyFile says by its time that files are copied.
	busyFile = "/tmp/.fiber-busy"
	// idle is how long a pod for copying stays when nothing is: its fiber cp is gone.
	idle = 90 * time.Second
)

// holdCommand is what a pod of fiber cp does.
type holdCommand struct{}

func (holdCommand) Run() error {
	touch()
	for {
		time.Sleep(idle / 10)
		if info, err := os.Stat(busyFile); err != nil || time.Since(info.ModTime()) > idle {
			return nil
		}
	}
}

func touch() { _ = os.WriteFile(busyFile, nil, 0o666) } // a pod that may not write ends early

// tarCommand is what fiber cp has done in its pod.
type tarCommand struct {
	Do   string `arg:"" enum:"stat,pack,unpack"`
	Path string `arg:""`
}

func (c *tarCommand) Run() error {
	go func() {
		for {
			touch()
			time.Sleep(idle / 10)
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
		if err != nil { // what is sent and not read would be waited for
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
