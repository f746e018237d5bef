//go:build unix

package settings_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/test/fibertest"
)

// keys are the settings, in the order of config.Config. A field without a key is for code alone.
func keys() (all []string) {
	for f := range reflect.TypeFor[config.Config]().Fields() {
		if key := f.Tag.Get("key"); key != "" {
			all = append(all, key)
		}
	}
	return all
}

func TestTableHasAllSettings(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, r := range table {
		rows = append(rows, r.key)
	}
	require.Equal(t, keys(), rows, "A is a setting, B is in the table")
}

// sources give settings to a program: as variables, in the file, or in its code.
var sources = map[string]func(t *testing.T, given map[string]string) (env []string){
	"environment": func(_ *testing.T, given map[string]string) (env []string) {
		for key, value := range given {
			env = append(env, variable(key)+"="+value)
		}
		return env
	},
	"file": func(_ *testing.T, given map[string]string) []string {
		file := ""
		for key, value := range given {
			file += key + " = " + value + "\n"
		}
		return []string{"fiberconfig=" + file, "FIBER_ENV="}
	},
	"code": func(t *testing.T, given map[string]string) []string {
		var environ []string
		for key, value := range given {
			environ = append(environ, variable(key)+"="+value)
		}
		code, _, err := config.Load(config.Config{}, config.Sources{Environ: environ, Dir: t.TempDir()})
		require.NoError(t, err)
		fields := reflect.ValueOf(&code).Elem()
		for f := range fields.Type().Fields() {
			if given[f.Tag.Get("key")] == "" { // it has a default
				fields.FieldByIndex(f.Index).SetZero()
			}
		}
		text, err := json.Marshal(code)
		require.NoError(t, err)
		return []string{codeKey + "=" + string(text)}
	},
}

func variable(key string) string { return "FIBER_" + strings.ToUpper(key) }

// Each setting has its effect in the root, in a worker of the root and in a worker of that one, whichever source it comes
// from.
func TestSettings(t *testing.T) {
	t.Parallel()
	switch places()[0] {
	case docker:
		t.Cleanup(func() { exec.Command("docker", "rmi", markedImage).Run() }) // there is none if the test has failed early
	case outside:
		haveGPUs(t)
	}
	for _, place := range places() {
		for source, give := range sources {
			for name, run := range map[string]int{"full": full, "brief": brief} {
				t.Run(strings.Join([]string{place, source, name}, "/"), func(t *testing.T) {
					t.Parallel()
					if place != docker {
						room <- struct{}{}
						defer func() { <-room }()
					}
					g := prepare(t, place)
					given := map[string]string{}
					for _, r := range table {
						if value := r.value(g); r.runs&run != 0 && value != "" {
							given[r.key] = value
						}
					}
					var env []string
					for _, key := range keys() {
						env = append(env, variable(key)+"=") // not that of the tests
					}
					if run == brief {
						env = append(env, briefKey+"=yes")
					} else if g.kubernetes() {
						env = append(env, gpuKey+"=yes")
					}
					all := g.run(t, append(env, give(t, given)...))
					for _, r := range table {
						if r.runs&run == 0 {
							continue
						}
						for level, pattern := range r.effect(g) {
							if !strings.HasPrefix(pattern, "- ") {
								assert.Regexp(t, pattern, all[level][r.key], "%s at level %d", r.key, level)
							}
						}
					}
				})
			}
		}
	}
}

// room is for as many programs on a cluster as a node of two cores can start and end in time: each has twenty pods.
var room = make(chan struct{}, 3)

