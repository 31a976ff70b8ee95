package state

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	// keptBytes is how much of the data and of the texts of an event is kept.
	keptBytes = 4 << 10
	// maxTexts bounds how many texts are kept once for all events.
	maxTexts = 20_000
	// maxGaps is how many gaps are remembered.
	maxGaps = 100
)

// eventRing keeps the newest events. They lie in one piece, with room behind for
// a quarter more: when that is used up, the newest move to the front.
type eventRing struct {
	list  []core.Event // oldest first, up to max*5/4
	max   int
	seen  int64             // ever; the number of the next one
	texts map[string]string // texts that many events share
	gaps  []Gap
}

func newEventRing(n int) eventRing {
	return eventRing{max: max(n, 1), texts: map[string]string{}}
}

func (r *eventRing) add(e core.Event) {
	room := r.max + max(r.max/4, 1)
	if len(r.list) == room {
		n := copy(r.list, r.list[room-r.max+1:])
		clear(r.list[n:])
		r.list = r.list[:n]
	}
	if len(r.list) == cap(r.list) {
		// Exactly the room that there may be: append would take a quarter more.
		grown := make([]core.Event, len(r.list), min(room, max(2*cap(r.list), 64)))
		copy(grown, r.list)
		r.list = grown
	}
	r.list = append(r.list, r.trim(e))
	r.seen++
}

// kept are the events that count, oldest first.
func (r *eventRing) kept() []core.Event { return r.list[max(0, len(r.list)-r.max):] }

// at returns an event by its number, which must be kept.
func (r *eventRing) at(n int64) *core.Event { return &r.list[int64(len(r.list))-(r.seen-n)] }

// trim leaves out what is too large to be kept, and keeps a text that other
// events have as well only once.
func (r *eventRing) trim(e core.Event) core.Event {
	e.Type, e.Side, e.Owner = core.EventType(r.once(string(e.Type))), core.Side(r.once(string(e.Side))), r.once(e.Owner)
	e.RunID, e.ApprovalID = core.ID(r.once(string(e.RunID))), core.ID(r.once(string(e.ApprovalID)))
	e.TaskID, e.Tool, e.RunName = r.once(e.TaskID), r.once(e.Tool), r.once(e.RunName)
	e.Message = short(e.Message)
	if len(e.Data) > keptBytes {
		e.Data = json.RawMessage(`{"left_out_bytes":` + strconv.Itoa(len(e.Data)) + `}`)
	}
	if e.Error != nil {
		e.Error = trimError(e.Error)
	}
	return e
}

func (r *eventRing) once(s string) string {
	if s == "" || len(s) > 128 {
		return short(s)
	}
	if t, ok := r.texts[s]; ok {
		return t
	}
	if len(r.texts) >= maxTexts {
		clear(r.texts)
	}
	r.texts[s] = s
	return s
}

func trimError(e *core.Error) *core.Error {
	c := *e
	c.Message, c.Stack = short(e.Message), short(e.Stack)
	size := 0
	for _, f := range e.Failures {
		size += len(f.Error)
	}
	for _, f := range e.Faults {
		size += len(f.Message)
	}
	if size > keptBytes {
		c.Failures, c.Faults = nil, nil
		c.Message += " (" + strconv.Itoa(len(e.Failures)+len(e.Faults)) + " causes left out)"
	}
	return &c
}

// short cuts a text that is too long to be kept, and says so.
func short(s string) string {
	if len(s) <= keptBytes {
		return s
	}
	cut := strings.ToValidUTF8(s[:keptBytes], "")
	return strings.Clone(cut) + "… (" + strconv.Itoa(len(s)-len(cut)) + " more bytes)"
}

// AddEvents takes events as they arrive, those of a side in the order of its
// numbers. An event that was seen is left out. What an event says as a fact
// changes what is known of its run or approval, unless what is known is newer;
// all else has to be read again.
//
// Kept events are for looking at: of one with more than 4 KiB of data only the
// size is kept, and longer texts are cut and say so.
func (s *State) AddEvents(list ...core.Event) {
	added := false
	for i := range list {
		e := &list[i]
		link := s.Links.Of(e.Side)
		if e.Seq <= link.Seq {
			continue
		}
		link.Seq = e.Seq
		s.events.add(*e)
		s.applyEvent(e)
		s.runs.addTool(e.RunID, e.Tool)
		added = true
	}
	if added {
		s.version++
	}
}

// RestartEvents says that a side numbers its events anew: it has another store
// than before.
func (s *State) RestartEvents(side core.Side) {
	s.Links.Of(side).Seq = 0
	s.version++
}

// Events returns the events that are kept, oldest first. The slice is the
// state's own and good until the next event.
func (s *State) Events() []core.Event { return s.events.kept() }

// EventsSeen is how many events have ever come. They are numbered from 0 in the
// order in which they came, across both sides.
func (s *State) EventsSeen() int64 { return s.events.seen }

// FirstEvent is the number of the oldest event that is kept, and EventsSeen
// where there is none.
func (s *State) FirstEvent() int64 { return s.events.seen - int64(len(s.events.kept())) }

// EventAt returns an event by its number; ok is false when it is not kept.
func (s *State) EventAt(n int64) (e core.Event, ok bool) {
	if n < s.FirstEvent() || n >= s.events.seen {
		return core.Event{}, false
	}
	return *s.events.at(n), true
}

// Gap is a time in which no events of a half arrived, and which is over.
type Gap struct {
	Side core.Side
	At   time.Time     // when it was back
	Away time.Duration // how long it was not
	Seq  int64         // events go on after this number of the side
	// Before is the number of the first event behind the gap, as EventAt takes
	// it: one that may be yet to come.
	Before int64
}

// AddGap remembers that a half is back; Before is filled in, also when events
// from behind the gap are here already.
func (s *State) AddGap(g Gap) {
	g.Before = s.events.seen
	for n := g.Before - 1; n >= s.FirstEvent(); n-- {
		e := s.events.at(n)
		if (e.Side == core.SideServer) != (g.Side == core.SideServer) {
			continue
		}
		if e.Seq <= g.Seq {
			break
		}
		g.Before = n
	}
	if len(s.events.gaps) == maxGaps {
		s.events.gaps = append(s.events.gaps[:0], s.events.gaps[1:]...)
	}
	s.events.gaps = append(s.events.gaps, g)
	s.version++
}

// Gaps returns the gaps among the events that are kept, oldest first. The slice
// is the state's own.
func (s *State) Gaps() []Gap {
	first := s.FirstEvent()
	for i, g := range s.events.gaps {
		if g.Before > first || first == 0 {
			return s.events.gaps[i:]
		}
	}
	return nil
}

// SetAudit takes the newest rows of the audit log, oldest first.
func (s *State) SetAudit(rows []core.AuditRow) {
	s.audit = rows
	s.version++
}

// Audit returns the rows of the audit log that were read, oldest first.
func (s *State) Audit() []core.AuditRow { return s.audit }

// Decisions is how often approvals were resolved, calls refused, runs aborted and calls halted or let go on
// since the state began: with each there are rows of the audit log that were not read.
func (s *State) Decisions() int64 { return s.decisions }
