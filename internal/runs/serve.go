package runs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"github.com/fiber-go/fiber/internal/retry"
)

// PortKey is the environment variable of a container's init with the port at which it says how the program is.
const PortKey = "FIBER_STATUS_PORT"

// answerTime is how long an init waits for an answer of its program.
const answerTime = 10 * time.Second

// Serve answers at a listener, until that is closed, for the only run of a container: for each line that comes, a line with its status.
func Serve(l net.Listener, runtimeDir func() string) {
	retry.Accept(l, func(conn net.Conn) {
		defer conn.Close()
		out := json.NewEncoder(conn)
		for in := bufio.NewScanner(conn); in.Scan(); {
			if out.Encode(answer(runtimeDir())) != nil {
				return
			}
		}
	})
}

// Answered is a line of an answer.
type Answered struct {
	Status Status `json:"status"`
	Silent bool   `json:"silent,omitempty"` // the program does not answer
	Ended  bool   `json:"ended,omitempty"`
	Err    string `json:"error,omitempty"`
}

func answer(runtimeDir string) (a Answered) {
	all := List(runtimeDir)
	if len(all) == 0 {
		a.Err = "the program does not use Fiber, or not yet, or sets runtime_dir in its code"
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	s, err := all[0].Ask(ctx)
	a.Status, a.Silent, a.Ended = s, errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrEnded)
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

// AskOver asks an init at the other end of a connection.
func AskOver(conn io.ReadWriter) (a Answered, err error) {
	if _, err := conn.Write([]byte("\n")); err != nil {
		return a, err
	}
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	return a, err
}
