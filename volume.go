package fiber

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/self"
)

// contained reports whether this process is in a container, whose files end with it.
func (p *process) contained() bool {
	if parent := p.node.Parent; parent != nil {
		switch parent.Assign.Backend {
		case "docker", "kubernetes":
			return true
		}
	}
	b, _ := backend.Named(p.node.Config.Backend)
	return b.Here != nil && b.Here()
}

// passing are the types of file systems that end with a container.
var passing = []string{"overlay", "tmpfs", "ramfs", "devtmpfs", "proc", "sysfs"}

// outlives returns an error if a file for later runs would end with this process's container.
func outlives(path string) error {
	p := here()
	if p == nil || self.Of().Disk != nil || !p.contained() {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // no Linux
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(full); err == nil {
		full = target
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(dir, filepath.Base(full))
	}
	if at, typ := mountOf(mounts, full); at == "/" || slices.Contains(passing, typ) {
		return fmt.Errorf("%s is a file of this container, and ends with it; use a volume: fiber run -v, FIBER_KUBERNETES_VOLUMES or FIBER_DOCKER_VOLUMES", full)
	}
	return nil
}

// mountOf returns where the file system of a path is mounted, and its type, according to a process's mountinfo.
func mountOf(mountinfo []byte, path string) (at, typ string) {
	for lines := bufio.NewScanner(bytes.NewReader(mountinfo)); lines.Scan(); {
		left, right, _ := strings.Cut(lines.Text(), " - ")
		fields, types := strings.Fields(left), strings.Fields(right)
		if len(fields) < 5 || len(types) == 0 {
			continue
		}
		point, err := strconv.Unquote(`"` + fields[4] + `"`) // a space is \040
		if err != nil {
			point = fields[4]
		}
		if inside := point == "/" || path == point || strings.HasPrefix(path, point+"/"); inside && len(point) >= len(at) {
			at, typ = point, types[0] // of two at one place, the later one is on top
		}
	}
	return at, typ
}
