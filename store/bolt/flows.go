package bolt

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// flowPrefix begins the keys of a flow. Neither part can hold a zero byte: folders
// cannot, and an id comes from JSON that was checked.
func flowPrefix(key core.FlowKey) []byte {
	clean := strings.NewReplacer("\x00", "")
	return []byte(clean.Replace(key.Workspace) + "\x00" + clean.Replace(key.Flow) + "\x00")
}

// SaveFlowRuns implements store.Flows.
func (s *Store) SaveFlowRuns(ctx context.Context, runs ...core.FlowRun) error {
	if len(runs) == 0 {
		return nil
	}
	return s.update(ctx, func(t *txn) error {
		b, flows := t.bucket(bucketFlowRuns), map[string][]byte{}
		for i := range runs {
			raw, err := store.Encode(&runs[i])
			if err != nil {
				return err
			}
			prefix := flowPrefix(runs[i].Key())
			flows[string(prefix)] = prefix
			if err := t.put(b, append(slices.Clone(prefix), timeKey(&runs[i].StartedAt, runs[i].ID)...), raw); err != nil {
				return err
			}
		}
		for _, prefix := range flows {
			if err := t.trimFlowRuns(prefix); err != nil {
				return err
			}
		}
		return nil
	})
}

// trimFlowRuns drops the oldest runs of a flow beyond those that are kept.
func (t *txn) trimFlowRuns(prefix []byte) error {
	b := t.bucket(bucketFlowRuns)
	var keys copies
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys.add(k)
	}
	for _, k := range keys[:max(0, len(keys)-core.KeptFlowRuns)] {
		if err := t.del(b, k); err != nil {
			return err
		}
	}
	return nil
}

// removeFlowRuns drops what flows did for removed runs.
func (t *txn) removeFlowRuns(of map[core.ID]bool) error {
	b := t.bucket(bucketFlowRuns)
	var keys copies
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var r struct {
			RunID core.ID `json:"run_id"`
		}
		if err := unmarshal(v, &r); err != nil {
			return err
		}
		if of[r.RunID] {
			keys.add(k)
		}
	}
	for _, k := range keys {
		if err := t.del(b, k); err != nil {
			return err
		}
	}
	return nil
}

// FlowRuns implements store.Flows.
func (s *Store) FlowRuns(ctx context.Context, f store.FlowRunFilter) ([]core.FlowRun, error) {
	var out []core.FlowRun
	err := s.read(ctx, func(t *txn) error {
		out = []core.FlowRun{}
		var prefix []byte
		if f.Key.Flow != "" {
			prefix = flowPrefix(f.Key)
		}
		c := t.bucket(bucketFlowRuns).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			var r core.FlowRun
			if err := unmarshal(v, &r); err != nil {
				return err
			}
			if f.Match(r) {
				out = append(out, r)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b core.FlowRun) int {
		if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, err
}

// FlowVariables implements store.Flows.
func (s *Store) FlowVariables(ctx context.Context, key core.FlowKey) (v core.FlowVariables, err error) {
	err = s.read(ctx, func(t *txn) (err error) {
		v, err = t.flowVariables(key)
		return err
	})
	return v, err
}

func (t *txn) flowVariables(key core.FlowKey) (v core.FlowVariables, err error) {
	if raw := t.bucket(bucketFlowVars).Get(flowPrefix(key)); raw != nil {
		err = unmarshal(raw, &v)
	}
	return v, err
}

// SetFlowVariables implements store.Flows.
func (s *Store) SetFlowVariables(ctx context.Context, key core.FlowKey, v core.FlowVariables) error {
	return s.update(ctx, func(t *txn) error {
		was, err := t.flowVariables(key)
		if err != nil {
			return err
		}
		if write, err := store.Follows(was.Version, v.Version, reflect.DeepEqual(was.Values, v.Values), store.FasterFlow(key)); !write {
			return err
		}
		raw, err := store.Encode(&v)
		if err != nil {
			return err
		}
		return t.put(t.bucket(bucketFlowVars), flowPrefix(key), raw)
	})
}
