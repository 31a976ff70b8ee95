package state

import (
	"slices"

	"github.com/casys-ai/pml/core"
)

// SortKey is an order of runs.
type SortKey string

// The orders. Runs that are equal in one stand newest first.
const (
	SortAge     SortKey = "age"     // newest first
	SortUpdated SortKey = "updated" // changed last first
	SortStatus  SortKey = "status"  // as core.RunStates
	SortName    SortKey = "name"
	SortLayer   SortKey = "progress" // the share of layers done, furthest first
)

// SortKeys are all orders, as a key press goes through them.
var SortKeys = []SortKey{SortAge, SortUpdated, SortStatus, SortName, SortLayer}

// rowOrder is runs in an order that is kept: a new run is put in its place, and
// many are sorted when they are asked for.
type rowOrder struct {
	compare func(a, b *runRow) int
	rows    []*runRow
	stale   bool
	version int64 // grows with every change of the order
}

// insert takes a new run.
func (o *rowOrder) insert(row *runRow, many bool) {
	o.version++
	if many || o.stale {
		o.rows, o.stale = append(o.rows, row), true
		return
	}
	i, _ := slices.BinarySearchFunc(o.rows, row, o.compare)
	o.rows = slices.Insert(o.rows, i, row)
}

// disturb says that what the order goes by is about to change.
func (o *rowOrder) disturb() {
	o.version++
	o.stale = true
}

func (o *rowOrder) remove(row *runRow) {
	o.version++
	i := slices.Index(o.rows, row)
	o.rows = slices.Delete(o.rows, i, i+1)
}

func (o *rowOrder) sorted() []*runRow {
	if o.stale {
		slices.SortFunc(o.rows, o.compare)
		o.stale = false
	}
	return o.rows
}

// in returns all runs in an order, or in the one that sort is to begin with.
func (t *runTable) in(k SortKey) []*runRow {
	if k == SortName {
		return t.names.sorted()
	}
	return t.newest.sorted()
}

// sortRow is the place of a run among others, and by what it is sorted.
type sortRow struct {
	num int64
	at  int
}

// sort sorts runs that stand newest first, or by name where that is the order.
func (k SortKey) sort(rows []*runRow) {
	var num func(r *core.Run) int64
	switch k {
	case SortUpdated:
		num = func(r *core.Run) int64 { return -r.UpdatedAt.UnixNano() }
	case SortStatus:
		num = func(r *core.Run) int64 { return int64(slices.Index(core.RunStates, r.State)) }
	case SortLayer:
		num = func(r *core.Run) int64 { return -progress(r) }
	case SortAge, SortName:
		return
	default:
		return
	}
	list := make([]sortRow, len(rows))
	for i, row := range rows {
		list[i] = sortRow{num(row.run), i}
	}
	slices.SortFunc(list, func(a, b sortRow) int {
		switch {
		case a.num < b.num:
			return -1
		case a.num > b.num:
			return 1
		}
		return a.at - b.at
	})
	before := slices.Clone(rows)
	for i, s := range list {
		rows[i] = before[s.at]
	}
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
