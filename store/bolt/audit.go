package bolt

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// Record implements store.Decider.
func (s *Store) Record(ctx context.Context, rows ...core.AuditRow) error {
	if len(rows) == 0 {
		return nil
	}
	return s.update(ctx, func(t *txn) error { return t.record(rows) })
}

// record writes rows about no run.
func (t *txn) record(rows []core.AuditRow) error {
	for _, row := range rows {
		if row.At.IsZero() {
			row.At = t.now
		}
		row.At = row.At.UTC()
		if err := t.addAudit(row); err != nil {
			return err
		}
	}
	return nil
}
