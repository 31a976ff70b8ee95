//go:build !unix

package upstream

import (
	"os"
	"os/exec"
)

// Without process groups only the child itself can be ended.
func setGroup(*exec.Cmd) {}

// Without pipes that refuse to wait everything is queued.
func tryWrite(*os.File, []byte) int { return 0 }

func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(int) {}
