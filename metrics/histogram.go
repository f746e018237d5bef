package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// schema says how fine the buckets of a native histogram are: each is larger than the one before by the factor of 2^(2^-schema).
const schema = 2

// bounds are the upper ends, in seconds, of the buckets for a Prometheus that has no native histograms.
var bounds = []float64{0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000}

// histogram counts times, many at once if they are the same. Prometheus' own has no such thing.
type histogram struct {
	count, zero uint64
	sum         float64
	native      map[int]int64
	classic     []uint64
}

// observe adds so many of the same time.
func (h *histogram) observe(d time.Duration, n int) {
	if n <= 0 {
		return
	}
	if h.native == nil {
		h.native, h.classic = map[int]int64{}, make([]uint64, len(bounds))
	}
	s := max(d.Seconds(), 0)
	h.count += uint64(n)
	h.sum += s * float64(n)
	if s == 0 {
		h.zero += uint64(n)
	} else {
		h.native[int(math.Ceil(math.Log2(s)*(1<<schema)))] += int64(n)
	}
	for i, b := range bounds {
		if s <= b {
			h.classic[i] += uint64(n)
		}
	}
}

// metric returns what is counted since a time, with both kinds of buckets.
func (h *histogram) metric(desc *prometheus.Desc, since time.Time, labels ...string) prometheus.Metric {
	native := prometheus.MustNewConstNativeHistogram(desc, h.count, h.sum, h.native, nil, h.zero, schema, 0, since, labels...)
	both := bothKinds{native, make([]*dto.Bucket, len(h.classic))}
	for i, n := range h.classic {
		both.classic[i] = &dto.Bucket{CumulativeCount: &n, UpperBound: &bounds[i]}
	}
	return both
}

// bothKinds is a native histogram that has classic buckets, too.
type bothKinds struct {
	prometheus.Metric
	classic []*dto.Bucket
}

func (b bothKinds) Write(out *dto.Metric) error {
	err := b.Metric.Write(out)
	if err == nil {
		out.Histogram.Bucket = b.classic
	}
	return err
}
