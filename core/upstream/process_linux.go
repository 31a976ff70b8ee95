package upstream

import (
	"os/exec"
	"syscall"
)

// setGroup gives the child a process group of its own, and lets the kernel
// kill it when pml dies without having stopped it.
func setGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
