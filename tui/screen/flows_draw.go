package screen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// look is the word, the glyph and the style of how a flow stands.
func (r *flowRow) look(t *paint.Theme) (word, glyph string, style paint.Style) {
	g := &t.Glyph
	switch {
	case len(r.flow.Faults) > 0:
		return plural(len(r.flow.Faults), "fault"), g.Failed, paint.Style{Role: paint.Danger}
	case !r.flow.Enabled:
		return "disabled", g.Queued, paint.Style{Role: paint.Muted}
	case !r.trusted:
		return "not trusted", g.Waiting, paint.Style{Role: paint.Warn}
	}
	return "enabled", g.Done, paint.Style{Role: paint.OK}
}

func (r *flowRow) draw(in paint.Area, y int, cols []widget.Column, e *Env) {
	word, glyph, style := r.look(e.Theme)
	muted := paint.Style{Role: paint.Muted}
	in.Put(cols[flState].X, y, style, glyph)
	in.Text(cols[flState].X+2, y, cols[flState].Width-2, style, word)
	cols[flName].Text(in, y, paint.Style{}, r.name())
	cols[flMode].Text(in, y, muted, core.Visible(string(r.flow.Mode), 20, false))
	cols[flMatch].Text(in, y, muted, matchText(r.flow))
	if r.stats.runs == 0 {
		return
	}
	cols[flRuns].Text(in, y, paint.Style{}, itoa(r.stats.runs))
	if n := r.stats.blocked + r.stats.failed; n > 0 {
		cols[flBlocked].Text(in, y, paint.Style{Role: paint.Danger}, itoa(n))
	}
	cols[flTook].Text(in, y, muted, microText(r.stats.p95))
}

func (r *flowRow) name() string {
	for _, name := range []string{r.flow.Name, r.flow.ID} {
		if strings.TrimSpace(name) != "" {
			return visibleName(name)
		}
	}
	return visibleName(r.file.Name)
}

// where says which file a flow is in.
func (r *flowRow) where() string {
	if r.file.Home {
		return "flows/" + visibleName(r.file.Name) + " of the home: it holds for all workspaces"
	}
	return visibleName(r.file.Name) + " of the workspace"
}

// matchText says which calls meet a flow.
func matchText(f *flow.Flow) string {
	var parts []string
	add := func(what string, names []string) {
		if len(names) > 0 {
			parts = append(parts, what+core.Visible(strings.Join(names, " "), 100, false))
		}
	}
	add("", f.Match.Tool)
	add("server ", f.Match.Server)
	add("client ", f.Match.Client)
	if f.Match.Where != "" {
		parts = append(parts, "where "+core.Visible(f.Match.Where, 120, false))
	}
	what := "calls"
	if f.Type == flow.ListTools {
		what = "lists"
	}
	if len(parts) == 0 {
		return "all " + what
	}
	return what + ": " + strings.Join(parts, ", ")
}

// trustText says what a flow does until somebody trusts it as it is now, and which key does.
func trustText(f *flow.Flow, e *Env) string {
	text := keyOf(e, keys.TrustFlows) + " comes next; "
	if f.Enabled {
		return text + "until then it refuses what it matches"
	}
	return text + "what it checked while trusted is refused until then" // on one line of 80 columns
}

// matchHint says how a flow that meets all calls is limited to some, and what match takes.
func matchHint(f *flow.Flow, e *Env) string {
	if m := &f.Match; len(m.Tool)+len(m.Server)+len(m.Client) > 0 || m.Where != "" {
		return ""
	}
	return ". To limit it press " + keyOf(e, keys.Edit) + ` and write "match": {"server": "files", "tool": "write_*"}; client and where go there, too`
}

// drawDetail says more of the flow with the cursor.
func (r *flowRow) drawDetail(in paint.Area, e *Env) {
	in.Rule(0, r.name())
	y := 1
	fact := func(label, text string, style paint.Style) {
		if text != "" && y < in.H {
			labelled(label, text, style)(in.Sub(0, y, in.W, 1))
			y++
		}
	}
	fact("file", r.where(), paint.Style{})
	if !r.trusted {
		fact("trust", trustText(r.flow, e), paint.Style{Role: paint.Warn})
	}
	fact("about", core.Visible(r.flow.Description, 200, false), paint.Style{})
	fact("match", matchText(r.flow), paint.Style{})
	if s := r.stats; s.runs > 0 {
		fact("runs", fmt.Sprintf("%d: %d blocked, %d failed, %d changed", s.runs, s.blocked, s.failed, s.changed), paint.Style{})
		fact("took", fmt.Sprintf("p50 %s, p95 %s, max %s", microText(s.p50), microText(s.p95), microText(s.max)), paint.Style{})
		fact("last", runText(r.runs[0], e), paint.Style{})
	}
	for _, f := range r.flow.Faults {
		fact("fault", core.Visible(f.String(), 300, false), paint.Style{Role: paint.Danger})
	}
}

// runText is a flow run on one line.
func runText(run core.FlowRun, e *Env) string {
	text := fmt.Sprintf("%s %s %s", clockText(run.StartedAt, e), run.State, visibleName(run.Tool))
	if run.Audit {
		text += " (audit)"
	}
	if run.Reason != "" {
		text += ": " + core.Visible(run.Reason, 200, false)
	}
	return text
}

// microText is how long something took, from microseconds.
func microText(us int64) string {
	switch {
	case us <= 0:
		return ""
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 100_000:
		return fmt.Sprintf("%.1f ms", float64(us)/1000)
	}
	return durationText(float64(us) / 1000)
}

