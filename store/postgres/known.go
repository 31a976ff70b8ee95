package postgres

import (
	"bytes"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// known is what this store has written last of runs that wait and of the audit log,
// so that a decision need not read it first. It may be out of date: a ruling is only
// kept if the database says that it is not.
type known struct {
	mu    sync.Mutex
	runs  map[core.ID]*waitingRun
	in    map[core.ID]core.ID // the run of a question
	head  *core.AuditRow      // seq and hash
	until time.Time           // others write, too: nothing is taken from here before

	// What runners need not read. A runner that has looked knows its run until
	// somebody else writes about it: the next decision, if it is made here, is all
	// that is new to it.
	turn  uint64              // counts what others, or the long way, have changed
	knows map[core.ID]uint64  // the turn at the newest look of a run's runner; none after a decision
	ruled map[core.ID]*ruling // what that decision has left
}

// waitingRun is a run as it is stored, with the questions that its last step has asked.
type waitingRun struct {
	run    *runRow
	header []byte
	asked  map[core.ID]*approvalRow
}

// The bounds of what is known: runs, bytes of one, and decisions that no runner has
// taken in yet.
const (
	mostWaiting  = 1 << 10
	largeWaiting = 16 << 10
	mostRuled    = 1 << 6
)

// othersWrite is how long decisions are read first once another store was faster.
const othersWrite = time.Minute

// audited notes a row of the audit log, unless a newer one is known.
func (k *known) audited(head core.AuditRow) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.head != nil && head.Seq < k.head.Seq {
		return
	}
	k.head = &core.AuditRow{Seq: head.Seq, Hash: head.Hash}
}

// stepped forgets what was known of a run, and notes what a step that was committed
// the long way has asked, nil for any other.
func (k *known) stepped(id core.ID, t *txn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.runs[id]; old != nil {
		for a := range old.asked {
			delete(k.in, a)
		}
		delete(k.runs, id)
	}
	delete(k.ruled, id)
	if t == nil || len(t.opened) == 0 || t.wrote == nil {
		return
	}
	w := &waitingRun{run: &runRow{}, header: t.data, asked: map[core.ID]*approvalRow{}}
	w.run.fill(t.wrote) // and nothing of what may be large
	size := len(t.data)
	for _, a := range t.opened {
		if size += len(a.raw) + len(a.Context); size <= largeWaiting {
			w.asked[a.ID] = &approvalRow{raw: a.raw, Approval: core.Approval{Context: bytes.Clone(a.Context)}}
		}
	}
	if len(w.asked) == 0 {
		return
	}
	if k.runs == nil || len(k.runs) >= mostWaiting { // a full one starts again
		k.runs, k.in = map[core.ID]*waitingRun{}, map[core.ID]core.ID{}
	}
	k.runs[id] = w
	for a := range w.asked {
		k.in[a] = id
	}
}

// standing is where a run stands that has asked a question, nil when that is not
// known.
func (k *known) standing(id core.ID, now time.Time) *standing {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.runs[k.in[id]]
	if w == nil || k.head == nil || now.Before(k.until) {
		return nil
	}
	at := &standing{run: &runRow{}, header: w.header, row: &approvalRow{raw: w.asked[id].raw}, head: *k.head}
	// It is read as it would be from the database.
	if decode(w.header, &at.run.Run) != nil || decode(at.row.raw, &at.row.Approval) != nil {
		return nil
	}
	at.row.Context = bytes.Clone(w.asked[id].Context) // the caller's own
	at.run.fill(w.run)
	return at
}

// changed notes that something was written that may be about any run.
func (k *known) changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn++
	clear(k.ruled)
}

// looks notes that the runner of a run is about to read all of it, or to create it.
func (k *known) looks(id core.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look(id)
}

func (k *known) look(id core.ID) {
	if _, ok := k.knows[id]; !ok && len(k.knows) >= mostWaiting || k.knows == nil {
		k.knows = map[core.ID]uint64{} // a full one starts again
	}
	k.knows[id] = k.turn
}

// ended forgets a run that has ended.
func (k *known) ended(id core.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.knows, id)
}

// upToDate reports whether the runner of a run knows all of it, and at what turn.
func (k *known) upToDate(id core.ID) (turn uint64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	turn, ok = k.knows[id]
	return turn, ok && turn == k.turn
}

// decided forgets what was known of a run, and notes what a decision has left, nil
// when that is not known. It is what the runner does not know yet if before it, at a
// turn, it knew all of the run, and nothing else has changed since.
func (k *known) decided(id core.ID, left *ruling, turn uint64, upToDate bool) {
	k.stepped(id, nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.knows[id]
	delete(k.knows, id)
	if left == nil || !upToDate || !ok || at != turn || k.turn != turn {
		return
	}
	row := &approvalRow{raw: left.row.raw}
	if decode(row.raw, &row.Approval) != nil { // what was returned is the caller's own
		return
	}
	row.Context = bytes.Clone(left.row.Context)
	if k.ruled == nil || len(k.ruled) >= mostRuled {
		k.ruled = map[core.ID]*ruling{}
	}
	k.ruled[id] = &ruling{run: left.run, row: row}
}

// takeRuling returns what the runner of a run does not know, once; nil when it has
// to read.
func (k *known) takeRuling(id core.ID) *ruling {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := k.ruled[id]
	if delete(k.ruled, id); left != nil {
		k.look(id)
	}
	return left
}

// outdated notes that what was known is not so any more.
func (k *known) outdated(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head, k.until = nil, now.Add(othersWrite)
}

// fill takes from another row what columns hold.
func (r *runRow) fill(c *runRow) {
	r.Owner, r.Workspace, r.Remote, r.CreatedAt = c.Owner, c.Workspace, c.Remote, time.Unix(0, c.CreatedAt.UnixNano()).UTC()
	r.State, r.ExpiresAt, r.Runner, r.Epoch = c.State, timeOf(nanos(c.ExpiresAt)), c.Runner, c.Epoch
	r.DAGVersion, r.TotalLayers, r.JournalSeq, r.Abort = c.DAGVersion, c.TotalLayers, c.JournalSeq, c.Abort
	r.lastStep, r.seen, r.open, r.undone = c.lastStep, c.seen, c.open, c.undone
}
