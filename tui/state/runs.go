package state

import (
	"path"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

const (
	// maxTools is how many tools of a run are remembered for filters.
	maxTools = 32
	// manyRuns is from how many new runs on all are put in order anew.
	manyRuns = 64
)

// runRow is a run with what lists and filters need of it again and again.
type runRow struct {
	run   *core.Run
	name  string   // as shown
	lower string   // the name in lower case
	tools []string // that it has called, as far as known
	from  string   // who began it and where, as shown; made when it is
	hay   string   // all that a word is looked for in, in lower case; made when it is
}

// From is where a run comes from: who began it, and the folder. It is one line and safe
// to show, and kept: neither ever changes.
func (s *State) From(id core.ID) string {
	row := s.runs.byID[id]
	if row == nil {
		return ""
	}
	if row.from == "" {
		row.from = core.Visible(row.run.RequestedBy.Label(), 60, false)
		if dir := Folder(row.run.Workspace); dir != "" {
			row.from += "  " + dir
		}
	}
	return row.from
}

// Folder is the last name of a workspace's folder, on one line and safe to show; empty for
// none.
func Folder(workspace string) string {
	if workspace == "" {
		return ""
	}
	return core.Visible(path.Base(strings.ReplaceAll(workspace, `\`, "/")), 60, false)
}

// words is all that a word of a filter is looked for in.
func (r *runRow) words() string {
	if r.hay == "" {
		parts := []string{r.name, string(r.run.ID), string(r.run.Side), r.run.Workspace, r.run.RequestedBy.Label(), r.run.RequestedBy.Name()}
		if r.run.Error != nil {
			parts = append(parts, r.run.Error.Message)
		}
		r.hay = strings.ToLower(strings.Join(parts, "\n"))
	}
	return r.hay
}

// prepare computes what follows from the header.
func (r *runRow) prepare() {
	r.name = Name(*r.run)
	r.lower = strings.ToLower(r.name)
}

// runTable is the runs by id and in two orders.
type runTable struct {
	byID   map[core.ID]*runRow
	newest rowOrder
	names  rowOrder
	ids    []core.ID // newest first, when idsOf is the version of the order
	idsOf  int64
	counts map[core.RunState]int
	// below counts the runs that each agent is known to have started. They are in no
	// order and not counted: lists have their agent.
	below map[core.ID]int
	// version grows with every change of a header.
	version int64
}

func newRunTable() runTable {
	return runTable{
		byID: map[core.ID]*runRow{}, counts: map[core.RunState]int{}, below: map[core.ID]int{},
		newest: rowOrder{compare: newestFirst}, names: rowOrder{compare: byName}, idsOf: -1,
	}
}

// newestFirst is the order of lists, as the backend gives them.
func newestFirst(a, b *runRow) int {
	if c := b.run.CreatedAt.Compare(a.run.CreatedAt); c != 0 {
		return c
	}
	return strings.Compare(string(b.run.ID), string(a.run.ID))
}

// byName is the order of names; runs of one name stand newest first.
func byName(a, b *runRow) int {
	if c := strings.Compare(a.lower, b.lower); c != 0 {
		return c
	}
	return newestFirst(a, b)
}

// PutRuns takes headers of runs as they are now; what is known of others stays.
func (s *State) PutRuns(runs ...core.Run) {
	many := len(runs) >= manyRuns
	changed := false
	for i := range runs {
		changed = s.runs.put(&runs[i], many) || changed
		if d := s.details[runs[i].ID]; d != nil {
			d.workflow.Run = runs[i]
		}
	}
	if changed {
		s.runs.version++
		s.version++
	}
}

// put takes a header and reports whether it is news.
func (t *runTable) put(r *core.Run, many bool) bool {
	row := t.byID[r.ID]
	if row == nil {
		c := *r
		row = &runRow{run: &c}
		row.prepare()
		t.byID[r.ID] = row
		if r.Below() {
			t.below[r.ParentID]++
			return true
		}
		t.counts[r.State]++
		t.newest.insert(row, many)
		t.names.insert(row, many)
		return true
	}
	old := row.run
	if sameHeader(old, r) {
		return false
	}
	moved := !old.CreatedAt.Equal(r.CreatedAt)
	renamed := old.Intent != r.Intent || old.Name != r.Name || old.Kind != r.Kind
	if moved || renamed {
		t.newest.disturb()
		t.names.disturb()
	}
	if !r.Below() {
		t.counts[old.State]--
		t.counts[r.State]++
	}
	*old = *r
	row.hay = ""
	if renamed {
		row.prepare()
	}
	return true
}

func (t *runTable) drop(id core.ID) bool {
	row := t.byID[id]
	if row == nil {
		return false
	}
	if row.run.Below() {
		t.below[row.run.ParentID]--
	} else {
		t.newest.remove(row)
		t.names.remove(row)
		t.counts[row.run.State]--
	}
	delete(t.byID, id)
	t.version++
	return true
}

// sameHeader reports whether two headers of a run tell the same. A commit of a
// runner changes one of the numbers; what other processes do changes the rest.
func sameHeader(a, b *core.Run) bool {
	return a.State == b.State && a.JournalSeq == b.JournalSeq && a.Epoch == b.Epoch && a.CurrentLayer == b.CurrentLayer &&
		a.TotalLayers == b.TotalLayers && a.DAGVersion == b.DAGVersion && a.Runner == b.Runner && a.Intent == b.Intent && a.Name == b.Name &&
		a.Side == b.Side && a.Kind == b.Kind && a.Workspace == b.Workspace && a.ActiveMS == b.ActiveMS &&
		a.UpdatedAt.Equal(b.UpdatedAt) && a.CreatedAt.Equal(b.CreatedAt) && (a.Abort == nil) == (b.Abort == nil) &&
		(a.Error == nil) == (b.Error == nil) && (a.Error == nil || a.Error.Message == b.Error.Message) &&
		sameTime(a.ExpiresAt, b.ExpiresAt) && sameTime(a.EndedAt, b.EndedAt) && string(a.Result) == string(b.Result) && (a.Agent == nil) == (b.Agent == nil)
}

// DropRun forgets a run that is gone, with its approvals.
func (s *State) DropRun(id core.ID) {
	delete(s.details, id)
	delete(s.begun, id)
	gone := s.approvals.dropOf(id)
	if s.runs.drop(id) || gone {
		s.version++
	}
}

// Run returns the header of a run.
func (s *State) Run(id core.ID) (core.Run, bool) {
	if row := s.runs.byID[id]; row != nil {
		return *row.run, true
	}
	return core.Run{}, false
}

// Name returns what to call a run on a screen, as the function Name does, or its
// short id where nothing is known of it.
func (s *State) Name(id core.ID) string {
	if row := s.runs.byID[id]; row != nil {
		return row.name
	}
	return core.Visible(id.Short(), idRunes, false)
}

// RunsBelow is how many runs an agent is known to have started.
func (s *State) RunsBelow(agent core.ID) int { return s.runs.below[agent] }

// Root is the run that stands in lists for a run: itself, or the agent above all others
// that led to it, as far as they are known.
func (s *State) Root(id core.ID) core.ID {
	for range maxDepth {
		row := s.runs.byID[id]
		if row == nil || !row.run.Below() || s.runs.byID[row.run.ParentID] == nil {
			return id
		}
		id = row.run.ParentID
	}
	return id
}

// maxDepth bounds how far up a run is followed to its agents.
const maxDepth = 16

// Runs returns the ids of all runs but those that agents have started, newest first.
// The slice is the state's own and good until the state changes.
func (s *State) Runs() []core.ID {
	t := &s.runs
	rows := t.newest.sorted()
	if t.idsOf != t.newest.version {
		t.ids, t.idsOf = t.ids[:0], t.newest.version
		for _, row := range rows {
			t.ids = append(t.ids, row.run.ID)
		}
	}
	return t.ids
}

// CountRuns returns how many of these runs are in one of the states; without any, how
// many there are.
func (s *State) CountRuns(states ...core.RunState) int {
	if len(states) == 0 {
		return len(s.runs.newest.rows)
	}
	n := 0
	for _, st := range states {
		n += s.runs.counts[st]
	}
	return n
}

// Tools returns the tools that a run is known to have called, in the order in
// which they were seen. The slice is the state's own.
func (s *State) Tools(id core.ID) []string {
	if row := s.runs.byID[id]; row != nil {
		return row.tools
	}
	return nil
}

// addTool remembers that a run has called a tool.
func (t *runTable) addTool(id core.ID, tool string) {
	row := t.byID[id]
	if row == nil || tool == "" || len(row.tools) >= maxTools || slices.Contains(row.tools, tool) {
		return
	}
	row.tools = append(row.tools, tool)
	t.version++
}

// RunsVersion grows with every change of a run's header.
func (s *State) RunsVersion() int64 { return s.runs.version }

// Match reports whether a run matches a filter, by its tools as well.
func (s *State) Match(f Filter, id core.ID) bool {
	row := s.runs.byID[id]
	return row != nil && f.row(row)
}