// flowLook is the glyph of the state of a node, and the style of glyph and word.
func flowLook(s core.FlowState, t *paint.Theme) (glyph string, style paint.Style) {
	g := &t.Glyph
	switch s {
	case core.FlowPending:
		return g.Queued, paint.Style{Role: paint.Muted}
	case core.FlowRunning:
		return g.Running, paint.Style{Role: paint.Info}
	case core.FlowOK:
		return g.Done, paint.Style{Role: paint.OK}
	case core.FlowBlocked, core.FlowFailed, core.FlowTimeout, core.FlowDenied:
		return g.Failed, paint.Style{Role: paint.Danger}
	case core.FlowSkipped, core.FlowCancelled:
		return g.Skipped, paint.Style{Role: paint.Muted}
	}
	return g.Dot, paint.Style{Role: paint.Muted}
}

// detailLines say what the selected node is, and what it did in the run that is shown.
func (v *flowView) detailLines(w int, e *Env) (out [][]span) {
	add := func(label, text string, style paint.Style) {
		for i, l := range paint.Wrap(text, max(w-10, 10)) {
			if i > 0 {
				label = ""
			}
			out = append(out, []span{{fmt.Sprintf("%-10s", label), paint.Style{Role: paint.Muted}}, {l, style}})
		}
	}
	f := v.flow()
	if n := v.selected(); n != nil {
		add("node", nodeLine(n), paint.Style{}.Bold())
		for _, fault := range f.Faults {
			if f.NodeOf(fault) == n.ID {
				add("fault", core.Visible(fault.Message, 500, false), paint.Style{Role: paint.Danger})
			}
		}
		if n.Type == flow.TypeStart {
			add("match", matchText(f)+matchHint(f, e), paint.Style{})
		}
		v.addRun(n, add, e)
		v.addStats(n, add)
		for i, l := range strings.Split(nodeText(n), "\n") {
			if l != "" {
				add([]string{"does", ""}[min(i, 1)], l, paint.Style{Role: paint.Muted})
			}
		}
	}
	for _, fault := range f.Faults {
		if id := f.NodeOf(fault); id == "" || id != v.node {
			add("fault", core.Visible(fault.Message, 500, false), paint.Style{Role: paint.Danger})
		}
	}
	if v.trial != nil {
		v.trial.addEnd(add)
	}
	if !v.flow().Enabled {
		add("disabled", "it looks at no call: t tests it, x enables it", paint.Style{Role: paint.Warn})
	}
	if !v.row.trusted {
		add("trust", trustText(v.flow(), e), paint.Style{Role: paint.Warn})
	}
	return out
}

// addRun says what a node did in the run that is shown, and why.
func (v *flowView) addRun(n *flow.Node, add func(label, text string, style paint.Style), e *Env) {
	run, ok := v.did(n.ID)
	if !ok {
		return
	}
	glyph, style := flowLook(run.State, e.Theme)
	text := glyph + " " + string(run.State) + " " + microText(run.DurationUS)
	if run.Reason != "" {
		text += "  " + core.Visible(run.Reason, 1000, false)
	}
	add("run", text, style)
	if c := run.Change; c != nil {
		word := "changed"
		if v.flow().Mode == flow.Audit {
			word = "would"
		}
		for line := range strings.SplitSeq(strings.TrimRight(c.Diff, "\n"), "\n") {
			style := paint.Style{}
			switch {
			case strings.HasPrefix(line, "-"):
				style.Role = paint.Danger
			case strings.HasPrefix(line, "+"):
				style.Role = paint.OK
			}
			add(word, core.Visible(line, 500, false), style)
			word = ""
		}
	}
	for i, line := range run.Console {
		add([]string{"console", ""}[min(i, 1)], core.Visible(line, 500, false), paint.Style{})
	}
}

// addStats says how long a node took in all its runs.
func (v *flowView) addStats(n *flow.Node, add func(label, text string, style paint.Style)) {
	s := v.stats[n.ID]
	if s.runs == 0 || s.max == 0 {
		return
	}
	text := fmt.Sprintf("%s: p50 %s, p95 %s, max %s", plural(s.runs, "run"), microText(s.p50), microText(s.p95), microText(s.max))
	if n.ID == v.slowest {
		text += ", the slowest node"
	}
	if s.blocked+s.failed+s.changed > 0 {
		text += fmt.Sprintf("; %d blocked, %d failed, %d changed", s.blocked, s.failed, s.changed)
	}
	add("took", text, paint.Style{})
}

// nodeLine is what a node is, on one line.
func nodeLine(n *flow.Node) string {
	text := core.Visible(n.Type, 60, false) + " " + visibleName(n.ID)
	if label := visibleName(n.Data.Label); label != "" && label != visibleName(n.ID) {
		text += "  " + label
	}
	if !n.Blocking() {
		text += "  (nobody waits for it)"
	}
	return text
}

// nodeText is what a node does: its script, its expression or its settings.
func nodeText(n *flow.Node) string {
	d := &n.Data
	text := ""
	switch {
	case n.Type == flow.TypeHook || strings.HasPrefix(n.Type, flow.TypeTemplate):
		text = n.Script
	case d.Condition != nil:
		text = d.Condition.Where + d.Condition.Expression
	case d.Set != nil:
		text = d.Set.Name + " = " + string(d.Set.Value) + d.Set.Expression
	case d.Approval != nil:
		text = d.Approval.Message
	case d.Command != nil:
		text = strings.Join(slices.Concat([]string{d.Command.Command}, d.Command.Args), " ")
	case d.HTTP != nil:
		text = d.HTTP.URL
	}
	return core.Visible(strings.ReplaceAll(text, "\t", "  "), 4000, true)
}
