package upstream

import "github.com/casys-ai/pml/core"

// survive is deferred by what runs for a connection: in a goroutine of its own,
// or in one of the library's. A panic breaks the connection and nothing else, so
// that its calls end as any that may have run.
func (c *conn) survive(doing string) {
	if v := recover(); v != nil {
		_ = core.Panicked(c.log, doing, v, "server", c.name)
		c.lose(endedInPanic)
	}
}
