package bolt

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// bootID names the run of the system since it was started. What was written
// before another one, and not synced, may be lost.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// identity tells a file from others of the same machine.
func identity(info fs.FileInfo) (device, inode uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return uint64(st.Dev), st.Ino
}
