//go:build unix

package sandbox

import "golang.org/x/sys/unix"

// signal kills the child's process group.
func (p *process) signal() {
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
}
