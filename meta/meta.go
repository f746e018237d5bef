// Package meta describes the resources that a registered function needs: CPU cores, memory and GPUs. Each
// backend grants them in its own way, and has its own defaults for resources that are not set.
package meta

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Resources describes what one job needs. A zero field is not set.
type Resources struct {
	CPU    float64 // cores
	Memory int     // MiB
	GPU    int     // devices
}

// IsZero reports whether no field is set.
func (r Resources) IsZero() bool { return r == Resources{} }

// String returns one line, such as "cpu 1, memory 200 MiB, gpu 1", or "no resources".
func (r Resources) String() string {
	var parts []string
	if r.CPU != 0 {
		parts = append(parts, "cpu "+cores(r.CPU))
	}
	if r.Memory != 0 {
		parts = append(parts, fmt.Sprintf("memory %d MiB", r.Memory))
	}
	if r.GPU != 0 {
		parts = append(parts, fmt.Sprintf("gpu %d", r.GPU))
	}
	if parts == nil {
		return "no resources"
	}
	return strings.Join(parts, ", ")
}

func cores(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Collect returns the resources that opts ask for together. It returns an error for a value that is not
// allowed, and for an option that is given twice with different values.
func Collect(opts ...Option) (Resources, error) {
	var c collection
	for _, o := range opts {
		if o == nil {
			return Resources{}, fmt.Errorf("meta: an option is nil")
		}
		if err := o.apply(&c); err != nil {
			return Resources{}, err
		}
	}
	return c.Resources, nil
}

// collection collects Resources from options.
type collection struct {
	Resources
	gpu bool // GPU was given, if only as 0
}

// Option asks for a resource. Create it with [CPU], [Memory] or [GPU].
type Option interface {
	apply(*collection) error
}

// CPU asks for a number of cores, more than 0. Fractions are allowed.
func CPU(cores float64) Option { return cpu(cores) }

// Memory limits the job to a number of MiB, more than 0.
func Memory(mib int) Option { return memory(mib) }

// GPU asks for a number of devices. 0 asks for none explicitly.
func GPU(n int) Option { return gpu(n) }

type cpu float64

func (n cpu) apply(c *collection) error {
	f := float64(n)
	switch {
	case !(f > 0) || math.IsInf(f, 0):
		return fmt.Errorf("meta: CPU(%v): cores must be a number above 0", f)
	case c.CPU != 0 && c.CPU != f:
		return fmt.Errorf("meta: CPU is given twice, as %s and as %s", cores(c.CPU), cores(f))
	}
	c.CPU = f
	return nil
}

type memory int

func (n memory) apply(c *collection) error {
	switch {
	case n <= 0:
		return fmt.Errorf("meta: Memory(%d): MiB must be above 0", n)
	case c.Memory != 0 && c.Memory != int(n):
		return fmt.Errorf("meta: Memory is given twice, as %d and as %d", c.Memory, n)
	}
	c.Memory = int(n)
	return nil
}

type gpu int

func (n gpu) apply(c *collection) error {
	switch {
	case n < 0:
		return fmt.Errorf("meta: GPU(%d): devices must be 0 or more", n)
	case c.gpu && c.GPU != int(n):
		return fmt.Errorf("meta: GPU is given twice, as %d and as %d", c.GPU, n)
	}
	c.GPU, c.gpu = int(n), true
	return nil
}
