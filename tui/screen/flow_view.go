package screen

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/flowedit"
	"github.com/casys-ai/pml/tui/graph"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// flowView is one flow as a graph, with what one of its runs did in each node.
type flowView struct {
	row     flowRow // as it was read last
	edit    *flowedit.Editor
	trial   *flowTrial
	typed   string // the call that was typed last
	picking picking
	width   int // that the graph was laid out for
	boxes   widget.Boxes
	layers  []int // of the nodes
	node    string
	run     core.ID // that is shown; empty: the last one
	stats   map[string]flowStats
	slowest string
	detail  widget.Scroll
	lines   int // of the detail, as drawn last
	bar     int // the row of the buttons
	buttons []flowButton
}

// take takes the flow as it was read last. What a person has changed and not saved stays.
func (v *flowView) take(row flowRow) {
	v.row = row
	v.stats, v.slowest = nodeStatsOf(row.runs)
	if v.edit == nil || !v.edit.Changed() && !bytes.Equal(v.edit.Text(), row.flow.Text()) {
		v.edit = flowedit.New(row.folder, row.flow)
		v.lay()
	}
}

// flow is the flow as a person has changed it.
func (v *flowView) flow() *flow.Flow { return v.edit.Flow() }

// lay lays the graph out anew.
func (v *flowView) lay() {
	f := v.flow()
	nodes, edges := make([]graph.Node, len(f.Nodes)), make([]graph.Edge, len(f.Edges))
	v.layers = flowColumns(f)
	wide := 20
	for i, n := range f.Nodes {
		nodes[i] = graph.Node{ID: n.ID, Layer: v.layers[i]}
		wide = max(wide, min(paint.Width(nodeName(n))+6, 30))
	}
	for i, e := range f.Edges {
		edges[i] = graph.Edge{From: e.Source, To: e.Target, Label: core.Visible(e.Label, 8, false)}
	}
	for _, w := range []int{wide, 20, 16} { // narrow ones where wide ones do not fit
		if v.boxes.Layout = graph.Build(nodes, edges, graph.Options{BoxW: w, Fold: len(nodes) + 1}); v.boxes.Layout.W <= v.width {
			break
		}
	}
	if v.box() < 0 && len(f.Nodes) > 0 {
		v.node = f.Nodes[0].ID
	}
}

// flowColumns are the columns that nodes stand in: behind all that lead to them. Edges
// that close a circle do not count.
func flowColumns(f *flow.Flow) []int {
	index, out := map[string]int{}, map[string][]int{}
	for i, n := range slices.Backward(f.Nodes) {
		index[n.ID] = i
	}
	for _, e := range f.Edges {
		if to, ok := index[e.Target]; ok {
			out[e.Source] = append(out[e.Source], to)
		}
	}
	var order []int // each node before those that it leads to, as far as that goes
	place := make([]int, len(f.Nodes))
	var visit func(i int)
	visit = func(i int) {
		if place[i] != 0 {
			return
		}
		place[i] = -1
		for _, to := range out[f.Nodes[i].ID] {
			visit(to)
		}
		order = append(order, i)
		place[i] = -len(order)
	}
	for _, starts := range []bool{true, false} {
		for i, n := range f.Nodes {
			if starts == (n.Type == flow.TypeStart) {
				visit(i)
			}
		}
	}
	columns := make([]int, len(f.Nodes))
	for _, i := range slices.Backward(order) {
		for _, to := range out[f.Nodes[i].ID] {
			if place[to] > place[i] {
				columns[to] = max(columns[to], columns[i]+1)
			}
		}
	}
	return columns
}

// box is the box of the selected node, or -1.
func (v *flowView) box() int {
	return slices.IndexFunc(v.boxes.Layout.Boxes, func(b graph.Box) bool { return v.flow().Nodes[b.Nodes[0]].ID == v.node })
}

// selected is the selected node, nil when there is none.
func (v *flowView) selected() *flow.Node {
	for _, n := range v.flow().Nodes {
		if n.ID == v.node {
			return n
		}
	}
	return nil
}

// shown is the index of the run that is shown, -1: there is none.
func (v *flowView) shown() int {
	i := slices.IndexFunc(v.row.runs, func(r core.FlowRun) bool { return r.ID == v.run })
	if i < 0 && v.run == "" && len(v.row.runs) > 0 {
		return 0
	}
	return i
}

