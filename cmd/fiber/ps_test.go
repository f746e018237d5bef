package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A creation time in the future, by this machine's clock, counts as now.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for ago, want := range map[time.Duration]string{
			-24 * time.Hour: "0s", 0: "0s", 90 * time.Second: "90s", 90 * time.Minute: "90m", 24 * time.Hour: "24h", 72 * time.Hour: "3d",
		} {
			assert.Equal(t, want, age(time.Now().Add(-ago)))
		}
	})
}
