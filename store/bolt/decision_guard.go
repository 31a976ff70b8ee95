package bolt

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Guard implements store.Reader.
func (s *Store) Guard(ctx context.Context) (g core.Guard, err error) {
	err = s.read(ctx, func(t *txn) (err error) {
		g, err = t.guard()
		return err
	})
	return g, err
}

// ChangeGuard implements store.Decider.
func (s *Store) ChangeGuard(ctx context.Context, change func(*core.Guard) error, rows ...core.AuditRow) error {
	return s.update(ctx, func(t *txn) error {
		g, err := t.guard()
		if err == nil {
			err = change(&g)
		}
		if err != nil {
			return err
		}
		raw, err := store.Encode(&g)
		if err != nil {
			return err
		}
		if err := t.put(t.bucket(bucketMeta), keyGuard, raw); err != nil {
			return err
		}
		return t.record(rows)
	})
}

// guard is what decisions need; one that cannot be read lets none through.
func (t *txn) guard() (g core.Guard, err error) {
	raw := t.bucket(bucketMeta).Get(keyGuard)
	if raw == nil {
		return g, nil
	}
	return g, unmarshal(raw, &g)
}
