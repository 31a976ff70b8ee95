package bolt

import (
	"bytes"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// approvalCache is rowCache for approvals that a run has yet to act upon, and for
// the newest row of the audit log. The zero value is ready.
type approvalCache struct {
	mu   sync.Mutex
	rows map[core.ID]cachedApproval
	// head has seq and hash of the audit row whose encoding is headRaw.
	head    core.AuditRow
	headRaw []byte
}

type cachedApproval struct {
	raw []byte
	row approvalRow
}

// get returns the approval whose encoding is raw; false when it has to be decoded.
func (c *approvalCache) get(id core.ID, raw []byte) (*approvalRow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.rows[id]
	if !ok || !bytes.Equal(k.raw, raw) {
		return nil, false
	}
	row := k.row
	row.ExpiresAt, row.CallIDs = utc(row.ExpiresAt), slices.Clone(row.CallIDs) // the caller's own
	if row.DecidedBy != nil {
		by := *row.DecidedBy
		row.DecidedBy = &by
	}
	row.context.data = bytes.Clone(row.context.data)
	return &row, true
}

// put keeps an approval with its encoding, which nobody changes any more.
func (c *approvalCache) put(r *approvalRow, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	settled := r.Used || r.State != core.ApprovalOpen && r.State != core.ApprovalApproved && r.State != core.ApprovalDenied
	if settled || len(raw) > maxCachedSize || !r.decodesToItself() {
		delete(c.rows, r.ID)
		return
	}
	if c.rows == nil || len(c.rows) >= maxCached {
		c.rows = map[core.ID]cachedApproval{}
	}
	row := *r
	row.Context, row.context.data = nil, bytes.Clone(row.context.data)
	row.CreatedAt, row.CallIDs = row.CreatedAt.Round(0), slices.Clone(row.CallIDs)
	if row.ExpiresAt = utc(row.ExpiresAt); row.ExpiresAt != nil {
		*row.ExpiresAt = row.ExpiresAt.Round(0)
	}
	if row.DecidedBy != nil {
		by := *row.DecidedBy
		by.At = by.At.Round(0)
		row.DecidedBy = &by
	}
	c.rows[r.ID] = cachedApproval{raw, row}
}

// maxCachedSize bounds one row of the cache.
const maxCachedSize = 16 << 10

// decodesToItself reports whether decoding the row is sure to give what is in it.
// What is rare is not looked into.
func (r *approvalRow) decodesToItself() bool {
	if r.Answer != nil || r.CallIDs != nil && len(r.CallIDs) == 0 || r.context.data != nil && len(r.context.data) == 0 {
		return false
	}
	times := []*time.Time{&r.CreatedAt, r.ExpiresAt}
	texts := []string{
		r.Workspace, r.Owner, r.PlannedFor, r.Subject, r.Tool, r.Description, r.Digest,
		r.RequestedBy.Who, string(r.RequestedBy.Via),
	}
	if d := r.DecidedBy; d != nil {
		times = append(times, &d.At)
		texts = append(texts, d.Who, string(d.Via), d.Reason)
	}
	for _, at := range times {
		if at != nil && at.Location() != time.UTC {
			return false
		}
	}
	for _, text := range append(texts, r.CallIDs...) {
		if !utf8.ValidString(text) {
			return false
		}
	}
	return true
}

// newest returns seq and hash of an audit row by its encoding.
func (c *approvalCache) newest(raw []byte) (head core.AuditRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headRaw != nil && bytes.Equal(c.headRaw, raw) {
		return c.head, nil
	}
	err = unmarshal(raw, &head)
	return head, err
}

// audited notes the audit row that was written last.
func (c *approvalCache) audited(row core.AuditRow, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head, c.headRaw = core.AuditRow{Seq: row.Seq, Hash: row.Hash}, raw
}
