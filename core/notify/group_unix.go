//go:build unix

package notify

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group, which ends with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { killGroup(cmd.Process.Pid); return nil }
}

// killGroup ends what is left of a group. Its number is not given to another one while
// a member lives.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
