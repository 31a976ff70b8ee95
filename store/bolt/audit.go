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
	return s.update(ctx, func(t *txn) error {
		for i := range rows {
			row := rows[i]
			if row.At.IsZero() {
				row.At = t.now
			}
			row.At = row.At.UTC()
			if err := t.addAudit(row); err != nil {
				return err
			}
		}
		return nil
	})
}
