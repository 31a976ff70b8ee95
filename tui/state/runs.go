package state

import (
	"cmp"
	"encoding/binary"
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
}

// prepare computes what follows from the header.
func (r *runRow) prepare() {
	r.name = nameOf(r.run)
	r.lower = strings.ToLower(r.name)
}

// runTable is the runs by id and newest first.
type runTable struct {
	byID   map[core.ID]*runRow
	order  []*runRow // newest first; not in order when stale
	ids    []core.ID // of order
	stale  bool
	counts map[core.RunState]int
	// version grows with every change of a header.
	version int64
}

func newRunTable() runTable {
	return runTable{byID: map[core.ID]*runRow{}, counts: map[core.RunState]int{}}
}

// newestFirst is the order of lists, as the backend gives them.
func newestFirst(a, b *runRow) int {
	if c := b.run.CreatedAt.Compare(a.run.CreatedAt); c != 0 {
		return c
	}
	return strings.Compare(string(b.run.ID), string(a.run.ID))
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
		t.counts[r.State]++
		t.insert(row, many)
		return true
	}
	old := row.run
	if sameHeader(old, r) {
		return false
	}
	moved := !old.CreatedAt.Equal(r.CreatedAt)
	renamed := old.Intent != r.Intent || old.Kind != r.Kind
	t.counts[old.State]--
	t.counts[r.State]++
	*old = *r
	if renamed {
		row.prepare()
	}
	t.stale = t.stale || moved
	return true
}

// insert puts a new run in its place; many leave that for when it is asked for.
func (t *runTable) insert(row *runRow, many bool) {
	if many || t.stale {
		t.order, t.stale = append(t.order, row), true
		return
	}
	i, _ := slices.BinarySearchFunc(t.order, row, newestFirst)
	t.order = slices.Insert(t.order, i, row)
	t.ids = slices.Insert(t.ids, i, row.run.ID)
}

// rows returns the runs newest first.
func (t *runTable) rows() []*runRow {
	if t.stale {
		slices.SortFunc(t.order, newestFirst)
		t.ids = slices.Grow(t.ids[:0], len(t.order))
		for _, row := range t.order {
			t.ids = append(t.ids, row.run.ID)
		}
		t.stale = false
	}
	return t.order
}

func (t *runTable) drop(id core.ID) bool {
	row := t.byID[id]
	if row == nil {
		return false
	}
	rows := t.rows()
	i := slices.Index(rows, row)
	t.order, t.ids = slices.Delete(rows, i, i+1), slices.Delete(t.ids, i, i+1)
	t.counts[row.run.State]--
	delete(t.byID, id)
	t.version++
	return true
}

// sameHeader reports whether two headers of a run tell the same. A commit of a
// runner changes one of the numbers; what other processes do changes the rest.
func sameHeader(a, b *core.Run) bool {
	return a.State == b.State && a.JournalSeq == b.JournalSeq && a.Epoch == b.Epoch && a.CurrentLayer == b.CurrentLayer &&
		a.TotalLayers == b.TotalLayers && a.DAGVersion == b.DAGVersion && a.Runner == b.Runner && a.Intent == b.Intent &&
		a.Side == b.Side && a.Kind == b.Kind && a.Workspace == b.Workspace && a.ActiveMS == b.ActiveMS &&
		a.UpdatedAt.Equal(b.UpdatedAt) && a.CreatedAt.Equal(b.CreatedAt) && (a.Abort == nil) == (b.Abort == nil) &&
		(a.Error == nil) == (b.Error == nil) && (a.Error == nil || a.Error.Message == b.Error.Message) &&
		sameTime(a.ExpiresAt, b.ExpiresAt) && sameTime(a.EndedAt, b.EndedAt) && string(a.Result) == string(b.Result)
}

// DropRun forgets a run that is gone, with its approvals.
func (s *State) DropRun(id core.ID) {
	delete(s.details, id)
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
	return core.Visible(id.Short(), nameRunes, false)
}

// Runs returns the ids of all runs, newest first. The slice is the state's own
// and good until the state changes.
func (s *State) Runs() []core.ID {
	s.runs.rows()
	return s.runs.ids
}

// CountRuns returns how many runs are in one of the states; without any, how
// many there are.
func (s *State) CountRuns(states ...core.RunState) int {
	if len(states) == 0 {
		return len(s.runs.byID)
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

// SortKey is an order of runs.
type SortKey string

// The orders. Runs that are equal in one stand newest first.
const (
	SortAge     SortKey = "age"     // newest first
	SortUpdated SortKey = "updated" // changed last first
	SortStatus  SortKey = "status"  // as core.RunStates
	SortName    SortKey = "name"
	SortLayer   SortKey = "layer" // furthest first
)

// SortKeys are all orders, as a key press goes through them.
var SortKeys = []SortKey{SortAge, SortUpdated, SortStatus, SortName, SortLayer}

// sortRow is a run with what it is sorted by: a number, then a text, then its
// place before.
type sortRow struct {
	num  int64
	text string
	at   int
	row  *runRow
}

func compareRows(a, b sortRow) int {
	if a.num != b.num {
		return cmp.Compare(a.num, b.num)
	}
	if c := strings.Compare(a.text, b.text); c != 0 {
		return c
	}
	return a.at - b.at
}

// sort sorts runs that stand newest first.
func (k SortKey) sort(rows []*runRow) {
	if k == SortAge || k == "" {
		return
	}
	list := make([]sortRow, len(rows))
	for i, row := range rows {
		list[i] = k.of(row)
		list[i].at, list[i].row = i, row
	}
	slices.SortFunc(list, compareRows)
	for i := range list {
		rows[i] = list[i].row
	}
}

// of is what a run is sorted by.
func (k SortKey) of(row *runRow) (s sortRow) {
	switch k {
	case SortUpdated:
		s.num = -row.run.UpdatedAt.UnixNano()
	case SortStatus:
		s.num = int64(slices.Index(core.RunStates, row.run.State))
	case SortName:
		s.num, s.text = firstLetters(row.lower), row.lower
	case SortLayer:
		s.num = -progress(row.run)
	case SortAge:
	}
	return s
}

// firstLetters are the first bytes of a text as a number in the same order, which
// is faster to compare.
func firstLetters(s string) int64 {
	var b [8]byte
	copy(b[1:], s)
	return int64(binary.BigEndian.Uint64(b[:])) // at most 56 bits
}

// progress is the part of its layers that a run has behind it, in millionths.
func progress(r *core.Run) int64 {
	const all = 1_000_000
	switch {
	case r.State == core.RunComplete:
		return all
	case r.TotalLayers <= 0:
		return 0
	}
	return int64(r.CurrentLayer) * all / int64(r.TotalLayers)
}
