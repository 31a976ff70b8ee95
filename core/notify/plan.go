package notify

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// plan brings the document up to what waits now, and queues what is to be said. open are
// all approvals that wait. It is pure but for the ids.
func (s *state) plan(open []core.Approval, set Settings, now time.Time, newID func() core.ID) {
	s.follow(open, set, now)
	s.forget(set, now)
	if len(set.Carriers) == 0 || set.Quiet.Holds(now) {
		return
	}
	p := planner{state: s, set: set, now: now, newID: newID}
	p.announce()
	p.remind()
	p.conclude()
}

// follow takes in what has come to wait, and what does not wait any more.
func (s *state) follow(open []core.Approval, set Settings, now time.Time) {
	is := make(map[core.ID]core.Approval, len(open))
	for _, a := range open {
		is[a.ID] = a
	}
	known := make(map[core.ID]bool, len(s.Waiting))
	s.Waiting = slices.DeleteFunc(s.Waiting, func(w waiting) bool {
		_, waits := is[w.ID]
		if told := s.toldOf(w); !waits && len(told) > 0 && set.Decided && len(s.Settled) < maxWaiting {
			s.Settled = append(s.Settled, settled{ID: w.ID, At: now, Told: told})
		}
		known[w.ID] = true
		return !waits
	})
	for i := range s.Waiting {
		s.Waiting[i].Expires = is[s.Waiting[i].ID].ExpiresAt
	}
	for _, a := range open {
		if !known[a.ID] && len(s.Waiting) < maxWaiting {
			s.Waiting = append(s.Waiting, waiting{ID: a.ID, Since: now, Expires: a.ExpiresAt})
		}
	}
	for i := range s.Queue {
		if m := &s.Queue[i]; m.Kind != KindDecided {
			m.Approvals = slices.DeleteFunc(m.Approvals, func(id core.ID) bool { _, waits := is[id]; return !waits })
		}
	}
	s.tidy()
}

// toldOf are the carriers that have told of an approval, or are at it: how that ends is
// not known yet, or nobody will know.
func (s *state) toldOf(w waiting) []string {
	told := slices.Clone(w.Told)
	for _, m := range s.Queue {
		if m.Kind == KindDecided || !slices.Contains(m.Approvals, w.ID) {
			continue
		}
		for _, d := range m.Deliveries {
			if d.By != "" && !slices.Contains(told, d.Carrier) {
				told = append(told, d.Carrier)
			}
		}
	}
	return told
}

// forget drops what is too old to be sent, what there is no carrier for any more, and
// what is too much.
func (s *state) forget(set Settings, now time.Time) {
	for name := range s.Carriers {
		if set.carrier(name) == nil {
			delete(s.Carriers, name)
		}
	}
	for i := range s.Queue {
		m := &s.Queue[i]
		late := now.Sub(m.At) > keepTime || i < len(s.Queue)-maxQueue
		m.Deliveries = slices.DeleteFunc(m.Deliveries, func(d delivery) bool {
			if set.carrier(d.Carrier) == nil {
				return true
			}
			if late {
				s.health(d.Carrier).Lost++
			}
			return late
		})
	}
	if !set.Decided {
		s.Settled = nil
	}
	s.tidy()
}

// planner queues what is to be said now.
type planner struct {
	*state
	set   Settings
	now   time.Time
	newID func() core.ID
}

