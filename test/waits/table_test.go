//go:build unix

package waits_test

import "slices"

var table = slices.Concat(constructors, dicts, sequences, values, events, barriers, locks, managed, queues,
	simpleQueues, sharedValues, pipes, pools, processes, programs)
