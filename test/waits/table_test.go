//go:build unix

package waits_test

import (
	"errors"
	"slices"
)

var errUnknownOutcome = errors.New("the outcome is unknown")

var table = slices.Concat(constructors, dicts, sequences, values, events, barriers, locks, managed, queues)
