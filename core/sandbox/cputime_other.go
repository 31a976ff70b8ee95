//go:build !unix

package sandbox

import "time"

// processorTime is not known here: limits go by wall time.
func processorTime() (time.Duration, bool) { return 0, false }
