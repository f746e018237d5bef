package backend_test

import (
	"fmt"
	"strconv"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/local"
)

// Modest is the local backend with a setting and an accelerator of its own.
func ExampleRegister() {
	backend.Register(backend.Plugin{
		Name: "modest",
		Settings: []backend.Setting{{Key: "modest_jobs", Meaning: "How many jobs run at a time.", Default: "4",
			Allowed: "a number", Fits: func(s string) bool { _, err := strconv.Atoi(s); return err == nil }}},
		Make: func(o backend.Options) (backend.Backend, error) {
			fmt.Println("at most", o.Setting("modest_jobs"), "jobs")
			return local.New(), nil
		},
	})
	p, _ := backend.Named("modest") // as Init does, with FIBER_BACKEND=modest
	p.Make(backend.Options{Setting: func(string) string { return "4" }})
	// Output: at most 4 jobs
}
