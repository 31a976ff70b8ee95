package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/casys-ai/pml/core"
)

// layers keeps count of a run's layers. With barrier set, outcomes of a layer
// are held until all of it is done, and calls of the next one until they may
// start.
type layers struct {
	barrier bool
	open    map[int]int // calls that have not settled, by layer
	current int         // the lowest layer that is not complete
	highest int
	stamped int // the layers below this one have their checkpoint
	passed  map[int]bool
}

func newLayers(run core.Run) layers {
	hil := run.Options.HIL == core.HILAlways || run.Options.HIL == core.HILSideEffects
	return layers{
		barrier: run.Options.PerLayer || hil,
		open:    map[int]int{}, highest: -1, stamped: run.CurrentLayer, passed: map[int]bool{},
	}
}

func (l *layers) issue(c *call) {
	l.open[c.layer]++
	l.highest = max(l.highest, c.layer)
}

// deliver counts a call whose outcome the program now has.
func (l *layers) deliver(c *call) {
	if l.open[c.layer]--; l.open[c.layer] == 0 {
		delete(l.open, c.layer)
	}
}

// lowest is the lowest layer with a call that the program waits for, or one
// past the highest.
func (l *layers) lowest() int {
	if len(l.open) == 0 {
		return l.highest + 1
	}
	low := l.highest
	for n := range l.open {
		low = min(low, n)
	}
	return low
}

