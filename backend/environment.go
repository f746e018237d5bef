package backend

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fiber-go/fiber/meta"
)

// Limits returns the variables that tell a Go program how much it may use.
func Limits(r meta.Resources) map[string]string {
	set := map[string]string{}
	if r.CPU > 0 {
		set["GOMAXPROCS"] = strconv.Itoa(int(math.Ceil(r.CPU)))
	}
	if r.Memory > 0 {
		// A tenth is left for memory that the Go runtime does not count.
		set["GOMEMLIMIT"] = fmt.Sprintf("%dKiB", r.Memory*1024*9/10)
	}
	return set
}

// With returns env with the variables of set, which replace those of the same
// name.
func With(env []string, set map[string]string) []string {
	all := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		_, replaced := set[key]
		return replaced
	})
	for key, value := range set {
		all = append(all, key+"="+value)
	}
	return all
}
