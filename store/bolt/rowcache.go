package bolt

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// rowCache remembers the rows of runs as this process last encoded them, so that
// the next step of a run need not decode what the one before has written. What
// is stored decides: a row is taken from here only when its bytes are those. It
// is safe for concurrent use; the zero value is ready.
type rowCache struct {
	mu   sync.Mutex
	rows map[core.ID]cachedRow
}

type cachedRow struct {
	raw []byte
	row runRow
}

// maxCached bounds the cache; a full one starts again. Runs that have ended are
// not in it.
const maxCached = 1024

// get returns the row whose encoding is raw; false when it has to be decoded.
func (c *rowCache) get(id core.ID, raw []byte) (*runRow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.rows[id]
	if !ok || !bytes.Equal(k.raw, raw) {
		return nil, false
	}
	row := k.row
	row.ExpiresAt = utc(row.ExpiresAt) // the caller's own
	return &row, true
}

// put keeps a row with its encoding, which nobody changes any more.
func (c *rowCache) put(r *runRow, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.State.Final() || !decodesToItself(r) {
		delete(c.rows, r.ID)
		return
	}
	if c.rows == nil || len(c.rows) >= maxCached {
		c.rows = map[core.ID]cachedRow{}
	}
	row := *r
	row.CreatedAt, row.UpdatedAt = row.CreatedAt.Round(0), row.UpdatedAt.Round(0) // without a monotonic reading
	if row.ExpiresAt = utc(row.ExpiresAt); row.ExpiresAt != nil {
		*row.ExpiresAt = row.ExpiresAt.Round(0)
	}
	c.rows[r.ID] = cachedRow{raw, row}
}

// decodesToItself reports whether decoding the row is sure to give what is in
// it. What is rare is not looked into.
func decodesToItself(r *runRow) bool {
	if r.Error != nil || r.Abort != nil || r.EndedAt != nil || r.Result != nil || r.Options.Input != nil {
		return false
	}
	for _, at := range []*time.Time{&r.CreatedAt, &r.UpdatedAt, r.ExpiresAt} {
		if at != nil && at.Location() != time.UTC {
			return false
		}
	}
	for _, text := range []string{r.Workspace, r.Owner, r.Origin, r.Intent, r.RequestedBy.Who, r.IdempotencyKey} {
		if !utf8.ValidString(text) {
			return false
		}
	}
	return true
}
