//go:build unix

package install

import (
	"os/exec"
	"syscall"
)

// ownGroup lets the end of the context end the program's children too: npm
// starts some that outlive it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
