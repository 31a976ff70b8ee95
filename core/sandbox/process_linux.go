package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isolate gives the child a process group, and has the kernel end it when the
// parent dies in the middle of something that cannot be interrupted.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// starved is how long a process has stood in line for a processor: the longest of
// its threads, 0 where that is not known.
func starved(pid int) time.Duration {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	var most time.Duration
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		var ran, stood int64 // nanoseconds
		if n, _ := fmt.Sscan(string(raw), &ran, &stood); n == 2 {
			most = max(most, time.Duration(stood))
		}
	}
	return most
}

// processMemory is what a child holds: all of it, and without what it shares with
// others.
func processMemory(c *process) (resident, own int64, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	if err != nil {
		return 0, 0, false
	}
	var skip, pages, shared int64
	if _, err = fmt.Sscan(string(raw), &skip, &pages, &shared); err != nil {
		return 0, 0, false
	}
	page := int64(os.Getpagesize())
	return pages * page, (pages - shared) * page, true
}

// confine bounds the child's memory as a whole, from outside, before it has
// read anything foreign: the VM's limit and what Go and esbuild need beside it.
func confine(pid int, l Limits) {
	most := uint64(2*l.MemoryBytes + 512<<20 + dataMargin)
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}
