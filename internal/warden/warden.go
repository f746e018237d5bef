// Package warden ends what a run's processes have started when nobody else is
// left to do it.
//
// A worker on this machine leads a process group of its own, and what it starts
// is in that group. The parent kills the group before it reaps the worker. When
// the parent is gone as well, because it was killed itself, the guard does it:
// one process for each run, started with the run's first child.
//
// The root holds one end of a socket and hands it on to every process of the
// run; the guard holds the other. A process enrols before its program is
// initialised, by sending a descriptor of itself (a pidfd). When it has ended,
// however it ended, the guard kills its group. When every process of the run
// has ended the socket does too: then the guard kills what is left, and itself.
//
// The guard leads a group, too: that of the root's own commands.
//
// A process id names another process once it is free, so the guard never goes
// by the number alone. Linux 6.9 kills the group of a pidfd: the descriptor
// keeps the group's identity, whoever has the number by now. Before that, the
// number is known to be ours in two cases. The leader has not been reaped: it
// holds its number itself. Or it has been reaped and no process has the number:
// the kernel gives a number away only when no process and no group uses it, so
// a group of that number is still the leader's. If a process does have the
// number, the group had become empty before, and nothing is killed.
package warden
