package backend

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fiber-go/fiber/meta"
)

// Limits are the variables by which a Go program learns what it may use.
func Limits(r meta.Resources) map[string]string {
	set := map[string]string{}
	if r.CPU > 0 {
		set["GOMAXPROCS"] = strconv.Itoa(int(math.Ceil(r.CPU)))
	}
	if r.Memory > 0 {
		// A tenth is left for what the Go runtime does not count.
		set["GOMEMLIMIT"] = fmt.Sprintf("%dKiB", r.Memory*1024*9/10)
	}
	return set
}

// With is an environment with some variables set, in place of what it had.
func With(env []string, set map[string]string) []string {
	all := make([]string, 0, len(env)+len(set))
	for _, kv := range env {
		key, _, _ := strings.Cut(kv, "=")
		if _, ok := set[key]; !ok {
			all = append(all, kv)
		}
	}
	for key, value := range set {
		all = append(all, key+"="+value)
	}
	return all
}