// calmAt is when nothing more has come for a while: what comes at once is one message. What
// never ends is not waited for.
func calmAt(set Settings, oldest, newest time.Time) time.Time {
	return earliest(newest.Add(set.After), oldest.Add(5*set.After))
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// announce tells of what has come to wait.
func (p planner) announce() {
	at, fresh := p.announceAt()
	if len(fresh) == 0 || p.now.Before(at) {
		return
	}
	ids := make([]core.ID, len(fresh))
	for i, w := range fresh {
		ids[i], w.Announced = w.ID, true
		left, expires := w.left(p.now)
		w.Reminded = expires && left <= p.set.Remind // this is it
	}
	p.queue(KindAsked, ids, nil)
	p.AskedAt = p.now
}

// announceAt is when what nobody was told of is told.
func (p planner) announceAt() (at time.Time, fresh []*waiting) {
	var oldest, newest, first time.Time
	for i := range p.Waiting {
		w := &p.Waiting[i]
		if w.Announced {
			continue
		}
		fresh = append(fresh, w)
		oldest = earliest(oldest, w.Since)
		if w.Since.After(newest) {
			newest = w.Since
		}
		if w.Expires != nil {
			first = earliest(first, *w.Expires)
		}
	}
	if len(fresh) == 0 {
		return time.Time{}, nil
	}
	at = calmAt(p.set, oldest, newest)
	// What would expire before the next message is worth one of its own.
	if next := p.AskedAt.Add(p.set.Burst); !p.AskedAt.IsZero() && at.Before(next) && (first.IsZero() || first.After(next)) {
		at = next
	}
	return at, fresh
}

// remind tells again of what expires soon, and in the same message of what does so a
// little later.
func (p planner) remind() {
	if p.set.Remind <= 0 {
		return
	}
	var ids []core.ID
	var now bool
	for i := range p.Waiting {
		w := &p.Waiting[i]
		left, expires := w.left(p.now)
		if soon := expires && left <= p.set.Remind+p.set.Burst; !soon {
			w.Reminded = false // it was extended
			continue
		}
		if w.Announced && !w.Reminded && left > 0 {
			ids = append(ids, w.ID)
			now = now || left <= p.set.Remind
		}
	}
	if !now {
		return
	}
	for i := range p.Waiting {
		if w := &p.Waiting[i]; slices.Contains(ids, w.ID) {
			w.Reminded = true
		}
	}
	p.queue(KindReminder, ids, nil)
}

// conclude tells what became of what was told of.
func (p planner) conclude() {
	if len(p.Settled) == 0 || p.now.Before(p.concludeAt()) {
		return
	}
	var ids []core.ID
	var told []string
	for _, d := range p.Settled {
		ids = append(ids, d.ID)
		for _, name := range d.Told {
			if !slices.Contains(told, name) {
				told = append(told, name)
			}
		}
	}
	p.queue(KindDecided, ids, told)
	p.Settled, p.DecidedAt = nil, p.now
}

func (p planner) concludeAt() time.Time {
	if len(p.Settled) == 0 {
		return time.Time{}
	}
	at := calmAt(p.set, p.Settled[0].At, p.Settled[len(p.Settled)-1].At)
	if next := p.DecidedAt.Add(p.set.Burst); !p.DecidedAt.IsZero() && at.Before(next) {
		return next
	}
	return at
}

// queue puts a message into the queue, for the named carriers or, without, for all.
func (p planner) queue(kind Kind, ids []core.ID, only []string) {
	m := message{ID: p.newID(), Kind: kind, At: p.now, Approvals: ids}
	for _, c := range p.set.Carriers {
		if only == nil || slices.Contains(only, c.Name()) {
			m.Deliveries = append(m.Deliveries, delivery{Carrier: c.Name()})
		}
	}
	if len(m.Deliveries) == 0 {
		return
	}
	p.Queue = append(p.Queue, m)
	p.forget(p.set, p.now) // the bound
}

// quietStep is how often it is looked, in quiet hours, whether they are over. A clock on
// the wall may jump: so it is looked at, not reckoned.
const quietStep = time.Minute

// next is when there may be something to do without any news; zero: never.
func (s *state) next(set Settings, now time.Time) time.Time {
	if len(set.Carriers) == 0 {
		return time.Time{}
	}
	p := planner{state: s, set: set, now: now}
	at, _ := p.announceAt()
	at = earliest(at, p.concludeAt())
	for _, w := range s.Waiting {
		if !w.Announced || w.Expires == nil {
			continue
		}
		if at = earliest(at, *w.Expires); !w.Reminded && set.Remind > 0 {
			at = earliest(at, w.Expires.Add(-set.Remind))
		}
	}
	for _, m := range s.Queue {
		for _, d := range m.Deliveries {
			t := now
			if h := s.Carriers[d.Carrier]; h != nil && h.Next.After(t) {
				t = h.Next
			}
			if d.Until.After(t) {
				t = d.Until
			}
			at = earliest(at, t)
		}
	}
	if !at.IsZero() && set.Quiet.Holds(now) && at.Before(now.Add(quietStep)) {
		return now.Add(quietStep)
	}
	return at
}
