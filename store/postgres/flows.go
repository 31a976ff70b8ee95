package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// A flow has its last core.KeptFlowRuns runs: whoever saves some deletes what is older in
// the same transaction. Variables are one row for each flow with a version. A writer
// takes the advisory lock of the flow first, because a row that is not there yet cannot
// be locked, and two first writers would both find version 0.
const (
	saveFlowRun = `INSERT INTO flow_runs (id, workspace, flow, workflow_id, owner, started_at, data) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET data = EXCLUDED.data`
	trimFlowRuns = `DELETE FROM flow_runs WHERE id IN (
		SELECT id FROM flow_runs WHERE workspace = $1 AND flow = $2 ORDER BY started_at DESC, id DESC OFFSET $3)`
	lockFlow         = "SELECT pg_advisory_xact_lock(hashtextextended($1, hashtextextended($2, 0))) IS NULL"
	readFlowVars     = "SELECT version, data FROM flow_variables WHERE workspace = $1 AND flow = $2"
	setFlowVariables = `INSERT INTO flow_variables (workspace, flow, version, data) VALUES ($1, $2, $3, $4)
		ON CONFLICT (workspace, flow) DO UPDATE SET version = EXCLUDED.version, data = EXCLUDED.data`
)

// SaveFlowRuns implements store.Flows.
func (s *Store) SaveFlowRuns(ctx context.Context, runs ...core.FlowRun) error {
	if len(runs) == 0 {
		return nil
	}
	return s.update(ctx, func(t *txn) error {
		flows := map[core.FlowKey]bool{}
		for i := range runs {
			r := &runs[i]
			raw, err := store.Encode(r)
			if err != nil {
				return err
			}
			flows[r.Key()] = true
			t.writes.Queue(saveFlowRun, clean(string(r.ID)), clean(r.Workspace), clean(r.Flow), clean(string(r.RunID)), clean(r.Owner), nano(r.StartedAt), raw)
		}
		for _, key := range slices.SortedFunc(maps.Keys(flows), byFlow) { // two who trim the same lock in the same order
			t.writes.Queue(trimFlowRuns, clean(key.Workspace), clean(key.Flow), core.KeptFlowRuns)
		}
		return nil
	})
}

func byFlow(a, b core.FlowKey) int {
	return cmp.Or(strings.Compare(a.Workspace, b.Workspace), strings.Compare(a.Flow, b.Flow))
}

// FlowRuns implements store.Flows.
func (s *Store) FlowRuns(ctx context.Context, f store.FlowRunFilter) ([]core.FlowRun, error) {
	var where filter
	if f.Key.Flow != "" {
		where.add("workspace = ?", clean(f.Key.Workspace))
		where.add("flow = ?", clean(f.Key.Flow))
	}
	if f.RunID != "" {
		where.add("workflow_id = ?", clean(string(f.RunID)))
	}
	if f.Owner != "" {
		where.add("owner = ?", clean(f.Owner))
	}
	where.args = append(where.args, limitOf(f.Limit))
	return list(ctx, s, scanJSON[core.FlowRun],
		fmt.Sprintf("SELECT data FROM flow_runs%s ORDER BY started_at DESC, id DESC LIMIT $%d", where.where(), len(where.args)), where.args...)
}

// FlowVariables implements store.Flows.
func (s *Store) FlowVariables(ctx context.Context, key core.FlowKey) (v core.FlowVariables, err error) {
	err = s.read(ctx, func(ctx context.Context) (err error) {
		v, err = scanFlowVariables(s.pool.QueryRow(ctx, readFlowVars, clean(key.Workspace), clean(key.Flow)))
		return err
	})
	return v, err
}

// SetFlowVariables implements store.Flows: a compare-and-set by the version. The same
// version with the same values is a write that was kept although its answer was lost,
// and succeeds.
func (s *Store) SetFlowVariables(ctx context.Context, key core.FlowKey, v core.FlowVariables) error {
	workspace, flow := clean(key.Workspace), clean(key.Flow)
	return s.update(ctx, func(t *txn) error {
		var was core.FlowVariables
		ignore := func(row pgx.Row) error { var b bool; return row.Scan(&b) }
		if err := t.read(query{lockFlow, []any{workspace, flow}, ignore}); err != nil {
			return err
		}
		err := t.read(query{readFlowVars, []any{workspace, flow}, func(row pgx.Row) (err error) {
			was, err = scanFlowVariables(row)
			return err
		}})
		if err != nil {
			return err
		}
		if write, err := store.Follows(was.Version, v.Version, reflect.DeepEqual(was.Values, v.Values), store.FasterFlow(key)); !write {
			return err
		}
		raw, err := store.Encode(v.Values)
		if err != nil {
			return err
		}
		t.writes.Queue(setFlowVariables, workspace, flow, v.Version, raw)
		return nil
	})
}

func scanFlowVariables(row pgx.Row) (v core.FlowVariables, err error) {
	var raw []byte
	err = row.Scan(&v.Version, &raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return core.FlowVariables{}, nil
	}
	if err == nil {
		err = decode(raw, &v.Values)
	}
	return v, err
}
