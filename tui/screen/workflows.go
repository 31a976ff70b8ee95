package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// workflowsPanel shows runs. Its cursor is Selection.Run: rows that come and go
// do not move it.
type workflowsPanel struct {
	list    state.RunList
	filter  state.Filter
	sort    state.SortKey
	reverse bool
	marked  map[core.ID]bool
	anchor  core.ID // where a marked range begins
	scroll  widget.Scroll
	at      int       // the row of the cursor, as far as it was known last
	seen    []core.ID // in view, as drawn last
	newest  time.Time // of the runs that the first row was in view with
	folders bool      // these are of several folders
	next    nextApprovals
	first   firstPage
}

func newWorkflows() *workflowsPanel {
	return &workflowsPanel{sort: state.SortAge, marked: map[core.ID]bool{}}
}

// ids are the runs of the list.
func (p *workflowsPanel) ids(e *Env) []core.ID {
	return p.list.IDs(e.State, state.RunQuery{Filter: p.filter, Sort: p.sort, Reverse: p.reverse, Now: e.Now})
}

// inView are the runs that were drawn last.
func (p *workflowsPanel) inView() []core.ID { return p.seen }

// row returns the row of the cursor, -1 when it is not in the list.
func (p *workflowsPanel) row(ids []core.ID, e *Env) int {
	if p.at >= len(ids) || p.at < 0 || ids[p.at] != e.Sel.Run {
		if i := slices.Index(ids, e.Sel.Run); i >= 0 {
			p.at = i
		} else {
			p.at = min(p.at, max(len(ids)-1, 0))
			return -1
		}
	}
	return p.at
}

// settle selects the first run when there is none selected, or the one selected
// is gone from the state. One that a filter hides stays until a key is pressed.
func (p *workflowsPanel) settle(e *Env) {
	if _, known := e.State.Run(e.Sel.Run); known {
		return
	}
	ids := p.ids(e)
	if len(ids) == 0 {
		return
	}
	p.selectRow(min(max(p.at, 0), len(ids)-1), ids, e)
}

// show moves the cursor to a row that is there when a filter hides its own, and
// reports whether it did.
func (p *workflowsPanel) show(e *Env) bool {
	ids := p.ids(e)
	if len(ids) == 0 || p.row(ids, e) >= 0 {
		return false
	}
	p.selectRow(p.at, ids, e)
	return true
}

func (p *workflowsPanel) selectRow(row int, ids []core.ID, e *Env) {
	if p.at = row; e.Sel.Run != ids[row] {
		e.Sel.Run, e.Sel.Task = ids[row], ""
	}
}

func (p *workflowsPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	if first(e) {
		if intents, ok := p.first.do(act, e); ok {
			return intents, true
		}
	}
	ids := p.ids(e)
	row := p.row(ids, e)
	if to, ok := p.scroll.Move(act, max(row, 0), len(ids)); ok {
		if row < 0 {
			to = p.at // the first key only shows where the cursor is
		}
		if len(ids) > 0 {
			p.selectRow(to, ids, e)
		}
		return nil, true
	}
	switch act {
	case keys.Filter:
		return []Intent{openOverlay{p.filterPrompt(e)}}, true
	case keys.Sort:
		i := slices.Index(state.SortKeys, p.sort)
		p.sort, p.reverse = state.SortKeys[(i+1)%len(state.SortKeys)], false
		return nil, true
	case keys.SortReverse:
		p.reverse = !p.reverse
		return nil, true
	case keys.Back:
		return nil, p.clear()
	default:
		if row < 0 {
			// What the filter hides is not acted on: the key only shows the cursor.
			return nil, p.show(e)
		}
		return p.doRun(act, ids, row, e)
	}
}

// clear takes marks away, then the filter.
func (p *workflowsPanel) clear() bool {
	switch {
	case len(p.marked) > 0:
		p.unmark()
	case !p.filter.Empty():
		p.filter = state.Filter{}
	default:
		return false
	}
	return true
}

// doRun carries out what needs a selected run.
func (p *workflowsPanel) doRun(act keys.Action, ids []core.ID, row int, e *Env) ([]Intent, bool) {
	run, ok := e.State.Run(ids[row])
	if !ok {
		return nil, false
	}
	switch act {
	case keys.Open:
		return []Intent{openPanel{PanelDAG}}, true
	case keys.Mark:
		if p.anchor = run.ID; p.marked[run.ID] {
			delete(p.marked, run.ID)
		} else {
			p.marked[run.ID] = true
		}
	case keys.MarkRange:
		p.markRange(ids, row)
	case keys.Abort:
		return p.abort(e), true
	case keys.Again:
		return p.again(e), true
	case keys.Replan:
		return replan(run), true
	case keys.RunResult:
		return runResult(run, e), true
	case keys.Approve, keys.ApproveRemember, keys.Deny, keys.Message, keys.Trail:
		return p.openNext(act, run, e), true
	default:
		intents := p.copyOut(act, run, e)
		return intents, intents != nil
	}
	return nil, true
}

