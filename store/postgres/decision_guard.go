package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

const guardSQL = "SELECT pin, unproved, tries FROM guard"

// Guard implements store.Reader.
func (s *Store) Guard(ctx context.Context) (g core.Guard, err error) {
	err = s.read(ctx, func(ctx context.Context) (err error) {
		g, err = scanGuard(s.pool.QueryRow(ctx, guardSQL))
		return err
	})
	return g, err
}

// ChangeGuard implements store.Decider.
func (s *Store) ChangeGuard(ctx context.Context, change func(*core.Guard) error, rows ...core.AuditRow) error {
	return s.update(ctx, func(t *txn) error {
		g, err := t.guard(" FOR UPDATE")
		if err == nil {
			err = change(&g)
		}
		if err != nil {
			return err
		}
		tries, err := store.Encode(&g.Tries)
		if err != nil {
			return err
		}
		t.writes.Queue("UPDATE guard SET pin = $1, unproved = $2, tries = $3", g.Pin, g.Unproved, tries)
		t.record(rows)
		return nil
	})
}

// guard locks and reads what decisions need; where it is gone there is none.
func (t *txn) guard(lock string) (g core.Guard, err error) {
	err = t.read(query{guardSQL + lock, nil, func(row pgx.Row) (err error) {
		g, err = scanGuard(row)
		return err
	}})
	return g, err
}

func scanGuard(row pgx.Row) (g core.Guard, err error) {
	var tries []byte
	err = row.Scan(&g.Pin, &g.Unproved, &tries)
	if errors.Is(err, pgx.ErrNoRows) {
		return g, core.Errorf(core.CodeStoreFailed, "the database does not say what decisions need: the row of its table guard is gone; restore it from a backup")
	}
	if err == nil && tries != nil {
		err = decode(tries, &g.Tries)
	}
	return g, err
}
