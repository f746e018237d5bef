package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// awayKey is set in the environment of the process that moves to the cluster.
const awayKey = "SOAK_AWAY"

// away runs this program in a pod on a node of the cluster, as for a user outside, and kills from here.
func (s *soak) away(parent context.Context) error {
	if s.ground.rights == nil {
		return errors.New("-root: only a cluster has nodes")
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	template := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(template, []byte("spec: {nodeName: "+s.root+"}\n"), 0o600); err != nil {
		return err
	}
	if _, err := lines(parent, s.ground.rights); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(parent, self, "-for", s.duration.String(), "-every", "0", "-lulls", "0", "-killed", "-seed", strconv.FormatUint(s.seed, 10),
		"-patience", s.patience.String(), "-bound", s.bound.String(), "-only", s.only, "-workers", strconv.Itoa(s.workers), "-plant", s.plant,
		"-print", strconv.FormatFloat(s.print, 'g', -1, 64))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // as a user does
	cmd.Env = append(os.Environ(), awayKey+"=yes", "FIBER_ENV=", "FIBER_HOST=", "FIBER_POD_TEMPLATE="+template)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	var killing sync.WaitGroup
	killing.Go(func() { s.killer.rage(parent) })
	killing.Go(func() { s.killer.trouble(parent) })
	killing.Go(func() { s.killer.lull(parent) })
	killing.Go(func() { s.wait(parent) })
	defer context.AfterFunc(s.failed, func() { cmd.Cancel() })()
	err = cmd.Wait()
	err = errors.Join(context.Cause(s.failed), err)
	s.failWith(nil) // ends the killing
	killing.Wait()
	fmt.Println(s.killer)
	s.reader.settle(s)
	return errors.Join(err, s.faults.err())
}
