package sandbox

import (
	"os/exec"
	"time"
)

// starved is not known here.
func starved(int) time.Duration { return 0 }

// isolate does nothing: a child starts no process, so killing it is enough.
func isolate(*exec.Cmd) {}

// confine does nothing: only Linux limits another process's memory.
func confine(int, Limits) {}

// signal kills the child.
func (p *process) signal() { _ = p.cmd.Process.Kill() }

// processMemory is not known here, and nothing bounds a child as a whole.
func processMemory(*process) (resident, own int64, ok bool) { return 0, 0, false }
