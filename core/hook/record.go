package hook

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/store"
)

const (
	// flushAfter is how long a record waits for others to be written with it.
	flushAfter = 200 * time.Millisecond
	// flushTime bounds one write.
	flushTime = 5 * time.Second
	// keptRecords is how many records are kept at hand for their second halves; those of
	// the others are looked up in the store.
	keptRecords = 1000
)

// record is what one flow did with one call, as far as it is known.
type record struct {
	run     core.FlowRun
	secrets func(string) string
	// done are the ends of nodes that nobody waited for, by half and node.
	done map[besideKey]core.FlowNodeRun
}

type besideKey struct {
	node     string
	response bool
}

// recorder writes what flows did, in batches and as well as it can: that a record is
// lost is logged, and no call fails for it.
type recorder struct {
	store Store
	log   *slog.Logger

	mu      sync.Mutex
	records map[core.ID]*record
	order   []core.ID
	dirty   map[*record]bool
	endings []ending // of flow runs that are not at hand
	timer   *time.Timer
	closed  bool
	writing sync.Mutex
}

func newRecorder(s Store, log *slog.Logger) *recorder {
	return &recorder{store: s, log: log, records: map[core.ID]*record{}, dirty: map[*record]bool{}}
}

// open keeps a new record at hand.
func (r *recorder) open(rec *record) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records[rec.run.ID] = rec
	r.order = append(r.order, rec.run.ID)
	if len(r.order) > keptRecords {
		delete(r.records, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
	return rec
}

// known returns the record of a flow run that has begun, perhaps in another process;
// else begun.
func (r *recorder) known(ctx context.Context, begun *record) *record {
	r.mu.Lock()
	rec := r.records[begun.run.ID]
	r.mu.Unlock()
	if rec != nil {
		return rec
	}
	if r.store != nil {
		runs, err := r.store.FlowRuns(ctx, store.FlowRunFilter{Key: begun.run.Key(), RunID: begun.run.RunID})
		if i := slices.IndexFunc(runs, func(run core.FlowRun) bool { return run.ID == begun.run.ID }); err == nil && i >= 0 {
			begun.run = runs[i]
		}
	}
	return r.open(begun)
}

// first notes what the first half did, second what the second one did.
func (r *recorder) first(rec *record, half flow.Half, took time.Duration) {
	r.note(rec, half, took, nil)
}

// second is also given how the call ended.
func (r *recorder) second(rec *record, half flow.Half, took time.Duration, answer flow.Answer) {
	// An attempt that is made again has a second half again.
	r.note(rec, half, took, func(n core.FlowNodeRun) bool { return n.Response })
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.called(answered(answer), answer.Err)
	r.changed(rec)
}

// called notes how the call itself has ended, at the node where the first half did.
func (rec *record) called(state core.FlowState, err *core.Error) {
	nodes := slices.Clone(rec.run.Nodes)
	for i := range nodes {
		if nodes[i].Type == flow.TypeCall && nodes[i].State != core.FlowSkipped {
			if nodes[i].State, nodes[i].Reason = state, ""; err != nil {
				nodes[i].Reason = rec.secrets(err.Message)
			}
		}
	}
	rec.run.Nodes = nodes
}

// answered is the state of an mcp-call node by the call's end.
func answered(a flow.Answer) core.FlowState {
	switch {
	case a.Err == nil:
		return core.FlowOK
	case refuses(a.Err):
		return core.FlowDenied
	}
	return core.FlowFailed
}

// refuses reports whether an error is the refusal of a call by a person, a rule, a gate
// or a flow.
func refuses(err *core.Error) bool {
	switch err.Code { //nolint:exhaustive // for other reasons a call is not made, or not to its end
	case core.CodeDenied, core.CodePermissionDenied, core.CodeHookFailed, core.CodeInvalidArguments, core.CodeNotTrusted, core.CodeInvalidConfig:
		return true
	}
	return false
}

func (r *recorder) note(rec *record, half flow.Half, took time.Duration, replaced func(core.FlowNodeRun) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := slices.Clone(rec.run.Nodes)
	if replaced != nil {
		nodes = slices.DeleteFunc(nodes, replaced)
	}
	for _, n := range half.Nodes {
		if done, ok := rec.done[besideKey{n.Node, n.Response}]; ok {
			n = done
		}
		n.Reason = rec.secrets(n.Reason)
		nodes = append(nodes, n)
	}
	rec.run.Nodes, rec.run.State, rec.run.Reason, rec.run.Node = nodes, half.State, rec.secrets(half.Reason), ""
	if half.State != core.FlowPending && half.State != core.FlowOK {
		rec.run.Node = half.Node
	}
	rec.run.DurationUS += took.Microseconds()
	r.changed(rec)
}

// ending is that a flow run has no second half, and why.
type ending struct {
	flowRun, run core.ID
	err          *core.Error // without the values of keys
}

// unanswered ends a flow run that waits for an answer.
func (r *recorder) unanswered(e ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[e.flowRun]
	switch {
	case rec == nil:
		r.endings = append(r.endings, e)
		r.soon()
	case rec.run.State == core.FlowPending:
		rec.run = Unanswered(rec.run, e.err)
		r.changed(rec)
	}
}

// Unanswered is a flow run whose call got no answer, for the reason of err.
func Unanswered(run core.FlowRun, err *core.Error) core.FlowRun {
	run.State, run.Reason, run.Nodes = core.FlowCancelled, err.Message, slices.Clone(run.Nodes)
	if refuses(err) {
		run.State = core.FlowDenied
	}
	for i, n := range run.Nodes {
		if n.Type == flow.TypeCall && n.State == core.FlowPending {
			run.Nodes[i].State, run.Nodes[i].Reason = run.State, run.Reason
		}
	}
	return run
}

// Answered is a flow run whose call was answered, and whose second half was not kept: that
// did not refuse the answer.
func Answered(run core.FlowRun) core.FlowRun {
	rec := &record{run: run}
	rec.run.State = core.FlowOK
	rec.called(core.FlowOK, nil)
	return rec.run
}

// ended are the flow runs of the store that endings end.
func (r *recorder) ended(ctx context.Context, endings []ending) (out []core.FlowRun) {
	read := map[core.ID][]core.FlowRun{}
	for _, e := range endings {
		runs, ok := read[e.run]
		if !ok {
			var err error
			if runs, err = r.store.FlowRuns(ctx, store.FlowRunFilter{RunID: e.run}); err != nil {
				r.log.Warn("that a call was not answered could not be kept with what flows did", "workflow_id", e.run, "error", err)
			}
			read[e.run] = runs
		}
		i := slices.IndexFunc(runs, func(run core.FlowRun) bool { return run.ID == e.flowRun && run.State == core.FlowPending })
		if i >= 0 {
			runs[i] = Unanswered(runs[i], e.err)
			out = append(out, runs[i])
		}
	}
	return out
}

// beside notes the end of a node that nobody waited for, which may come before that of
// its half.
func (r *recorder) beside(rec *record, n core.FlowNodeRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.done == nil {
		rec.done = map[besideKey]core.FlowNodeRun{}
	}
	rec.done[besideKey{n.Node, n.Response}] = n
	nodes := slices.Clone(rec.run.Nodes)
	i := slices.IndexFunc(nodes, func(x core.FlowNodeRun) bool {
		return x.Node == n.Node && x.Response == n.Response && x.State == core.FlowRunning
	})
	if i < 0 {
		return
	}
	nodes[i], rec.run.Nodes = n, nodes
	r.changed(rec)
}

// changed has a record written soon. r.mu is held.
func (r *recorder) changed(rec *record) {
	if r.store == nil {
		return
	}
	r.dirty[rec] = true
	r.soon()
}

// soon has what waits written. r.mu is held.
func (r *recorder) soon() {
	if r.store != nil && r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(flushAfter, r.flush)
	}
}

// flush writes what has changed.
func (r *recorder) flush() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	r.timer = nil
	runs := make([]core.FlowRun, 0, len(r.dirty))
	for rec := range maps.Keys(r.dirty) {
		runs = append(runs, rec.run)
	}
	clear(r.dirty)
	endings := r.endings
	r.endings = nil
	r.mu.Unlock()
	if len(runs)+len(endings) == 0 || r.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if runs = append(runs, r.ended(ctx, endings)...); len(runs) == 0 {
		return
	}
	if err := r.store.SaveFlowRuns(ctx, runs...); err != nil {
		r.log.Warn("what flows did could not be kept", "flow_runs", len(runs), "error", err)
	}
}

// close writes what is left.
func (r *recorder) close() error {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.flush()
	return nil
}
