package local

import (
	"log/slog"
	"time"
)

// NewRedacting makes the log handler that takes keys out.
func NewRedacting(h slog.Handler, redact func(string) string) slog.Handler {
	return redacting{h, redact}
}

// SetCheckTime sets how long doctor looks at one server.
func SetCheckTime(c *Client, d time.Duration) { c.checkTime = d }

// SetParkAfter sets how long a waiting run of a server stays in memory.
func SetParkAfter(c *Client, d time.Duration) { c.parkAfter = d }

// Held counts the runs in memory.
func Held(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine == nil {
		return 0
	}
	return c.engine.Running()
}
