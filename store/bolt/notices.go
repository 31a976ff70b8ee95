package bolt

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/casys-ai/pml/store"
)

// Notices implements store.Notices.
func (s *Store) Notices(ctx context.Context) (doc []byte, version int64, err error) {
	err = s.read(ctx, func(t *txn) error {
		kept, v := t.notices()
		doc, version = bytes.Clone(kept), v
		return nil
	})
	return doc, version, err
}

// SetNotices implements store.Notices.
func (s *Store) SetNotices(ctx context.Context, doc []byte, version int64) error {
	return s.update(ctx, func(t *txn) error {
		was, v := t.notices()
		if write, err := store.Follows(v, version, bytes.Equal(was, doc), store.FasterNotices()); !write {
			return err
		}
		return t.put(t.bucket(bucketMeta), keyNotices, append(be64(uint64(version)), doc...))
	})
}

// notices is the document, which is the file's own memory, and its version.
func (t *txn) notices() (doc []byte, version int64) {
	raw := t.bucket(bucketMeta).Get(keyNotices)
	if len(raw) < 8 {
		return nil, 0
	}
	return raw[8:], int64(binary.BigEndian.Uint64(raw)) //nolint:gosec // a number that SetNotices has written
}
