//go:build race

package simulate

// racing says that the race detector looks on: what a process writes to a shared value, which it must not, races with what passes
// the value on.
const racing = true
