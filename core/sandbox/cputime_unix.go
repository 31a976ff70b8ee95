//go:build unix

package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what all threads of this process have used of processors.
func processorTime() (time.Duration, bool) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0, false
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), true
}
