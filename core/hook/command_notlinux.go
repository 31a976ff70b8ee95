//go:build unix && !linux

package hook

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group, which ends with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { killGroup(cmd.Process.Pid); return nil }
}
