package simulate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// abort ends a copy, which says then where its goroutines are.
const abort = syscall.SIGQUIT

// atRandom is the type of the entry of a program's auxiliary vector that has the address of its random bytes: getauxval(3).
const atRandom = 25

// startSeeded starts a program whose random numbers follow from a seed: which case of a select is taken and where a loop over a
// map begins, too. Go's runtime draws them all from 16 bytes that the system hands to each program. The program is traced until
// they are replaced.
func startSeeded(cmd *exec.Cmd, seed uint64) error {
	runtime.LockOSThread() // which traces
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		return err
	}
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	random := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
	for word := auxv; len(word) >= 16; word = word[16:] {
		if binary.NativeEndian.Uint64(word) == atRandom {
			if _, err := syscall.PtracePokeData(pid, uintptr(binary.NativeEndian.Uint64(word[8:])), random); err != nil {
				return err
			}
		}
	}
	return syscall.PtraceDetach(pid)
}
