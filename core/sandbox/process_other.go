//go:build unix && !linux

package sandbox

import (
	"os/exec"
	"syscall"
	"time"
)

// starved is not known here.
func starved(int) time.Duration { return 0 }

// isolate gives the child a process group. It ends by itself when the parent
// dies, because its stdin closes.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// processMemory is not known here, and nothing bounds a child as a whole.
func processMemory(*process) (resident, own int64, ok bool) { return 0, 0, false }

// confine does nothing: only Linux limits another process's memory.
func confine(int, Limits) {}
