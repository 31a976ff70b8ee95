package bolt

import (
	"os"
	"strings"
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
