package screen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/paint"
)

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