// show shows a run, at the node that it ended at.
func (v *flowView) show(run core.FlowRun) {
	v.run, v.trial = run.ID, nil
	v.node = cmp.Or(run.Node, v.node)
	for _, n := range run.Nodes {
		if n.Change != nil && run.Node == "" {
			v.node = n.Node
			return
		}
	}
}

// did is what a node did in the run that is shown; ok is false where it has none.
func (v *flowView) did(node string) (run core.FlowNodeRun, ok bool) {
	var nodes []core.FlowNodeRun
	if i := v.shown(); v.trial != nil {
		nodes = v.trial.tried.Run.Nodes
		nodes = nodes[:min(v.trial.step+1, len(nodes))]
	} else if i >= 0 {
		nodes = v.row.runs[i].Nodes
	}
	for _, n := range nodes { // an end that both halves visit is what the last says
		if n.Node == node {
			run, ok = n, true
		}
	}
	return run, ok
}

func (v *flowView) do(act keys.Action, e *Env) ([]Intent, bool) {
	if v.trial != nil && v.doTrial(act) {
		return nil, true
	}
	if act == keys.TryFlow {
		return v.tryMenu(e), true
	}
	if intents, done := v.doEdit(act); done {
		return intents, true
	}
	switch act {
	case keys.HalfUp, keys.HalfDown, keys.PageUp, keys.PageDown:
		v.detail.Top, _ = v.detail.Move(act, v.detail.Top, max(v.lines-v.detail.Height+1, 1))
		return nil, true
	case keys.PreviousTab, keys.NextTab:
		return v.turn(act == keys.NextTab), true
	case keys.NextMatch, keys.PreviousMatch:
		return v.nextFault(act == keys.NextMatch), true
	case keys.FlowLink:
		if i := v.shown(); i >= 0 {
			r := v.row.runs[i]
			return []Intent{showCall{r.RunID, r.CallID}}, true
		}
		return []Intent{say{Note, "no call has met this flow yet"}}, true
	default:
	}
	if to, ok := v.boxes.Move(act, v.box()); ok {
		if to >= 0 {
			v.pick(to)
		}
		return nil, true
	}
	return v.row.do(act)
}

// pick selects the node of a box.
func (v *flowView) pick(box int) {
	if id := v.flow().Nodes[v.boxes.Layout.Boxes[box].Nodes[0]].ID; id != v.node {
		v.node, v.detail = id, widget.Scroll{}
	}
}

// turn shows the run before or after the one that is shown.
func (v *flowView) turn(earlier bool) []Intent {
	i := v.shown() - 1
	if earlier {
		i += 2
	}
	if len(v.row.runs) == 0 {
		return []Intent{say{Note, "no call has met this flow yet"}}
	}
	v.run = v.row.runs[max(min(i, len(v.row.runs)-1), 0)].ID
	return nil
}

// nextFault selects the next node, or the one before, that has a fault.
func (v *flowView) nextFault(next bool) []Intent {
	f := v.flow()
	n, by := len(f.Nodes), 1
	if !next {
		by = -1
	}
	at := slices.IndexFunc(f.Nodes, func(n *flow.Node) bool { return n.ID == v.node })
	for k := 1; k <= n; k++ {
		id := f.Nodes[((at+k*by)%n+n)%n].ID
		if slices.ContainsFunc(f.Faults, func(fault core.Fault) bool { return f.NodeOf(fault) == id }) {
			v.node = id
			return nil
		}
	}
	return []Intent{say{Note, "no node has a fault"}}
}

func (v *flowView) click(x, y int) []Intent {
	if y == v.bar {
		for _, b := range v.buttons {
			if x >= b.x && x < b.x+b.w {
				intents, _ := v.doEdit(b.act)
				return intents
			}
		}
	}
	if i := v.boxes.Hit(x, y); i >= 0 {
		v.pick(i)
		if v.picking.act != "" {
			return v.picked()
		}
	}
	return nil
}

func (v *flowView) hints() []keys.Action {
	return append([]keys.Action{keys.TryFlow, keys.SwitchFlow, keys.TrustFlows, keys.Back, keys.NextTab, keys.PreviousTab, keys.FlowLink, keys.NextMatch, keys.PageDown, keys.EditFlow}, editActions...)
}

