package local

import "log/slog"

// Logger is what the client logs to: it leaves values of keys out, so that what
// is around the client can log to it too.
func (c *Client) Logger() *slog.Logger { return c.o.Logger }
