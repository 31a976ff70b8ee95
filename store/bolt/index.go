package bolt

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// The indexes of runs by state and of runs that have something to do came
// after format 1, and a pml that does not know them may write beside this one.
// So each commit that keeps them leaves its number (stamp). Where the number is
// not that of the last commit, readers do without the indexes and the next
// writer builds them anew.

// stamp says that a transaction keeps the indexes.
func stamp(tx *bbolt.Tx) error {
	return tx.Bucket(bucketMeta).Put(keyIndexed, be64(uint64(tx.ID())))
}

// stampedBy reports whether a commit kept the indexes.
func stampedBy(tx *bbolt.Tx, commit int) bool {
	v := tx.Bucket(bucketMeta).Get(keyIndexed)
	return len(v) == 8 && binary.BigEndian.Uint64(v) == uint64(commit)
}

// ensureIndexed lets a write transaction use the indexes.
func (t *txn) ensureIndexed() error {
	if !stampedBy(t.tx, t.tx.ID()-1) {
		if err := t.rebuild(); err != nil {
			return err
		}
	}
	t.indexed = true
	return nil
}

// rebuild makes the indexes anew from the rows.
func (t *txn) rebuild() error {
	for _, name := range [][]byte{bucketState, bucketTodo} {
		if t.bucket(name) != nil {
			if err := t.tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		if _, err := t.tx.CreateBucket(name); err != nil {
			return err
		}
	}
	var live []core.ID
	c := t.bucket(bucketRuns).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var r runRow
		if err := unmarshal(v, &r); err != nil {
			return err
		}
		if err := t.bucket(bucketState).Put(stateKey(&r), r.labels()); err != nil {
			return err
		}
		if err := t.bucket(bucketCreated).Put(timeKey(&r.CreatedAt, r.ID), r.labels()); err != nil {
			return err
		}
		if !r.State.Final() {
			live = append(live, r.ID)
		}
	}
	for _, id := range live {
		if err := t.rebuildTodo(id); err != nil {
			return err
		}
	}
	return nil
}

// rebuildTodo counts what was decided for a run and not acted upon.
func (t *txn) rebuildTodo(id core.ID) error {
	r, err := t.mustRun(id)
	if err != nil {
		return err
	}
	r.Undone = 0
	for _, a := range t.approvalsOf(id) {
		row, err := t.mustApproval(a)
		if err != nil {
			return err
		}
		r.Undone += undone(&row.Approval)
	}
	if hasWork(r) {
		if err := t.bucket(bucketTodo).Put(timeKey(&r.CreatedAt, id), []byte{}); err != nil {
			return err
		}
	}
	raw, err := store.Encode(r)
	if err != nil {
		return err
	}
	return t.bucket(bucketRuns).Put([]byte(id), raw)
}

// undone is 1 for a decision that nobody has acted upon.
func undone(a *core.Approval) int {
	if (a.State == core.ApprovalApproved || a.State == core.ApprovalDenied) && !a.Used {
		return 1
	}
	return 0
}

// hasWork reports whether a runner would have something to do with a run.
func hasWork(r *runRow) bool {
	switch {
	case r.Remote || r.State.Final():
		return false
	case r.State == core.RunWaiting:
		return r.Abort != nil || r.Undone > 0 || r.Replanned
	}
	return true
}

// indexRun keeps the indexes of a run by state and by what there is to do;
// before is nil for a new run, r for one that goes.
func (t *txn) indexRun(before, r *runRow) error {
	states := t.bucket(bucketState)
	if before != nil && (r == nil || before.State != r.State) {
		if err := t.del(states, stateKey(before)); err != nil {
			return err
		}
	}
	if r != nil && (before == nil || before.State != r.State) {
		if err := t.put(states, stateKey(r), r.labels()); err != nil {
			return err
		}
	}
	had, has := before != nil && hasWork(before), r != nil && hasWork(r)
	switch {
	case had && !has:
		return t.del(t.bucket(bucketTodo), timeKey(&before.CreatedAt, before.ID))
	case has && !had:
		return t.put(t.bucket(bucketTodo), timeKey(&r.CreatedAt, r.ID), []byte{})
	}
	return nil
}

func statePrefix(s core.RunState) []byte { return append([]byte(s), 0) }

func stateKey(r *runRow) []byte { return append(statePrefix(r.State), timeKey(&r.CreatedAt, r.ID)...) }

// labels are short hashes of what lists are filtered by. They lie in the
// indexes, so that a list need not decode the rows that it leaves out.
type labels struct{ owner, workspace, key uint64 }

const labelsLen = 24

func (r *runRow) labels() []byte {
	l := labels{short(r.Owner), short(r.Workspace), short(r.IdempotencyKey)}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, labelsLen), l.owner)
	b = binary.BigEndian.AppendUint64(b, l.workspace)
	return binary.BigEndian.AppendUint64(b, l.key)
}

func short(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// rulesOut reports whether a run with the labels of an index entry cannot match.
// Entries of an older pml have none and may match.
func (l labels) rulesOut(entry []byte) bool {
	if len(entry) != labelsLen {
		return false
	}
	for i, want := range []uint64{l.owner, l.workspace, l.key} {
		if want != 0 && binary.BigEndian.Uint64(entry[i*8:]) != want {
			return true
		}
	}
	return false
}

// back walks the keys of an index with a prefix from the newest to the oldest.
type back struct {
	c      *bbolt.Cursor
	prefix []byte
	k, v   []byte // the present entry, k without the prefix; nil at the end
}

// newBack begins at the last entry before a key, or at the very last one.
func newBack(b *bbolt.Bucket, prefix, before []byte) *back {
	w := &back{c: b.Cursor(), prefix: prefix}
	switch {
	case before != nil:
		w.c.Seek(append(bytes.Clone(prefix), before...))
		w.take(w.c.Prev())
	case len(prefix) > 0:
		w.c.Seek(append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...))
		w.take(w.c.Prev())
	default:
		w.take(w.c.Last())
	}
	return w
}

func (w *back) take(k, v []byte) {
	w.k, w.v = nil, nil
	if k != nil && bytes.HasPrefix(k, w.prefix) {
		w.k, w.v = k[len(w.prefix):], v
	}
}

func (w *back) next() { w.take(w.c.Prev()) }
