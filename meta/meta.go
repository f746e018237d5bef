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
		parts = append(parts, "cpu "+strconv.FormatFloat(r.CPU, 'f', -1, 64))
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

// Collect returns the resources that opts ask for together. It returns an error for a value that is not
// allowed, and for an option that is given twice with different values.
func Collect(opts ...Option) (Resources, error) {
	c := collection{given: map[string]any{}}
	for i, o := range opts {
		if o == nil {
			return Resources{}, fmt.Errorf("meta: option %d of %d is nil; leave it out", i+1, len(opts))
		}
		if err := o.collect(&c); err != nil {
			return Resources{}, err
		}
	}
	return c.Resources, nil
}

// collection collects Resources from options.
type collection struct {
	Resources
	given map[string]any // by option
}

// once returns an error if an option is given a second time, with another value.
func (c *collection) once(option string, value any) error {
	old, given := c.given[option]
	c.given[option] = value
	if given && old != value {
		return fmt.Errorf("meta: %s is given twice, as %v and as %v", option, old, value)
	}
	return nil
}

// Option asks for a resource. Create it with [CPU], [Memory] or [GPU].
type Option interface{ collect(*collection) error }

type option func(*collection) error

func (o option) collect(c *collection) error { return o(c) }

// CPU asks for a number of cores, more than 0. Fractions are allowed.
func CPU(n float64) Option {
	return option(func(c *collection) error {
		if !(n > 0) || math.IsInf(n, 0) {
			return fmt.Errorf("meta: CPU(%v): cores must be a number above 0", n)
		}
		c.CPU = n
		return c.once("CPU", n)
	})
}

// Memory limits the job to a number of MiB, more than 0.
func Memory(mib int) Option {
	return option(func(c *collection) error {
		if mib <= 0 {
			return fmt.Errorf("meta: Memory(%d): MiB must be above 0", mib)
		}
		c.Memory = mib
		return c.once("Memory", mib)
	})
}

// GPU asks for a number of devices. 0 asks for none explicitly.
func GPU(n int) Option {
	return option(func(c *collection) error {
		if n < 0 {
			return fmt.Errorf("meta: GPU(%d): devices must be 0 or more", n)
		}
		c.GPU = n
		return c.once("GPU", n)
	})
}
