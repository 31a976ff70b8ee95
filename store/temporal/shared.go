package temporal

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Guard implements store.Reader.
func (s *Store) Guard(ctx context.Context) (core.Guard, error) {
	g, err := s.guarded(ctx)
	return g.Guard, err
}

func (s *Store) guarded(ctx context.Context) (g guarded, err error) {
	err = s.query(ctx, s.name(sharedID), queryGuard, "", &g)
	return g, err
}

// ChangeGuard implements store.Decider: it reads the guard, lets change change it, and keeps
// that if nobody else has changed the guard meanwhile, otherwise begins anew.
func (s *Store) ChangeGuard(ctx context.Context, change func(*core.Guard) error, rows ...core.AuditRow) error {
	for {
		g, err := s.guarded(ctx)
		if err == nil {
			err = change(&g.Guard)
		}
		if err != nil {
			return err
		}
		g.Changes, g.Rows = g.Changes+1, s.timed(rows)
		err = s.update(ctx, s.name(sharedID), updateGuard, "", g, nil)
		if core.CodeOf(err) != core.CodeNotWaiting {
			return err
		}
	}
}

// Record implements store.Decider.
func (s *Store) Record(ctx context.Context, rows ...core.AuditRow) error {
	if len(rows) == 0 {
		return nil
	}
	return s.update(ctx, s.name(sharedID), updateRecord, "", s.timed(rows), nil)
}

// timed are rows of which each has its time.
func (s *Store) timed(rows []core.AuditRow) []core.AuditRow {
	rows = slices.Clone(rows)
	for i := range rows {
		if rows[i].At.IsZero() {
			rows[i].At = s.opts.Clock.Now()
		}
		rows[i].At = rows[i].At.UTC()
	}
	return rows
}

// Audit implements store.Reader. What a run has written comes to the log behind the step or
// decision that it belongs to, usually within some 10 ms.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]core.AuditRow, error) {
	var part auditPart
	if err := s.query(ctx, s.name(sharedID), queryAudit, "", &part); err != nil {
		return nil, err
	}
	var list []core.AuditRow
	take := func(rows []core.AuditRow) {
		for _, row := range rows {
			if row.Seq > f.After && (f.Before == 0 || row.Seq < f.Before) && f.Match(row) {
				list = append(list, row)
			}
		}
	}
	for _, p := range part.Pages {
		if p.Last <= f.After {
			continue
		}
		rows, err := loadJSON[[]core.AuditRow](s.blobsOf(sharedID), value{Blob: p.Blob})
		if err != nil {
			return nil, err
		}
		take(rows)
		if !f.Newest && f.Limit > 0 && len(list) >= f.Limit {
			return list[:f.Limit], nil
		}
	}
	take(part.Rows)
	if f.Newest {
		slices.Reverse(list)
	}
	if f.Limit > 0 {
		list = list[:min(f.Limit, len(list))]
	}
	return list, nil
}

// Notices implements store.Notices.
func (s *Store) Notices(ctx context.Context) (doc []byte, version int64, err error) {
	var n notices
	if err := s.query(ctx, s.name(sharedID), queryNotices, "", &n); err != nil {
		return nil, 0, err
	}
	if n.Blob != "" {
		n.Doc, err = s.opts.Blobs.Get(sharedID, n.Blob)
	}
	return n.Doc, n.Version, err
}

// SetNotices implements store.Notices.
func (s *Store) SetNotices(ctx context.Context, doc []byte, version int64) error {
	n := notices{Version: version, Doc: doc}
	if len(doc) > inline {
		digest, err := s.opts.Blobs.Put(sharedID, json.RawMessage(doc))
		if err != nil {
			return err
		}
		n.Doc, n.Blob = nil, digest
	}
	return s.update(ctx, s.name(sharedID), updateNotices, "", n, nil)
}

// sealAudit is the activity that keeps a page of the audit log outside of the history of the shared workflow.
func (s *service) sealAudit(_ context.Context, rows []core.AuditRow) (string, error) {
	raw, err := store.Encode(rows)
	if err != nil {
		return "", err
	}
	return s.opts.Blobs.Put(sharedID, raw)
}
