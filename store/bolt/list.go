package bolt

import (
	"bytes"
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// list calls found for the runs that match, newest first.
func (t *txn) list(f store.RunFilter, found func(core.Run)) error {
	walks, err := t.walks(f)
	if err != nil {
		return err
	}
	want := labels{}
	for _, l := range []struct {
		text string
		into *uint64
	}{{f.Owner, &want.owner}, {f.Workspace, &want.workspace}, {f.IdempotencyKey, &want.key}} {
		if l.text != "" {
			*l.into = short(l.text)
		}
	}
	for n := 0; ; {
		w := newest(walks)
		if w == nil {
			return nil
		}
		if !want.rulesOut(w.v) {
			row, err := t.mustRun(timeKeyID(w.k))
			if err != nil {
				return err
			}
			if run := approval.RunAt(row.Run, t.now); matchRun(run, f) {
				found(run)
				if n++; n == f.Limit {
					return nil
				}
			}
		}
		w.next()
	}
}

// walks are the ways through the indexes on which all runs lie that can match,
// each of them once.
func (t *txn) walks(f store.RunFilter) ([]*back, error) {
	var before []byte
	if f.Before != "" {
		from, err := t.mustRun(f.Before)
		if err != nil {
			return nil, err
		}
		before = timeKey(&from.CreatedAt, from.ID)
	}
	if len(f.States) == 0 || !t.indexed {
		return []*back{newBack(t.bucket(bucketCreated), nil, before)}, nil
	}
	states := f.States
	if slices.Contains(states, core.RunExpired) && len(t.dueIn(bucketRunExpiry, t.now, 1)) > 0 {
		// Nobody has recorded yet that it expired.
		states = append(slices.Clone(states), core.RunWaiting, core.RunInterrupted)
	}
	var walks []*back
	for i, s := range states {
		if !slices.Contains(states[:i], s) {
			walks = append(walks, newBack(t.bucket(bucketState), statePrefix(s), before))
		}
	}
	return walks, nil
}

// newest returns the walk that has the newest entry, nil when all have ended.
func newest(walks []*back) (best *back) {
	for _, w := range walks {
		if w.k != nil && (best == nil || bytes.Compare(w.k, best.k) > 0) {
			best = w
		}
	}
	return best
}

func matchRun(r core.Run, f store.RunFilter) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		(f.Workspace == "" || r.Workspace == f.Workspace) &&
		(f.Owner == "" || r.Owner == f.Owner) &&
		(f.IdempotencyKey == "" || r.IdempotencyKey == f.IdempotencyKey)
}

// Orphans implements store.Runners. It reads an index of the runs that have
// something to do, so that neither those that have ended nor those that wait
// cost anything.
func (s *Store) Orphans(ctx context.Context, self string, limit int) ([]core.ID, error) {
	var ids []core.ID
	err := s.read(ctx, func(t *txn) (err error) {
		ids, err = t.orphans(self, limit)
		return err
	})
	return ids, err
}

func (t *txn) orphans(self string, limit int) (ids []core.ID, err error) {
	index := bucketTodo
	if !t.indexed {
		index = bucketCreated
	}
	free := map[string]bool{"": true, self: true} // runners whose runs can be taken
	c := t.bucket(index).Cursor()
	for k, _ := c.First(); k != nil && (limit <= 0 || len(ids) < limit); k, _ = c.Next() {
		r, err := t.mustRun(timeKeyID(k))
		if err != nil {
			return nil, err
		}
		if !hasWork(r) || approval.RunAt(r.Run, t.now).State.Final() {
			continue
		}
		if _, known := free[r.Runner]; !known {
			alive, err := t.runners.alive(r.Runner)
			if err != nil {
				return nil, fileFailure("read", t.runners.place(), err)
			}
			free[r.Runner] = !alive
		}
		if free[r.Runner] {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}
