package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/fiber-go/fiber"
)

//go:embed cartpole.py
var script string

// Env is a Python program that plays episodes, one at a time.
type Env struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// openEnv starts a program that crashes in a share of its episodes.
func openEnv(ctx context.Context, crash float64) (*Env, error) {
	cmd := fiber.Command(ctx, "python3", "-c", script, fmt.Sprint(crash))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; on docker and Kubernetes, FIBER_BASE_IMAGE names an image with python3", err)
	}
	return &Env{cmd, in, bufio.NewReader(out)}, nil
}

// closeEnv has the program end, and waits for it.
func closeEnv(ctx context.Context, e *Env) error {
	stop := context.AfterFunc(ctx, func() { _ = e.cmd.Process.Kill() })
	defer stop()
	_ = e.in.Close()
	err := e.cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil // it has crashed before, which its task knows
	}
	return err
}

// Episode plays an episode with a policy, and returns for how many steps the pole has stood. At an error, or when ctx
// ends, the program is of no more use.
func (e *Env) Episode(ctx context.Context, seed uint64, p Policy) (steps int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = e.cmd.Process.Kill() })
	defer stop()
	request, _ := binary.Append(nil, binary.LittleEndian, struct {
		Seed   uint64
		Policy Policy
	}{seed, p})
	framed := append(binary.LittleEndian.AppendUint32(nil, uint32(len(request))), request...)
	if _, err := e.in.Write(framed); err != nil {
		return 0, err
	}
	var size, answer uint32
	if err := binary.Read(e.out, binary.LittleEndian, &size); err != nil {
		return 0, err
	}
	if size != 4 {
		return 0, fmt.Errorf("an answer of %d bytes", size)
	}
	err = binary.Read(e.out, binary.LittleEndian, &answer)
	return int(answer), err
}
