package state

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// RunQuery says which runs a list has, and in which order.
type RunQuery struct {
	Filter  Filter
	Sort    SortKey
	Reverse bool
	Now     time.Time // for a filter by age, which counts in seconds
}

// RunList is a list of runs that is computed again only when a run or the
// question has changed. The zero value is ready. It is used by one goroutine.
type RunList struct {
	of      *State
	version int64
	asked   runKey
	ids     []core.ID
	rows    []*runRow
}

// runKey is what a RunQuery is compared by.
type runKey struct {
	filter  string
	sort    SortKey
	reverse bool
	second  int64
}

// IDs returns the runs of a query. The slice is the list's own and good until
// the next call.
func (l *RunList) IDs(s *State, q RunQuery) []core.ID {
	key := runKey{filter: q.Filter.text, sort: q.Sort, reverse: q.Reverse}
	if q.Filter.ByAge() {
		key.second = q.Now.Unix()
	}
	if l.of == s && l.version == s.runs.version && l.asked == key {
		return l.ids
	}
	l.of, l.version, l.asked = s, s.runs.version, key
	if (q.Sort == SortAge || q.Sort == "") && !q.Reverse && q.Filter.Empty() {
		l.ids = append(l.ids[:0], s.Runs()...)
		return l.ids
	}
	f := q.Filter.At(q.Now)
	l.rows = l.rows[:0]
	for _, row := range s.runs.in(q.Sort) {
		if f.row(row) {
			l.rows = append(l.rows, row)
		}
	}
	q.Sort.sort(l.rows)
	if q.Reverse {
		slices.Reverse(l.rows)
	}
	l.ids = l.ids[:0]
	for _, row := range l.rows {
		l.ids = append(l.ids, row.run.ID)
	}
	return l.ids
}

// EventList is the events that match a filter. It looks at each event once, so
// that a list of 100,000 costs no more than what is new. The zero value is
// ready. It is used by one goroutine.
type EventList struct {
	of      *State
	filter  string
	seen    int64
	numbers []int64
}

// Numbers returns the numbers of the events that match, oldest first, as
// State.EventAt takes them. The slice is the list's own and good until the next
// call. Names of runs and ages are looked at when an event comes; an age is
// looked at again with every second of now.
func (l *EventList) Numbers(s *State, f Filter, now time.Time) []int64 {
	key := f.text
	if f.ByAge() {
		key += "\n" + now.UTC().Format(time.DateTime)
	}
	if l.of != s || l.filter != key {
		l.of, l.filter, l.seen, l.numbers = s, key, 0, l.numbers[:0]
	}
	f = f.At(now)
	first := s.FirstEvent()
	for n := max(l.seen, first); n < s.events.seen; n++ {
		if s.matchEvent(f, s.events.at(n)) {
			l.numbers = append(l.numbers, n)
		}
	}
	l.seen = s.events.seen
	gone, _ := slices.BinarySearch(l.numbers, first)
	if gone > len(l.numbers)/2 {
		l.numbers = slices.Delete(l.numbers, 0, gone)
		gone = 0
	}
	return l.numbers[gone:]
}

// MatchEvent reports whether an event matches a filter, by the name of its run
// as well.
func (s *State) MatchEvent(f Filter, e core.Event) bool { return s.matchEvent(f, &e) }

func (s *State) matchEvent(f Filter, e *core.Event) bool {
	name := ""
	if f.named() {
		if row := s.runs.byID[e.RunID]; row != nil {
			name = row.lower
		}
	}
	return f.event(e, name)
}