func (v *flowView) draw(a paint.Area, e *Env, focus bool) {
	now := v.row
	now.flow = v.flow()
	word, glyph, style := now.look(e.Theme)
	name := now.name()
	if v.edit.Changed() {
		name += " (not saved)"
	}
	title := paint.Title{Left: "9 Flows  " + name, Right: core.Visible(string(v.flow().Mode), 20, false) + "  " + glyph + " " + word, Focus: focus, Style: paint.Style{Role: style.Role}}
	if s := v.row.stats; s.runs > 0 {
		title.Foot = fmt.Sprintf("%s, %d blocked  p50 %s p95 %s max %s", plural(s.runs, "run"), s.blocked+s.failed, microText(s.p50), microText(s.p95), microText(s.max))
	}
	in := a.Frame(title)
	if v.width != in.W {
		v.width = in.W
		v.lay()
	}
	in.Text(2, 0, in.W-4, paint.Style{Role: paint.Muted}, v.headText(e))
	top := min(v.boxes.Layout.H, max(in.H*3/5, graph.BoxH))
	v.boxes.Draw(in.Sub(0, 0, in.W, top+1), 1, v.box(), focus, nil, func(b *graph.Box) widget.Box { return v.boxOf(v.flow().Nodes[b.Nodes[0]], e) })
	rest := in.Sub(0, top+1, in.W, in.H-top-1)
	v.drawBar(rest, e)
	v.bar = top + 1
	v.drawDetail(rest.Sub(0, 1, rest.W, rest.H-1), e)
}

// headText says which run the states are of.
func (v *flowView) headText(e *Env) string {
	i := v.shown()
	if v.trial != nil {
		return v.trial.headText()
	}
	if i < 0 {
		return matchText(v.flow()) + "   no call has met it yet"
	}
	return fmt.Sprintf("run %d of %d: %s", i+1, len(v.row.runs), runText(v.row.runs[i], e))
}

// boxOf is what stands in the box of a node.
func (v *flowView) boxOf(n *flow.Node, e *Env) widget.Box {
	b := widget.Box{Name: nodeName(n), Glyph: e.Theme.Glyph.Dot, Foot: core.Visible(n.Type, 40, false), Style: paint.Style{Role: paint.Muted}, Faint: !n.Blocking()}
	b.Border = paint.Style{Role: paint.Border}
	if run, ok := v.did(n.ID); ok {
		b.Glyph, b.Style = flowLook(run.State, e.Theme)
		b.Foot = string(run.State)
		if run.Change != nil {
			b.Foot, b.Style = "changed", paint.Style{Role: paint.Warn}
		}
		if n.ID == v.slowest {
			b.Foot += " slowest"
		} else if took := microText(run.DurationUS); took != "" {
			b.Foot += " " + took
		}
		if run.State != core.FlowOK && run.State != core.FlowSkipped {
			b.Border = b.Style
		}
	}
	f := v.flow()
	if slices.ContainsFunc(f.Faults, func(fault core.Fault) bool { return f.NodeOf(fault) == n.ID }) {
		b.Glyph, b.Foot, b.Style = e.Theme.Glyph.Failed, "fault", paint.Style{Role: paint.Danger}
		b.Border = b.Style
	}
	return b
}

// nodeName is what a node is called on a screen.
func nodeName(n *flow.Node) string {
	if label := strings.TrimSpace(n.Data.Label); label != "" {
		return visibleName(label)
	}
	return visibleName(cmp.Or(n.ID, n.Type))
}

// drawDetail draws what is known of the selected node.
func (v *flowView) drawDetail(in paint.Area, e *Env) {
	lines := v.detailLines(in.W, e)
	v.lines = len(lines)
	v.detail.Height = max(in.H, 0)
	v.detail.Top = max(min(v.detail.Top, v.lines-in.H), 0)
	for y := 0; y < in.H && v.detail.Top+y < len(lines); y++ {
		putSpans(in, 0, y, in.W, lines[v.detail.Top+y])
	}
	if more := v.lines - v.detail.Top - in.H; more > 0 && in.H > 0 {
		in.Right(0, in.H-1, in.W, paint.Style{Role: paint.Accent}, " "+itoa(more)+" more "+e.Theme.Glyph.ArrowDown)
	}
}
