package submit

import (
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/container/logmux"
	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
)

// apart returns a writer that splits a pod's log into the program's stdout and stderr, if the program marks them. Otherwise
// all goes to stdout.
func apart(pod *corev1.Pod, stdout, stderr io.Writer) io.WriteCloser {
	for key, value := range pid1.Environment() {
		for _, e := range kube.Main(pod).Env {
			if e.Name == key && e.Value == value {
				s := &split{out: keeper{to: stdout}, err: keeper{to: stderr}}
				s.reader = logmux.Reader{Stdout: &s.out, Stderr: &s.err}
				return s
			}
		}
	}
	return plain{stdout}
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

type split struct {
	reader   logmux.Reader
	out, err keeper
}

func (s *split) Write(p []byte) (int, error) {
	_, _ = s.reader.Write(p) // never fails
	return len(p), s.out.failed
}

func (s *split) Close() error {
	s.reader.Close()
	return s.out.failed
}

// keeper remembers the first error of a write, and drops what follows.
type keeper struct {
	to     io.Writer
	failed error
}

func (k *keeper) Write(p []byte) (int, error) {
	if k.failed == nil {
		_, k.failed = k.to.Write(p)
	}
	return len(p), nil
}