// openNext opens what a run waits for: a list of runs decides nothing.
func (p *workflowsPanel) openNext(act keys.Action, run core.Run, e *Env) []Intent {
	p.next.update(e)
	a, ok := p.next.of(run.ID, e)
	switch {
	case !ok:
		return []Intent{say{Note, "this run waits for no decision"}}
	case act == keys.Trail:
		return []Intent{openOverlay{newTrail(a.ID)}, LoadAudit{}}
	case act == keys.Approve:
		return []Intent{openOverlay{newApproveCard(a.ID, e)}}
	}
	return []Intent{openOverlay{cardOf(a.ID, e)}}
}

// markRange marks all rows from the one that was marked last to the cursor.
func (p *workflowsPanel) markRange(ids []core.ID, row int) {
	from := slices.Index(ids, p.anchor)
	if from < 0 {
		from = row
	}
	for _, id := range ids[min(from, row) : max(from, row)+1] {
		p.marked[id] = true
	}
	p.anchor = ids[row]
}

// chosen are the marked runs in the order of the list, or the selected one.
func (p *workflowsPanel) chosen(e *Env) []core.Run {
	var out []core.Run
	if len(p.marked) == 0 {
		if r, ok := e.State.Run(e.Sel.Run); ok {
			out = append(out, r)
		}
		return out
	}
	for _, id := range p.ids(e) {
		if r, ok := e.State.Run(id); ok && p.marked[id] {
			out = append(out, r)
		}
	}
	return out
}

// abort asks for a reason and then for a yes: it is never one key.
func (p *workflowsPanel) abort(e *Env) []Intent {
	runs := slices.DeleteFunc(p.chosen(e), func(r core.Run) bool { return r.State.Final() })
	if len(runs) == 0 {
		return []Intent{say{Note, "it has ended already, there is nothing to abort"}}
	}
	return []Intent{openOverlay{abortPrompt(runs, p.unmark)}}
}

// unmark takes all marks away.
func (p *workflowsPanel) unmark() { p.marked, p.anchor = map[core.ID]bool{}, "" }

// again is again for the marked runs, or the selected one; what was done takes the marks away.
func (p *workflowsPanel) again(e *Env) []Intent {
	out := again(p.chosen(e), e)
	if _, none := out[0].(say); !none {
		p.unmark()
	}
	return out
}

// abortPrompt asks why runs should be aborted, and then whether; done is called with the yes.
func abortPrompt(runs []core.Run, done func()) *prompt {
	what := runNames(runs)
	ask := newPrompt("reason (may stay empty):", "")
	ask.title, ask.about = "Abort "+plural(len(runs), "run")+"?", what
	ask.hint = "enter: goes on, and asks once more   esc: keeps it running"
	ask.done = func(reason string, _ *Env) []Intent {
		return []Intent{openOverlay{&confirm{
			title: "Abort " + plural(len(runs), "run") + "?",
			text:  "Abort " + what + "? What has run stays as it is; what waits is not run any more.",
			yes: func(*Env) []Intent {
				done()
				var out []Intent
				for _, r := range runs {
					out = append(out, Abort{Run: r.ID, Reason: reason})
				}
				return out
			},
		}}}
	}
	return ask
}

// runNames names up to three runs.
func runNames(runs []core.Run) string {
	var names []string
	for i, r := range runs {
		if i == 3 {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(runs)-i)
		}
		names = append(names, withID(state.Name(r), r.ID))
	}
	return strings.Join(names, ", ")
}

// again continues what was interrupted, retries what failed, and asks again
// where all that a run waits for has expired.
func again(runs []core.Run, e *Env) []Intent {
	var out []Intent
	why := "nothing here has failed, expired or been interrupted"
	for _, r := range runs {
		switch r.State {
		case core.RunInterrupted:
			if stopped(r, e) {
				why = "calls are halted: " + keyOf(e, keys.Halt) + " lets them go on first"
				continue
			}
			out = append(out, Continue{r.ID})
		case core.RunFailed:
			if r.FaultOfProgram() {
				why = state.Name(r) + " failed in its own code, and no call of it failed that could be made again: mend the script and run it anew"
				continue
			}
			out = append(out, Retry{r.ID})
		case core.RunWaiting:
			expired := expiredOf(r, e)
			for _, a := range expired {
				out = append(out, Renew{ID: a.ID})
			}
			if leftAlone(r, e) && len(expired) == 0 {
				out = append(out, Continue{r.ID})
			}
		case core.RunRunning:
			if lost := linkLost(r.Side, e); lost != "" {
				why = lost + "; pml status in a shell starts it again, or says why not"
			}
		case core.RunComplete, core.RunAborted, core.RunExpired:
		}
	}
	if out == nil {
		return []Intent{say{Note, why}}
	}
	return out
}

