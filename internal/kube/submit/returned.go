package submit

import (
	"encoding/base64"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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

// taker writes files that a program sends in pieces; see stdio.Return.
type taker struct {
	files map[string]string // paths by settings
	open  map[string]*os.File
	say   func(format string, args ...any)
}

// take takes a piece.
func (t *taker) take(payload []byte) {
	key, piece, last := strings.Cut(string(payload), " ")
	last = !last
	file := t.files[key]
	if file == "" {
		return
	}
	err := t.write(key, file, piece, last)
	switch {
	case err != nil:
		delete(t.files, key)
		t.say("fiber: the %s could not be written: %v", key, err)
	case last:
		t.say("fiber: the %s is in %s", key, file)
	}
}

func (t *taker) write(key, file, piece string, last bool) (err error) {
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
	if err == nil && !last {
		return nil
	}
	delete(t.open, key)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if failed := f.Close(); err == nil {
		err = failed
	}
	if err == nil {
		return os.Rename(f.Name(), file)
	}
	os.Remove(f.Name())
	return err
}

// close removes what has not come as a whole.
func (t *taker) close() {
	for key, f := range t.open {
		f.Close()
		os.Remove(f.Name())
		t.say("fiber: the %s has not come as a whole", key)
	}
	clear(t.open)
}
