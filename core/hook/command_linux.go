package hook

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group, which ends with it, and has the kernel end
// it when pml dies.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { killGroup(cmd.Process.Pid); return nil }
}
