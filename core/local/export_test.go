package local

import (
	"encoding/json"
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

// AsksAs labels a server's question.
func AsksAs(server string, question json.RawMessage) (json.RawMessage, error) {
	return asksAs(server, question)
}

// VisibleJSON shows what texts hide.
func VisibleJSON(raw json.RawMessage) json.RawMessage { return visible(raw) }