// releasable returns the outcomes of the lowest layer once all of it has
// settled, in the order in which they did, as without barriers: races and
// timers mean the same. It journals that the layer was released.
func (a *actor) releasable() []delivery {
	low := a.layers.lowest()
	var list []*call
	for _, c := range a.order {
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
	r, replayed := a.journal.released[low]
	if !replayed {
		r = core.Record{Kind: core.RecordLayer, Layer: low, At: a.now()}
		r.Seq = a.record(r)
		a.journal.released[low] = r
	}
	out := make([]delivery, len(list))
	for i, c := range list {
		out[i] = a.delivery(c, r.At)
	}
	return out
}

// openLayers writes the checkpoints of layers that are complete, and with
// barriers lets the calls of the next layer go on or asks whether they may.
func (a *actor) openLayers() {
	low := a.layers.lowest()
	if low > a.layers.stamped && !a.ending() {
		a.checkpoint(low - 1)
	}
	a.layers.current = low
	a.run.CurrentLayer = low
	a.run.TotalLayers = max(a.run.TotalLayers, a.layers.highest+1)
	if !a.layers.barrier || a.ending() {
		return
	}
	a.pause = nil
	next := a.heldCalls(low)
	if len(next) == 0 {
		return
	}
	ask, ready := a.layerNeedsAsking(low, next)
	if !ready {
		return
	}
	if ask && !a.layerApproved(low, next) {
		return
	}
	a.layers.passed[low] = true
	for _, c := range next {
		a.admit(c)
	}
}

// heldCalls are the calls of a layer that have not been let on.
func (a *actor) heldCalls(layer int) []*call {
	var out []*call
	for _, c := range a.order {
		if c.layer <= layer && c.state == callIssued {
			out = append(out, c)
		}
	}
	return out
}

// layerNeedsAsking decides by the run's options. ready is false while a check
// that decides it is still out.
func (a *actor) layerNeedsAsking(layer int, next []*call) (ask, ready bool) {
	if a.layers.passed[layer] {
		return false, true
	}
	always := a.run.Options.PerLayer && layer > 0 || a.run.Options.HIL == core.HILAlways
	if !always && a.run.Options.HIL != core.HILSideEffects {
		return false, true
	}
	for _, c := range next {
		if c.weighing || !always && !c.checked {
			return false, false
		}
		if !a.readOnly(c) {
			ask = true
		}
	}
	return ask || always, true
}

func (a *actor) readOnly(c *call) bool {
	if c.spec != nil && c.spec.SideEffects != nil {
		return !*c.spec.SideEffects
	}
	return c.verdict.ReadOnly
}

func layerSubject(layer int) string { return fmt.Sprintf("layer:%d", layer) }

// layerApproved reports whether the layer may start; otherwise it sees to it
// that somebody is asked. A yes counts for the calls that were shown: when a
// replan or a retry has changed the list, it is asked anew.
func (a *actor) layerApproved(layer int, next []*call) bool {
	ask := a.layerAsk(layer, next)
	var about *core.Approval
	for _, ap := range a.approvals {
		switch {
		case ap.Type != ask.Type || ap.Subject != ask.Subject || ap.State == core.ApprovalSuperseded:
		case ap.State == core.ApprovalDenied:
			a.rejectRun(ap)
			return false
		case ap.Digest == ask.Digest:
			about = ap
		case ap.State == core.ApprovalOpen:
			a.drop(ap)
		case ap.State == core.ApprovalApproved: // for other calls than these
			a.use(ap, "")
		}
	}
	if about != nil && about.State == core.ApprovalApproved {
		a.use(about, "")
		return true
	}
	if about == nil {
		a.open(nil, ask)
	}
	a.pause = a.layerPause(layer, next)
	return false
}

func (a *actor) layerPause(layer int, next []*call) *LayerPause {
	p := &LayerPause{Done: layer - 1, Total: a.run.TotalLayers}
	for _, c := range next {
		p.Next = append(p.Next, core.Task{ID: c.id, Tool: c.tool, Layer: c.layer, State: core.TaskQueued, Arguments: c.args})
	}
	return p
}

// layerAsk is the question whether a layer may start.
func (a *actor) layerAsk(layer int, next []*call) Ask {
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
		size += len(c.args)
	}
	for _, c := range next {
		p := preview{ID: c.id, Tool: c.tool}
		if size <= maxShown && len(c.args) > 0 { // too much to be read is left to the run's view
			p.Arguments = a.redactJSON(c.args)
		}
		upcoming = append(upcoming, p)
	}
	for _, c := range a.order {
		if c.layer == layer-1 && c.state == callDelivered {
			done = append(done, result{c.id, c.tool, c.outcome.State()})
		}
	}
	risk := core.RiskLow
	for _, c := range next {
		if !a.readOnly(c) {
			risk = core.RiskMedium
		}
	}
	shown := map[string]any{"layer_index": layer, "total_layers": a.run.TotalLayers, "results": done, "next": upcoming}
	if dag := a.shownDAG(layer); dag != nil {
		shown["dag"] = dag
	}
	return Ask{
		Type: core.ApproveLayer, Subject: layerSubject(layer), Risk: risk, Digest: a.layerDigest(layer),
		Description: fmt.Sprintf("Start layer %d of %d? Calls in it: %d.", layer+1, max(a.run.TotalLayers, layer+1), len(next)),
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
func (a *actor) shownDAG(layer int) []core.TaskSpec {
	if layer > 0 || a.run.Kind != core.KindDAG || len(a.program.Tasks) > maxShownTasks {
		return nil
	}
	size := 0
	for _, t := range a.program.Tasks {
		size += len(t.Arguments)
	}
	out := make([]core.TaskSpec, len(a.program.Tasks))
	for i, t := range a.program.Tasks {
		out[i] = core.TaskSpec{ID: t.ID, Tool: t.Tool, Type: t.Type, DependsOn: t.DependsOn}
		if len(t.Arguments) > 0 && size <= maxShown {
			out[i].Arguments = a.redactJSON(t.Arguments)
		}
	}
	return out
}

// layerDigest is of all calls of a layer that are sent, those that have settled
// as well: it stays the same while the layer is under way, in every process.
func (a *actor) layerDigest(layer int) string {
	var key []string
	for _, c := range a.order {
		skipped := c.skip || c.reason != nil || c.state >= callSettled && c.outcome == core.OutcomeSkipped
		if c.layer <= layer && c.tool != core.SleepTool && !skipped && c.state != callDelivered {
			key = append(key, c.id+" "+c.tool+" "+c.digest)
		}
	}
	slices.Sort(key)
	digest, err := core.DigestOf(key)
	if err != nil {
		return ""
	}
	return digest
}

// checkpoint marks that a layer is complete.
func (a *actor) checkpoint(layer int) {
	a.layers.stamped = layer + 1
	cp := core.Checkpoint{
		ID: a.o.NewID(), RunID: a.run.ID, Layer: layer, DAGVersion: a.run.DAGVersion,
		JournalSeq: a.run.JournalSeq, CreatedAt: a.now(),
	}
	a.step.Checkpoint = &cp
	e := a.event(core.EventCheckpoint)
	e.Layer = &layer
	a.emit(e)
}