// run runs the program and returns what its processes see, and what is seen of them from here.
func (g *ground) run(t *testing.T, env []string) (all []seen) {
	t.Helper()
	x := fibertest.Start(t, "settings", env...)
	line := regexp.MustCompile(`(?m)^seen (.*)$`)
	fibertest.Eventually(t, 3*fibertest.Patience, func() bool {
		select {
		case <-x.Done:
			require.FailNow(t, "it has ended")
		default:
		}
		return line.MatchString(x.Out.String())
	}, "it never says what it has seen")
	require.NoError(t, json.Unmarshal([]byte(line.FindStringSubmatch(x.Out.String())[1]), &all))
	if g.kubernetes() {
		g.seePods(t, x, all)
	}
	x.SignalRoot(syscall.SIGINT)
	require.Equal(t, 128+int(syscall.SIGINT), x.Wait(fibertest.Patience))

	for key, name := range map[string]string{"report": "run.html", "trace": "run.json.gz"} {
		if found, err := os.Stat(filepath.Join(g.logs, name)); err == nil && found.Size() > 0 {
			all[0][key] = "written"
		}
	}
	if regexp.MustCompile(`(?m)fiber: dashboard: http://127\.0\.0\.1:\d+/\?token=\w{26}$`).MatchString(x.Err.String()) {
		all[0]["dashboard"] = "printed"
	}
	if regexp.MustCompile(`(?m)fiber: metrics: http://127\.0\.0\.1:\d+/metrics$`).MatchString(x.Err.String()) {
		all[0]["metrics"] = "printed"
	}
	logs, err := filepath.Glob(filepath.Join(g.logs, "*.log"))
	require.NoError(t, err)
	var inFiles strings.Builder
	for _, file := range logs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		inFiles.Write(text)
	}
	for level, s := range all {
		started := regexp.MustCompile(fmt.Sprintf(`level=(\w+) msg="fiber: started" process=Level%d-`, level+1))
		killed := regexp.MustCompile(fmt.Sprintf(`worker=Stuck%d-.* after (\S+) \(cancel_grace\)`, level))
		for where, text := range map[string]string{"file": inFiles.String(), "stderr": x.Err.String()} {
			if found := started.FindStringSubmatch(text); found != nil {
				s["log_level"], s["log_file"] = found[1], where
			}
			if found := killed.FindStringSubmatch(text); found != nil {
				s["cancel_grace"] += " after " + found[1]
			}
		}
		voice, how := fmt.Sprintf("voice of level %d", level), "silent"
		switch out := "\n" + x.Out.String(); {
		case strings.Contains(out, "\n"+voice+"\n"):
			how = "bare"
		case strings.Contains(out, voice):
			how = "named"
		}
		s["forward_logs"], s["log_prefix"] = how, how
	}
	return all
}

// somePod is what is looked at of a pod.
type somePod struct {
	Metadata struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
		OwnerReferences     []struct{ Name string }
	}
	Spec struct {
		Containers []struct {
			Image     string
			Resources struct{ Limits map[string]string }
		}
	}
}

// seePods adds what is seen of a program's pods.
func (g *ground) seePods(t *testing.T, x *fibertest.Execution, all []seen) {
	t.Helper()
	var list struct{ Items []somePod }
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "get", "pods", "-A", "-l", "app.kubernetes.io/managed-by=fiber", "-o", "json")), &list))
	root := ""
	if found := regexp.MustCompile(`(?m)^Created pod: (\S+)$`).FindStringSubmatch(x.Err.String()); found != nil {
		root = found[1]
	}
	for _, p := range list.Items {
		m := p.Metadata
		fields := strings.Fields(m.Annotations["fiber.root"])
		level := -1
		switch {
		case root != "" && m.Name == root:
			level = 0
		case root != "" && len(m.OwnerReferences) == 1 && m.OwnerReferences[0].Name == root,
			root == "" && len(fields) == 4 && fields[2] == strconv.Itoa(x.Cmd.Process.Pid):
			if _, err := fmt.Sscanf(m.Labels["fiber.name"], "Level%d-", &level); err != nil {
				continue
			}
		default:
			continue
		}
		s, main := all[level], p.Spec.Containers[0]
		s["registry"], s["kubernetes_namespace"], s["pod_template"] = main.Image, m.Namespace, m.Labels["settings"]
		for resource, n := range main.Resources.Limits {
			if strings.Contains(resource, "/") {
				s["kubernetes_gpu_resource"] = n + " " + resource
				s["root_gpu"] = s["kubernetes_gpu_resource"]
			}
		}
	}
}
