//go:build unix && !linux

package upstream

import (
	"os/exec"
	"syscall"
)

// setGroup gives the child a process group of its own.
func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
