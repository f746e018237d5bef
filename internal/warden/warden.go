// Package warden ends the programs that a run's processes have started, even if
// those processes and their parents were killed.
//
// A worker on this machine leads a process group of its own, and the programs
// that it starts are in that group. The parent kills the group before it reaps
// the worker. If the parent was killed itself, the guard does it: one process for
// each run, started with the run's first child.
//
// The root holds one end of a socket and passes it on to every process of the
// run; the guard holds the other. A process enrols before its program is
// initialised, by sending a descriptor of itself (a pidfd). When it has ended,
// however it ended, the guard kills its group. When every process of the run has
// ended, so has the socket: then the guard kills what is left, and itself.
//
// The guard leads a group, too: that of the root's own commands.
//
// A free process id may come to name another process, so the guard never goes by
// the number alone. Since Linux 6.9 the kernel can kill the group of a pidfd,
// which keeps the group's identity. On older kernels, the number is known to be
// the leader's in two cases. Either the leader has not been reaped: then it holds
// its number itself. Or it has been reaped, and no process has the number: the
// kernel reuses a number only when no process and no group uses it, so a group of
// that number is still the leader's. If another process has the number, the group
// had become empty before, and nothing is killed.
package warden
