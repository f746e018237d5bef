package kube

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff is how long to wait before something is tried again: from 100 ms on twice as long each time, up to the longest.
func Backoff(longest time.Duration) wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: longest, Steps: math.MaxInt}
}

// LongestPause is the longest pause before a connection is opened again.
const LongestPause = 5 * time.Second
