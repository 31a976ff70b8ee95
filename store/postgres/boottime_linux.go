package postgres

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed is the time since the machine was started, with that in which it slept.
func elapsed() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Since(processStart) //nolint:forbidigo // how long it is, not what time it is
	}
	return time.Duration(t.Nano())
}
