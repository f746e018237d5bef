package meta_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fiber-go/fiber/meta"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		opts []meta.Option
		want meta.Resources
		text string
	}{
		{nil, meta.Resources{}, "no resources"},
		{[]meta.Option{meta.CPU(1), meta.Memory(200), meta.GPU(1)}, meta.Resources{CPU: 1, Memory: 200, GPU: 1}, "cpu 1, memory 200 MiB, gpu 1"},
		{[]meta.Option{meta.CPU(0.25)}, meta.Resources{CPU: 0.25}, "cpu 0.25"},
		{[]meta.Option{meta.CPU(1e6)}, meta.Resources{CPU: 1e6}, "cpu 1000000"},
		{[]meta.Option{meta.GPU(0)}, meta.Resources{}, "no resources"},
		{[]meta.Option{meta.GPU(0), meta.GPU(0)}, meta.Resources{}, "no resources"},
		{[]meta.Option{meta.Memory(5), meta.CPU(2), meta.Memory(5), meta.CPU(2)}, meta.Resources{CPU: 2, Memory: 5}, "cpu 2, memory 5 MiB"},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			got, err := meta.Collect(test.opts...)
			assert.NoError(t, err)
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.text, got.String())
			assert.Equal(t, test.want == meta.Resources{}, got.IsZero())
		})
	}
}

func TestCollectRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		opts []meta.Option
		want string
	}{
		{[]meta.Option{meta.CPU(0)}, "meta: CPU(0): cores must be a number above 0"},
		{[]meta.Option{meta.CPU(-1.5)}, "meta: CPU(-1.5): cores must be a number above 0"},
		{[]meta.Option{meta.CPU(math.NaN())}, "meta: CPU(NaN): cores must be a number above 0"},
		{[]meta.Option{meta.CPU(math.Inf(1))}, "meta: CPU(+Inf): cores must be a number above 0"},
		{[]meta.Option{meta.CPU(math.Inf(-1))}, "meta: CPU(-Inf): cores must be a number above 0"},
		{[]meta.Option{meta.Memory(0)}, "meta: Memory(0): MiB must be above 0"},
		{[]meta.Option{meta.Memory(-1)}, "meta: Memory(-1): MiB must be above 0"},
		{[]meta.Option{meta.GPU(-1)}, "meta: GPU(-1): devices must be 0 or more"},
		{[]meta.Option{meta.CPU(1), meta.CPU(2)}, "meta: CPU is given twice, as 1 and as 2"},
		{[]meta.Option{meta.Memory(1), meta.Memory(2)}, "meta: Memory is given twice, as 1 and as 2"},
		{[]meta.Option{meta.GPU(0), meta.GPU(1)}, "meta: GPU is given twice, as 0 and as 1"},
		{[]meta.Option{nil}, "meta: option 1 of 1 is nil; leave it out"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			got, err := meta.Collect(test.opts...)
			assert.EqualError(t, err, test.want)
			assert.True(t, got.IsZero())
		})
	}
}

func ExampleCollect() {
	r, err := meta.Collect(meta.CPU(0.5), meta.Memory(200))
	fmt.Println(r, err)
	// Output: cpu 0.5, memory 200 MiB <nil>
}
