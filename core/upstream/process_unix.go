//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// tryWrite writes what a pipe has room for and returns how much that was. What
// hinders it shows at the next write that waits.
func tryWrite(f *os.File, p []byte) int {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	written := 0
	_ = raw.Write(func(fd uintptr) bool {
		if n, err := syscall.Write(int(fd), p); err == nil {
			written = n
		}
		return true
	})
	return written
}

// terminateGroup asks the child and all its descendants to end.
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup kills what is left of a child's group. The group's number cannot
// be taken by another one while a member lives; without members nothing is hit.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
