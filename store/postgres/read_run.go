package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Journal implements store.Reader.
func (s *Store) Journal(ctx context.Context, id core.ID, after int64) ([]core.Record, error) {
	found, err := list(ctx, s, func(row pgx.Row) ([]core.Record, error) {
		var last int64
		var raw []byte
		if err := row.Scan(&last, &raw); err != nil {
			return nil, err
		}
		return readRecords(raw, last)
	}, "SELECT record, records FROM steps WHERE workflow_id = $1 AND records IS NOT NULL AND record > $2 ORDER BY record", clean(string(id)), after)
	if err == nil && len(found) == 0 {
		_, err = s.Run(ctx, id)
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if first := found[0]; first[0].Seq <= after {
		found[0] = first[after-first[0].Seq+1:]
	}
	return slices.Concat(found...), nil
}

// mostCheckpoints is how many checkpoints of a run are shown: the newest.
const mostCheckpoints = 5

// Checkpoints implements store.Reader: the oldest first.
func (s *Store) Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error) {
	found, err := list(ctx, s, scanJSON[core.Checkpoint],
		"SELECT checkpoint FROM steps WHERE workflow_id = $1 AND checkpoint IS NOT NULL ORDER BY event DESC", clean(string(id)))
	if err == nil && len(found) == 0 {
		_, err = s.Run(ctx, id)
	}
	slices.SortStableFunc(found, func(a, b core.Checkpoint) int {
		return cmp.Or(cmp.Compare(a.JournalSeq, b.JournalSeq), cmp.Compare(a.ID, b.ID))
	})
	found = slices.CompactFunc(found, func(a, b core.Checkpoint) bool { // the newest of those that are the same
		return a.JournalSeq == b.JournalSeq && a.ID == b.ID
	})
	return found[max(0, len(found)-mostCheckpoints):], err
}

// Events implements store.Reader.
func (s *Store) Events(ctx context.Context, f store.EventFilter) (out []core.Event, err error) {
	most := f.Limit
	if most <= 0 {
		most = math.MaxInt
	}
	// A row has one event or many: more rows are read than are needed at first
	// only when each has few.
	limit := 0
	if f.Limit > 0 {
		limit = f.Limit/8 + 2
	}
	for len(out) < most {
		rows, err := eventRows(ctx, s, f, limit)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			for _, e := range row {
				if f.After < e.Seq && (len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) {
					out = append(out, e)
				}
			}
		}
		if limit == 0 || len(rows) < limit {
			break
		}
		newest := rows[len(rows)-1]
		f.After, limit = newest[len(newest)-1].Seq, 2*limit
	}
	return out[:min(len(out), most)], nil
}

// eventRows reads the events of some rows, with others that stand in them too.
func eventRows(ctx context.Context, s *Store, f store.EventFilter, limit int) ([][]core.Event, error) {
	var where filter
	where.add("event > ?", f.After)
	if f.RunID != "" {
		where.add("workflow_id = ?", clean(string(f.RunID)))
	}
	if f.Owner != "" {
		where.add("owner = ?", clean(f.Owner))
	}
	if len(f.Types) > 0 {
		where.add("types LIKE ANY (?)", typesLike(f.Types))
	}
	where.args = append(where.args, limitOf(limit))
	return list(ctx, s, func(row pgx.Row) ([]core.Event, error) {
		var last int64
		var run core.ID
		var owner string
		var raw []byte
		if err := row.Scan(&last, &run, &owner, &raw); err != nil {
			return nil, err
		}
		return readEvents(raw, last, run, owner)
	}, "SELECT event, workflow_id, owner, events FROM steps"+where.where()+
		fmt.Sprintf(" AND events IS NOT NULL ORDER BY event LIMIT $%d", len(where.args)), where.args...)
}
