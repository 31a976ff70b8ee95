package screen

import (
	"cmp"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// flowsPanel lists the hook flows of the home and the workspace; one of them opens as
// a graph. They are read when the panel is first looked at.
type flowsPanel struct {
	read    bool
	err     string
	rows    []flowRow
	at      state.FlowFile
	scroll  widget.Scroll
	view    *flowView      // that is open
	opening state.FlowFile // it opens as soon as it was read
}

// flowRow is one flow with what its runs come to.
type flowRow struct {
	file    state.FlowFile
	folder  *flow.Folder
	flow    *flow.Flow
	trusted bool
	runs    []core.FlowRun
	stats   flowStats
}

// flowStats are numbers of the runs of a flow, or of one of its nodes. Times are in
// microseconds.
type flowStats struct {
	runs, blocked, failed, changed int
	p50, p95, max                  int64
}

func newFlows() *flowsPanel { return &flowsPanel{} }

// ShowFlows takes the flows that LoadFlows asked for, or why they cannot be read.
func (s *Screen) ShowFlows(read state.Flows, err error) {
	p := s.panels[PanelFlows].(*flowsPanel)
	if p.read = true; err != nil {
		p.err = core.Visible(err.Error(), 300, false)
		return
	}
	p.err, p.rows = "", nil
	add := func(folder *flow.Folder, key func(id string) core.FlowKey, trusted bool) {
		if folder == nil {
			return
		}
		for _, f := range folder.Flows {
			runs := read.Runs[key(f.ID)]
			p.rows = append(p.rows, flowRow{state.FlowFile{Home: folder.Home, Name: f.File}, folder, f, trusted, runs, statsOf(runs)})
		}
	}
	add(read.Home, func(id string) core.FlowKey { return core.FlowKey{Flow: id} }, true)
	add(read.Workspace, func(id string) core.FlowKey { return core.FlowKey{Workspace: read.Dir, Flow: id} }, read.Trusted)
	slices.SortStableFunc(p.rows, func(a, b flowRow) int { return cmp.Compare(a.flow.Priority, b.flow.Priority) })
	slices.SortStableFunc(p.rows, func(a, b flowRow) int { return -compareBool(a.file.Home, b.file.Home) })
	if row := p.row(p.opening); row != nil {
		p.open(*row)
		p.opening = state.FlowFile{}
	}
	if p.view == nil {
		return
	}
	if row := p.row(p.view.row.file); row != nil {
		p.view.take(*row)
	} else if !p.view.edit.Changed() {
		p.view = nil
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// ShowsFlows reports whether the flows are in view.
func (s *Screen) ShowsFlows() bool { return s.panes.focus == PanelFlows && s.panes.mode() >= single }

// row is the row of a flow, nil when there is none.
func (p *flowsPanel) row(file state.FlowFile) *flowRow {
	for i := range p.rows {
		if p.rows[i].file == file {
			return &p.rows[i]
		}
	}
	return nil
}

// cursor is the index of the row with the cursor.
func (p *flowsPanel) cursor() int {
	return max(slices.IndexFunc(p.rows, func(r flowRow) bool { return r.file == p.at }), 0)
}

// statsOf counts runs of a flow.
func statsOf(runs []core.FlowRun) flowStats {
	s := flowStats{runs: len(runs)}
	took := make([]int64, len(runs))
	for i := range runs {
		took[i] = runs[i].DurationUS
		s.count(runs[i].State)
		if slices.ContainsFunc(runs[i].Nodes, func(n core.FlowNodeRun) bool { return n.Change != nil }) {
			s.changed++
		}
	}
	s.times(took)
	return s
}

// nodeStatsOf counts what each node did in runs of its flow, and names the slowest: that
// with the highest p95.
func nodeStatsOf(runs []core.FlowRun) (stats map[string]flowStats, slowest string) {
	took := map[string][]int64{}
	stats = map[string]flowStats{}
	for i := range runs {
		for _, n := range runs[i].Nodes {
			if n.State == core.FlowSkipped {
				continue
			}
			s := stats[n.Node]
			s.runs++
			s.count(n.State)
			if n.Change != nil {
				s.changed++
			}
			stats[n.Node] = s
			took[n.Node] = append(took[n.Node], n.DurationUS)
		}
	}
	for id, s := range stats {
		s.times(took[id])
		stats[id] = s
		if most := stats[slowest].p95; s.p95 > most || s.p95 == most && most > 0 && id < slowest {
			slowest = id
		}
	}
	return stats, slowest
}

func (s *flowStats) count(state core.FlowState) {
	switch state {
	case core.FlowBlocked:
		s.blocked++
	case core.FlowFailed, core.FlowTimeout:
		s.failed++
	case core.FlowPending, core.FlowRunning, core.FlowOK, core.FlowSkipped, core.FlowDenied, core.FlowCancelled:
	}
}

// times sets the percentiles of how long runs took.
func (s *flowStats) times(took []int64) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(percent int) int64 { return took[(len(took)*percent+99)/100-1] }
	s.p50, s.p95, s.max = at(50), at(95), took[len(took)-1]
}

func (p *flowsPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	if p.view != nil {
		if intents, done := p.view.do(act, e); done || act != keys.Back {
			return intents, done
		}
		return p.leave(), true
	}
	if act == keys.NewFlow {
		return p.newFlow(e), true
	}
	n := len(p.rows)
	if to, ok := p.scroll.Move(act, p.cursor(), n); ok {
		if n > 0 {
			p.at = p.rows[max(to, 0)].file
		}
		return nil, true
	}
	if n == 0 {
		return nil, false
	}
	row := p.rows[p.cursor()]
	switch act {
	case keys.Open:
		p.open(row)
		return nil, true
	case keys.TryFlow:
		p.open(row)
		return p.view.tryMenu(e), true
	default:
		return row.do(act)
	}
}

// leave closes the open flow; what is not saved a person says yes to.
func (p *flowsPanel) leave() []Intent {
	if !p.view.edit.Changed() {
		p.view = nil
		return nil
	}
	return []Intent{openOverlay{&confirm{title: "Leave without saving?", text: "The changes of this flow would be lost; o saves them.", yes: func(*Env) []Intent {
		p.view = nil
		return nil
	}}}}
}

func (p *flowsPanel) open(row flowRow) {
	p.at, p.view = row.file, &flowView{}
	p.view.take(row)
}

// do carries out what is about a flow as a whole.
func (r *flowRow) do(act keys.Action) ([]Intent, bool) {
	switch act {
	case keys.SwitchFlow:
		return r.switched(), true
	case keys.TrustFlows:
		return []Intent{Shell{Args: []string{"trust"}}}, true
	case keys.CopyID:
		return []Intent{Copy{What: "an id", Text: r.flow.ID}}, true
	case keys.CopyAll:
		return []Intent{Copy{What: "the JSON of the flow", Text: string(r.flow.Text())}}, true
	default:
		return nil, false
	}
}

// switched enables or disables a flow. One with faults would refuse all that it matches,
// and one that is off lets pass what it refused: a person says yes to that.
func (r *flowRow) switched() []Intent {
	want := SwitchFlow{Flow: r.file, Enable: !r.flow.Enabled}
	switch {
	case want.Enable && len(r.flow.Faults) > 0:
		return []Intent{say{Bad, "it has " + plural(len(r.flow.Faults), "fault") + ", and can be enabled without: enter opens it"}}
	case want.Enable || r.flow.Mode == flow.Audit:
		return []Intent{want}
	}
	text := "Calls that it checks go on without it: " + matchText(r.flow)
	if r.trusted && !r.file.Home { // a restriction of a workspace holds until a person trusts the text without it
		text = "Calls that it checks are refused until you have trusted the change (T), and go on without it then: " + matchText(r.flow)
	}
	return []Intent{openOverlay{&confirm{
		title: "Disable this flow?", text: text,
		yes: func(*Env) []Intent { return []Intent{want} },
	}}}
}

func (p *flowsPanel) click(x, y int, e *Env) []Intent {
	if p.view != nil {
		return p.view.click(x-2, y-1)
	}
	if row := p.scroll.Top + y - 2; y >= 2 && y < 2+p.scroll.Height && row < len(p.rows) {
		p.at = p.rows[row].file
	}
	return nil
}

func (p *flowsPanel) hints(e *Env) []keys.Action {
	if p.view != nil {
		return p.view.hints()
	}
	if len(p.rows) == 0 {
		return []keys.Action{keys.NewFlow, keys.Palette}
	}
	return []keys.Action{keys.Open, keys.NewFlow, keys.TryFlow, keys.SwitchFlow, keys.TrustFlows, keys.CopyAll, keys.Palette}
}

// hintWord implements wording.
func (p *flowsPanel) hintWord(act keys.Action, _ *Env) string {
	if p.view == nil {
		return ""
	}
	return map[keys.Action]string{keys.NextTab: "earlier run", keys.PreviousTab: "later run", keys.Back: "all flows"}[act]
}

// showCall shows the call of a flow run.
type showCall struct {
	run  core.ID
	call string
}

func (showCall) intent() {}

func (s *Screen) showCall(c showCall) {
	s.sel.Run, s.sel.Task = c.run, c.call
	s.focusOn(PanelTask)
}

// ShowFlowRun opens the flow that a call met, at the run that has most to tell: one that
// blocked or changed it. Why says why it does not, and is safe to show; empty: it does.
func (s *Screen) ShowFlowRun(runs []core.FlowRun) (why string) {
	p := s.panels[PanelFlows].(*flowsPanel)
	if len(runs) == 0 {
		return "no flow has met this call"
	}
	slices.SortStableFunc(runs, func(a, b core.FlowRun) int { return compareBool(telling(b), telling(a)) })
	for _, run := range runs {
		for _, row := range p.rows {
			if row.flow.ID != run.Flow || row.file.Home != (run.Workspace == "") {
				continue
			}
			if v := p.view; v != nil && v.row.file != row.file && v.edit.Changed() {
				return "the changes of the flow " + v.row.name() + " are not saved: 9 goes there"
			}
			if p.view == nil || p.view.row.file != row.file {
				p.open(row)
			}
			p.view.show(run)
			s.read[PanelFlows] = true
			s.focusOn(PanelFlows)
			return ""
		}
	}
	return "the flow " + visibleName(runs[0].Name) + " that met this call is no more"
}

// telling reports whether a flow run did anything to its call.
func telling(r core.FlowRun) bool {
	return slices.Contains([]core.FlowState{core.FlowBlocked, core.FlowFailed, core.FlowTimeout}, r.State) || slices.ContainsFunc(r.Nodes, func(n core.FlowNodeRun) bool { return n.Change != nil })
}

// The columns of the list of flows.
const (
	flState = iota
	flName
	flMode
	flMatch
	flRuns
	flBlocked
	flTook
)

func (p *flowsPanel) draw(a paint.Area, e *Env, focus bool) {
	if p.view != nil {
		p.view.draw(a, e, focus)
		return
	}
	in := a.Frame(paint.Title{Left: "9 Flows", Right: plural(len(p.rows), "flow"), Focus: focus})
	if len(p.rows) == 0 || p.err != "" {
		p.drawNothing(in, e)
		return
	}
	cols := widget.PlaceColumns([]widget.Column{
		flState: {Title: "STATE", Width: 12}, flName: {Title: "NAME", Width: 16, Grow: true}, flMode: {Title: "MODE", Width: 7, Drop: 3},
		flMatch: {Title: "MATCH", Width: 14, Grow: true}, flRuns: {Title: "RUNS", Width: 4, Drop: 1},
		flBlocked: {Title: "BLOCKED", Width: 7, Drop: 2}, flTook: {Title: "P95", Width: 7, Drop: 4},
	}, 3, in.W-3)
	widget.DrawTitles(in, 0, cols)
	at, below := p.cursor(), min(in.H/2, 12)
	if in.H < 10 {
		below = 0
	}
	p.scroll.Show(at, len(p.rows), in.H-1-below)
	for y := 0; y < p.scroll.Height && p.scroll.Top+y < len(p.rows); y++ {
		p.rows[p.scroll.Top+y].draw(in, 1+y, cols, e)
		if p.scroll.Top+y == at {
			widget.DrawCursor(in, 1+y, focus)
		}
	}
	if below > 0 {
		p.rows[at].drawDetail(in.Sub(0, in.H-below, in.W, below), e)
	}
}

func (p *flowsPanel) drawNothing(in paint.Area, e *Env) {
	text, style := "No hook flow is here yet. A flow looks at tool calls before they are made, and at their answers: it can block, change or ask. + makes one from a template.", paint.Style{Role: paint.Muted}
	switch {
	case p.err != "":
		text, style.Role = e.Theme.Glyph.Failed+" cannot read the flows: "+p.err, paint.Danger
	case !p.read:
		text = "Reading the flows."
	}
	for i, l := range paint.Wrap(text, in.W) {
		in.Put(0, i, style, l)
	}
}
