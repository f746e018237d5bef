//go:build unix

// Package resume tests what outlives a run.
package resume_test

import (
	"testing"

	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) { fibertest.Main(m) }