// aloneFor is how long a run waits for nothing before its row says that somebody has to go on with
// it: for a moment each run does after a decision.
const aloneFor = 5 * time.Second

// leftAlone reports whether a run waits and asks nothing, as after a replan where the process that
// asked is gone: somebody has to go on with it, and it asks anew.
func leftAlone(r core.Run, e *Env) bool {
	_, open := e.State.WaitingOf(r.ID, e.Now)
	return !open && !stopped(r, e)
}

// expiredOf are the approvals that a run waits for in vain: nothing else of it
// waits, and nobody can decide them any more.
func expiredOf(r core.Run, e *Env) []core.Approval {
	if r.State != core.RunWaiting {
		return nil
	}
	if _, open := e.State.WaitingOf(r.ID, e.Now); open {
		return nil
	}
	return e.State.ExpiredOf(r.ID, e.Now)
}

func replan(r core.Run) []Intent {
	switch {
	case r.Kind != core.KindDAG:
		return []Intent{say{Note, "only a DAG can be replanned"}}
	case r.State.Final():
		return []Intent{say{Note, "it has ended already, there is nothing to replan"}}
	}
	return []Intent{Replan{r.ID}}
}

// copyOut copies what is selected or marked, nil for another action.
func (p *workflowsPanel) copyOut(act keys.Action, r core.Run, e *Env) []Intent {
	runs := p.chosen(e)
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = string(r.ID)
	}
	switch act {
	case keys.CopyID:
		return []Intent{Copy{What: plural(len(ids), "id"), Text: strings.Join(ids, "\n")}}
	case keys.CopyAll:
		return []Intent{Copy{What: "the JSON of " + state.Name(r), Text: runJSON(r, e)}}
	case keys.CopyCommand:
		return []Intent{Copy{What: "a command", Text: "pml workflows show " + string(r.ID)}}
	case keys.Edit:
		return []Intent{View{Name: r.ID.Short() + ".json", Text: runJSON(r, e)}}
	case keys.Save:
		return []Intent{Save{Name: "workflow-" + r.ID.Short() + ".json", Text: runJSON(r, e)}}
	default:
		return nil
	}
}

// runJSON is all that is known of a run.
func runJSON(r core.Run, e *Env) string {
	if w, ok := e.State.Workflow(r.ID); ok {
		return indented(w)
	}
	return indented(r)
}

func (p *workflowsPanel) filterPrompt(e *Env) overlay {
	before := p.filter
	st := e.State
	ask := newPrompt("/ filter:", before.String())
	tell := func() {
		ask.hint = fmt.Sprintf("%d of %d   words of its columns and tools, or status:waiting  name~x  tool:fs:*  age<1h  !word", len(p.ids(e)), st.CountRuns())
	}
	tell()
	ask.changed = func(text string) error {
		f, err := state.ParseFilter(text, state.RunKeys...)
		if err != nil {
			return err
		}
		p.filter = f
		tell()
		return nil
	}
	ask.done = func(_ string, e *Env) []Intent {
		p.show(e)
		return nil
	}
	ask.cancelled = func() { p.filter = before }
	return ask
}

func (p *workflowsPanel) click(x, y int, e *Env) []Intent {
	ids := p.ids(e)
	if row := y - 2; row >= 0 && row < len(p.seen) && p.scroll.Top+row < len(ids) {
		p.selectRow(p.scroll.Top+row, ids, e)
	}
	return nil
}

func (p *workflowsPanel) hints(e *Env) []keys.Action {
	if first(e) {
		return []keys.Action{keys.Open, keys.CopyCommand, keys.Palette}
	}
	acts := append([]keys.Action{keys.Open, keys.Filter, keys.Sort}, p.helping(e)...)
	return append(acts, keys.Mark, keys.CopyID, keys.CopyCommand, keys.Palette)
}

// helping are those keys that do something with the marked runs, or the selected one.
func (p *workflowsPanel) helping(e *Env) (acts []keys.Action) {
	ids := p.ids(e)
	row := p.row(ids, e)
	if row < 0 {
		return nil
	}
	runs := p.chosen(e)
	if slices.ContainsFunc(runs, func(r core.Run) bool { return !r.State.Final() }) {
		acts = append(acts, keys.Abort)
	}
	if _, none := again(runs, e)[0].(say); !none && !slices.ContainsFunc(runs, func(r core.Run) bool { return r.Imported != nil }) {
		acts = append(acts, keys.Again)
	}
	if r, ok := e.State.Run(ids[row]); ok && r.Kind == core.KindDAG && !r.State.Final() {
		acts = append(acts, keys.Replan)
	}
	return acts
}
