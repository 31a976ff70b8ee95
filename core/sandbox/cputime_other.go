//go:build !unix

package sandbox

import "time"

// processorTime is not known here: wall time counts.
func processorTime() (time.Duration, bool) { return 0, false }
