package codec_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/codec"
)

type sample struct {
	Seed  int
	Score float64
	Theta []float64
}

func Benchmark(b *testing.B) {
	rows := make([][]float64, 10_000)
	for i := range rows {
		rows[i] = []float64{float64(i), 1}
	}
	samples := make([]sample, 100)
	for i := range samples {
		samples[i] = sample{i, 1.5, make([]float64, 100)}
	}
	for _, c := range []struct {
		name string
		v    any
	}{
		{"OneInt", []int{5}},
		{"MillionFloats", make([]float64, 1_000_000)},
		{"MillionInts", make([]int, 1_000_000)},
		{"100Structs", samples},
		{"Rows", rows},
		{"Points", make([][2]float64, 10_000)},
		{"Strings", make([]string, 1000)},
		{"10000Own", make([]bin, 10_000)}, // each with methods of its own
		{"OneOwn", []bin{{}}},
		{"Everything", everything()},
	} {
		b.Run(c.name+"/Marshal", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.Marshal(c.v); err != nil {
					b.Fatal(err)
				}
			}
		})
		frames, err := codec.Marshal(c.v)
		require.NoError(b, err)
		out := reflect.New(reflect.TypeOf(c.v)).Interface()
		b.Run(c.name+"/Unmarshal", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := codec.Unmarshal(frames, out); err != nil {
					b.Fatal(err)
				}
			}
		})
		plain, err := msgpack.Marshal(c.v)
		if err != nil {
			continue // msgpack has no complex numbers
		}
		b.Run(c.name+"/msgpack.Marshal", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := msgpack.Marshal(c.v); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/msgpack.Unmarshal", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out := reflect.New(reflect.TypeOf(c.v)).Interface()
				if err := msgpack.Unmarshal(plain, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
