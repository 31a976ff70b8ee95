package state

import "github.com/casys-ai/pml/core"

// eventRing keeps the newest events.
type eventRing struct {
	list []core.Event // oldest first
	max  int
	seen int64 // ever
}

func newEventRing(n int) eventRing { return eventRing{max: max(n, 1)} }

// AddEvents takes events as they arrive. An event that was seen is left out.
func (s *State) AddEvents(list ...core.Event) {
	for _, e := range list {
		link := s.Links.Of(e.Side)
		if e.Seq <= link.Seq {
			continue
		}
		link.Seq = e.Seq
		s.events.seen++
		s.events.list = append(s.events.list, e)
	}
	if n := len(s.events.list) - s.events.max; n > s.events.max/4 {
		s.events.list = append(s.events.list[:0], s.events.list[n:]...)
	}
	s.version++
}

// Events returns the events that are kept, oldest first. The slice is the
// state's own.
func (s *State) Events() []core.Event { return s.events.list }

// EventsSeen is how many events have ever come.
func (s *State) EventsSeen() int64 { return s.events.seen }

// SetAudit takes the newest rows of the audit log, oldest first.
func (s *State) SetAudit(rows []core.AuditRow) {
	s.audit = rows
	s.version++
}

// Audit returns the rows of the audit log that were read, oldest first.
func (s *State) Audit() []core.AuditRow { return s.audit }
