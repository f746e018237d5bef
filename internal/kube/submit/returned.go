package submit

import (
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Returned returns the files that a program is to make here, by their settings: those that are not on a volume of its pod.
func Returned(cfg config.Config) map[string]string {
	claims, _ := kube.ParseClaims(cfg.KubernetesVolumes) // which are checked elsewhere
	files := map[string]string{}
	for key, file := range map[string]string{"report": cfg.Report, "trace": cfg.Trace} {
		on := func(c kube.Claim) bool {
			return file == c.Path || strings.HasPrefix(filepath.ToSlash(file), strings.TrimSuffix(c.Path, "/")+"/")
		}
		if file != "" && !slices.ContainsFunc(claims, on) {
			files[key] = file
		}
	}
	return files
}

// inPod returns where a program makes such a file.
func inPod(file string) string { return path.Join("/tmp", filepath.Base(file)) }

// returns has the program's pod send the files, if somebody follows it.
func (r *Run) returns(job *Job) {
	if len(r.Returned) == 0 {
		return
	}
	keys := slices.Sorted(maps.Keys(r.Returned))
	if r.Detach {
		for _, key := range keys {
			r.Report.Say("fiber: nobody follows the program, so that its %s stays in the pod and is lost with it; name a path on one of its volumes", key)
		}
		return
	}
	job.Env = append(job.Env[:len(job.Env):len(job.Env)], stdio.ReturnKey+"="+strings.Join(keys, ","))
	r.Report.takes = &taker{files: r.Returned, open: map[string]*os.File{}, say: r.Report.Say}
}

// taker writes files that a program sends in pieces; see stdio.ReturnKind.
type taker struct {
	mu    sync.Mutex
	over  bool
	files map[string]string // paths by settings
	open  map[string]*os.File
	say   func(format string, args ...any)
}

// take takes a piece.
func (t *taker) take(payload []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, piece, _ := strings.Cut(string(payload), " ")
	size, last := strings.CutPrefix(piece, "=")
	file := t.files[key]
	if file == "" || t.over {
		return
	}
	var err error
	if last {
		err = t.end(key, file, size)
	} else {
		err = t.write(key, file, piece)
	}
	switch {
	case err != nil:
		delete(t.files, key)
		t.say("fiber: the %s could not be written: %v", key, err)
	case last:
		t.say("fiber: the %s is in %s", key, file)
	}
}

func (t *taker) write(key, file, piece string) (err error) {
	f := t.open[key]
	if f == nil {
		if f, err = os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-"); err != nil {
			return err
		}
		t.open[key] = f
	}
	data, err := base64.StdEncoding.DecodeString(piece)
	if err == nil {
		_, err = f.Write(data)
	}
	if err != nil {
		t.drop(key)
	}
	return err
}

var errGaps = errors.New("it has not come as a whole")

// end has a file be in its place, if all of it has come.
func (t *taker) end(key, file, size string) (err error) {
	f := t.open[key]
	if f == nil {
		return errGaps
	}
	defer t.drop(key)
	at, err := f.Stat()
	if err == nil && strconv.FormatInt(at.Size(), 10) != size {
		err = errGaps
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	return err
}

// drop ends the writing of a file, and removes it unless it is in its place.
func (t *taker) drop(key string) {
	f := t.open[key]
	delete(t.open, key)
	f.Close()
	os.Remove(f.Name())
}

// close removes what has not come as a whole.
func (t *taker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for key := range t.open {
		t.drop(key)
		t.say("fiber: the %s could not be written: %v", key, errGaps)
	}
}
