package corpus_test

import (
	"fmt"
	"os"
	"strings"
)

// peakMiB is the most memory that a living process has had resident.
func peakMiB(pid int) int {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may be gone
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib >> 10
}
