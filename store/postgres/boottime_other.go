//go:build !linux

package postgres

import "time"

// elapsed is the time since this process was started, with that in which the
// machine slept: the clock on the wall goes on then, and may be set back, which
// the other one is not.
func elapsed() time.Duration {
	now := time.Now() //nolint:forbidigo // how long it is, not what time it is
	return max(now.Sub(processStart), now.Round(0).Sub(processStart.Round(0)))
}
