package warden

import (
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// leader is a process that has enrolled.
type leader struct {
	pidfd int
	pid   int // also its group's
}

// stand runs the guard. It ends this process when the run has ended.
func stand(socket int) {
	unix.CloseOnExec(socket)
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	var leaders []leader
	for {
		polled := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}
		for _, l := range leaders {
			polled = append(polled, unix.PollFd{Fd: int32(l.pidfd), Events: unix.POLLIN})
		}
		if _, err := unix.Poll(polled, -1); err != nil {
			continue // interrupted
		}
		kept := leaders[:0]
		for i, l := range leaders {
			if polled[i+1].Revents == 0 {
				kept = append(kept, l)
				continue
			}
			l.killGroup(processGroup)
			unix.Close(l.pidfd)
		}
		leaders = kept
		if polled[0].Revents == 0 {
			continue
		}
		l, n := receive(socket)
		if l != nil {
			leaders = append(leaders, *l)
		}
		if n == 0 && polled[0].Revents&unix.POLLHUP != 0 {
			break
		}
	}
	for _, l := range leaders {
		l.killGroup(processGroup)
	}
	unix.Kill(0, unix.SIGKILL) // this group, with the root's commands
}

// receive reads the next message, a leader's enrolment if l is not nil, and
// returns its length, -1 for none.
func receive(socket int) (l *leader, n int) {
	var text [32]byte
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(socket, text[:], oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, -1
	}
	control, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(control) == 0 {
		return nil, n
	}
	fds, _ := unix.ParseUnixRights(&control[0])
	pid, err := strconv.Atoi(string(text[:n]))
	if len(fds) == 1 && err == nil && pid > 1 {
		return &leader{pidfd: fds[0], pid: pid}, n
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return nil, n
}

// processGroup is PIDFD_SIGNAL_PROCESS_GROUP of pidfd_send_signal(2).
const processGroup = 1 << 2

// killGroup kills the leader's group by its descriptor. flag is processGroup; a
// kernel that does not know it makes killGroup go by the number, as the package
// comment describes.
func (l leader) killGroup(flag int) {
	if unix.PidfdSendSignal(l.pidfd, unix.SIGKILL, nil, flag) != unix.EINVAL {
		return
	}
	unreaped := unix.PidfdSendSignal(l.pidfd, 0, nil, 0) == nil
	if unreaped || unix.Kill(l.pid, 0) == unix.ESRCH {
		unix.Kill(-l.pid, unix.SIGKILL)
	}
}
