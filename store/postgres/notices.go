package postgres

import (
	"bytes"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

const noticesSQL = "SELECT version, data FROM notices"

// Notices implements store.Notices.
func (s *Store) Notices(ctx context.Context) (doc []byte, version int64, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		return noticesRow(s.pool.QueryRow(ctx, noticesSQL).Scan(&version, &doc))
	})
	return doc, version, err
}

// SetNotices implements store.Notices.
func (s *Store) SetNotices(ctx context.Context, doc []byte, version int64) error {
	return s.update(ctx, func(t *txn) error {
		var was []byte
		var v int64
		err := t.read(query{noticesSQL + " FOR UPDATE", nil, func(row pgx.Row) error { return noticesRow(row.Scan(&v, &was)) }})
		if err != nil {
			return err
		}
		if write, err := store.Follows(v, version, bytes.Equal(was, doc), store.FasterNotices()); !write {
			return err
		}
		t.writes.Queue("UPDATE notices SET version = $1, data = $2", version, doc)
		return nil
	})
}

// noticesRow says what is missing where the row of the table is.
func noticesRow(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return core.Errorf(core.CodeStoreFailed, "the row of the table notices is gone from the database; restore it from a backup")
	}
	return err
}
