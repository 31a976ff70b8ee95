package engine

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/casys-ai/pml/core"
)

// layers decide when the calls of a layer may go on, and when the program has the
// outcomes of one. With barrier set, outcomes of a layer are held until all of it is
// done, and calls of the next one until they may start.
type layers struct {
	run       *core.Run // its CurrentLayer and TotalLayers
	program   *core.Program
	batch     *batch
	journal   *journal
	calls     *callTable
	questions *questions
	stop      *stopper

	barrier  bool
	unmarked bool         // no checkpoints: of a run of one call
	stamped  int          // the layers below this one have their checkpoint
	passed   map[int]bool // those that may start
	pause    *LayerPause  // the run waits between two layers
}

// reset begins with the first layer anew; checkpoints that are kept stay.
func (l *layers) reset() {
	hil := l.run.Options.HIL == core.HILAlways || l.run.Options.HIL == core.HILSideEffects
	l.barrier, l.stamped, l.passed, l.pause = l.run.Options.PerLayer || hil, l.run.CurrentLayer, map[int]bool{}, nil
}

// holds reports whether a call has to wait for its layer.
func (l *layers) holds(c *call) bool { return l.barrier && !l.passed[c.layer] }

// releasable returns the outcomes of the lowest layer once all of it has
// settled, in the order in which they did, as without barriers: races and
// timers mean the same. It journals that the layer was released.
func (l *layers) releasable() []delivery {
	low := l.calls.lowest()
	var list []*call
	for _, c := range l.calls.order {
		if c.state == callDelivered || c.layer > low {
			continue
		}
		if c.state != callSettled {
			return nil
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil
	}
	sort.Slice(list, func(i, j int) bool { return list[i].seq < list[j].seq })
	r, replayed := l.journal.released[low]
	if !replayed {
		r = core.Record{Kind: core.RecordLayer, Layer: low, At: l.batch.now()}
		r.Seq = l.batch.record(r)
		l.journal.released[low] = r
	}
	out := make([]delivery, len(list))
	for i, c := range list {
		out[i] = l.calls.deliver(c, r.At)
	}
	return out
}

// open writes the checkpoints of layers that are complete, and with
// barriers lets the calls of the next layer go on or asks whether they may.
func (l *layers) open() []*call {
	low := l.calls.lowest()
	if low > l.stamped && !l.unmarked && !l.stop.ending() {
		l.stamped = low
		l.batch.checkpoint(low - 1)
	}
	l.run.CurrentLayer = low
	l.run.TotalLayers = max(l.run.TotalLayers, l.calls.highest+1)
	if !l.barrier || l.stop.ending() {
		return nil
	}
	l.pause = nil
	next := l.calls.held(low)
	if len(next) == 0 {
		return nil
	}
	ask, ready := l.needsAsking(low, next)
	if !ready || ask && !l.approved(low, next) {
		return nil
	}
	l.passed[low] = true
	return next
}

// needsAsking decides by the run's options. ready is false while a check
// is still out, which decides it, and what is shown: hook flows change arguments.
func (l *layers) needsAsking(layer int, next []*call) (ask, ready bool) {
	if l.passed[layer] {
		return false, true
	}
	always := l.run.Options.PerLayer && l.calls.before(layer) >= 0 || l.run.Options.HIL == core.HILAlways
	if !always && l.run.Options.HIL != core.HILSideEffects {
		return false, true
	}
	for _, c := range next {
		if c.weighing || !c.checked {
			return false, false
		}
		if !c.readOnly() {
			ask = true
		}
	}
	return ask || always, true
}

func layerSubject(layer int) string { return fmt.Sprintf("layer:%d", layer) }

// approved reports whether the layer may start; otherwise it sees to it
// that somebody is asked. A yes counts for the calls that were shown: when a
// replan or a retry has changed the list, it is asked anew.
func (l *layers) approved(layer int, next []*call) bool {
	ask := l.ask(layer, next)
	var about *core.Approval
	for _, ap := range l.questions.list {
		switch {
		case ap.Type != ask.Type || ap.Subject != ask.Subject || ap.State == core.ApprovalSuperseded:
		case ap.State == core.ApprovalDenied:
			l.stop.reject(ap)
			return false
		case ap.Digest == ask.Digest:
			about = ap
		case ap.State == core.ApprovalOpen:
			l.questions.drop(ap)
		case ap.State == core.ApprovalApproved: // for other calls than these
			l.questions.use(ap, "")
		}
	}
	if about != nil && about.State == core.ApprovalApproved {
		l.questions.use(about, "")
		return true
	}
	if about == nil {
		l.questions.open(nil, ask)
	}
	l.pause = l.pauseBefore(layer, next)
	return false
}

func (l *layers) pauseBefore(layer int, next []*call) *LayerPause {
	p := &LayerPause{Done: l.calls.before(layer), Total: l.run.TotalLayers}
	for _, c := range next {
		p.Next = append(p.Next, core.Task{ID: c.id, Tool: c.tool, Layer: c.layer, State: core.TaskQueued, Arguments: c.sent.raw})
	}
	return p
}

// ask is the question whether a layer may start.
func (l *layers) ask(layer int, next []*call) Ask {
	type preview struct {
		ID        string          `json:"id"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	type result struct {
		ID     string         `json:"id"`
		Tool   string         `json:"tool"`
		Status core.TaskState `json:"status"`
	}
	upcoming, done := []preview{}, []result{} // lists for programs, never null
	size := 0
	for _, c := range next {
		size += len(c.sent.raw)
	}
	for _, c := range next {
		p := preview{ID: c.id, Tool: c.tool}
		if args := c.sent.raw; size <= maxShown && len(args) > 0 { // too much to be read is left to the run's view
			p.Arguments = l.batch.redact.JSON(args)
		}
		upcoming = append(upcoming, p)
	}
	before := l.calls.before(layer)
	for _, c := range l.calls.order {
		if c.layer == before && c.state == callDelivered {
			done = append(done, result{c.id, c.tool, c.outcome.State()})
		}
	}
	risk := core.RiskLow
	for _, c := range next {
		if !c.readOnly() {
			risk = core.RiskMedium
		}
	}
	shown := map[string]any{"layer_index": layer, "total_layers": l.run.TotalLayers, "results": done, "next": upcoming}
	if dag := l.shownDAG(layer); dag != nil {
		shown["dag"] = dag
	}
	return Ask{
		Type: core.ApproveLayer, Subject: layerSubject(layer), Risk: risk, Digest: l.calls.digest(layer),
		Description: fmt.Sprintf("Start layer %d of %d? Calls in it: %d.", layer+1, max(l.run.TotalLayers, layer+1), len(next)),
		Context:     shown,
	}
}

// The bounds of a DAG that is shown: its tasks, and the bytes of its arguments.
const (
	maxShownTasks = 200
	maxShown      = 16 << 10
)

// shownDAG is the whole DAG, for whoever is asked before any of it runs: what it
// will do later is not in its first layer. Arguments are left out when they are
// too much to be read.
func (l *layers) shownDAG(layer int) []core.TaskSpec {
	if layer > 0 || l.run.Kind != core.KindDAG || len(l.program.Tasks) > maxShownTasks {
		return nil
	}
	size := 0
	for _, t := range l.program.Tasks {
		size += len(t.Arguments)
	}
	out := make([]core.TaskSpec, len(l.program.Tasks))
	for i, t := range l.program.Tasks {
		out[i] = core.TaskSpec{ID: t.ID, Tool: t.Tool, Type: t.Type, DependsOn: t.DependsOn}
		if len(t.Arguments) > 0 && size <= maxShown {
			out[i].Arguments = l.batch.redact.JSON(t.Arguments)
		}
	}
	return out
}
