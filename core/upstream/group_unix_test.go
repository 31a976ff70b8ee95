//go:build unix

package upstream_test

import (
	"os/exec"
	"syscall"
)

// leaveGroup makes a command leave its parent's process group.
func leaveGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
