package feed

import (
	"context"
	"errors"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/state"
)

const (
	// backlog is how many events from before the start are shown, roughly: so many
	// numbers are gone back.
	backlog = 1000
	// far is a number that no event reaches: it asks for none of a side.
	far = int64(1) << 62
	// settled is how long events must be followed until all is well again.
	settled = time.Second
)

var (
	errFound = errors.New("found")
	errEnded = core.Errorf(core.CodeInternal, "the events ended")
)

// mark is how far the events of a side have come.
type mark struct {
	seq     int64 // newest that was taken, or the one after which to begin
	history int64 // up to here they tell nothing that the lists do not have
}

// marks are how far the events have come, and who brings them.
type marks struct {
	client, server mark
	locating       bool
	again          bool // locate once more
	unlessFound    bool // and also if the server, which is there by now, had not answered yet
	far            bool // those of the server are not asked for: it is not there
	follows        int  // how often they were followed
	stop           context.CancelFunc
	failures       int
}

func (m *marks) of(side core.Side) *mark {
	if side == core.SideServer {
		return &m.server
	}
	return &m.client
}

// locate finds out where the events of both sides stand, follows them from
// there, and reads the lists, which then have all that happened before.
func (l *loop) locate() {
	m := &l.marks
	if m.locating {
		m.again = true
		return
	}
	m.locating = true
	m.follows++
	if m.stop != nil {
		m.stop()
	}
	at := [...]mark{m.client, m.server}
	l.start(func(ctx context.Context) func() {
		var restart [2]bool
		var failed error
		for i, side := range bothSides {
			var err error
			at[i], restart[i], err = locate(ctx, l.o.Backend, side, at[i])
			failed = errors.Join(failed, err)
		}
		return func() {
			m.locating = false
			for i, side := range bothSides {
				l.located(side, at[i], restart[i])
			}
			l.follow(failed)
		}
	})
}

// located takes where the events of a side stand. One with other numbers than
// before has another store.
func (l *loop) located(side core.Side, at mark, restart bool) {
	cur := l.marks.of(side)
	if restart {
		l.push(func(s *state.State) { s.RestartEvents(side) })
	} else if at.seq < cur.seq {
		return // some came while it was looked for
	}
	*cur = at
}

// follow follows the events from where they stand. failed is why that is not
// known.
func (l *loop) follow(failed error) {
	m := &l.marks
	l.reload()
	again := m.again || m.unlessFound && !l.begun()
	m.again, m.unlessFound = false, false
	if again {
		l.locate()
		return
	}
	if failed != nil {
		l.unfollowed(failed)
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	m.stop = cancel
	n := m.follows
	since := api.Since{Client: m.client.seq, Server: m.server.seq}
	// Where there is no server yet, all that it ever did would come when there is.
	m.far = m.server == (mark{}) && l.o.Links != nil && l.links.server.State != state.LinkLive
	if m.far {
		since.Server = far
	}
	l.start(func(context.Context) func() {
		defer cancel()
		err := l.o.Backend.Events(ctx, "", since, true, func(e core.Event) error {
			select {
			case l.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return func() {
			if n == m.follows {
				l.unfollowed(err)
			}
		}
	})
	l.after(settled, func() {
		if n == m.follows {
			m.failures = 0
			l.well(following)
		}
	})
}

// unfollowed tries again, later each time.
func (l *loop) unfollowed(err error) {
	if err == nil {
		err = errEnded
	}
	m := &l.marks
	m.follows++ // what was begun does not count any more
	m.failures++
	n := m.follows
	l.trouble(following, err)
	l.after(pause(m.failures), func() {
		if n == m.follows {
			l.locate()
		}
	})
}

// take takes an event, and those behind it that are here already.
func (l *loop) take(e core.Event) {
	for {
		l.event(e)
		if l.held >= maxHeld {
			break
		}
		select {
		case e = <-l.events:
			continue
		default:
		}
		break
	}
	l.readApprovals()
	l.schedule()
}

func (l *loop) event(e core.Event) {
	m := l.marks.of(e.Side)
	if e.Seq <= m.seq {
		return
	}
	m.seq = e.Seq
	l.hold(e)
	l.heard(e.Side)
	if e.Seq > m.history {
		l.changedBy(&e)
	}
}

// locate finds the newest event of a side, so that its mark is right to go on
// from. restart says that the numbers are not those of before.
func locate(ctx context.Context, r Reader, side core.Side, at mark) (found mark, restart bool, err error) {
	if at.seq > 0 {
		// The event itself, or one behind it, is there in the same store only.
		seq, err := firstAfter(ctx, r, side, at.seq-1)
		if err != nil || seq > 0 {
			return at, false, err
		}
	}
	low, err := newest(ctx, r, side)
	if err != nil || low == 0 || low >= at.seq && at.seq > 0 {
		return at, false, err
	}
	return mark{seq: max(0, low-backlog), history: low}, at.seq > 0, nil
}

// newest returns the number of the newest event of a side, 0 if there is none.
// It asks for few of them: one after steps that grow, then by halves, and for
// the last all.
func newest(ctx context.Context, r Reader, side core.Side) (int64, error) {
	low, err := firstAfter(ctx, r, side, 0)
	if err != nil || low == 0 {
		return 0, err
	}
	high := int64(0)
	for step := int64(backlog); high == 0; step = min(step*8, far/4) {
		n, err := firstAfter(ctx, r, side, low+step)
		switch {
		case err != nil:
			return 0, err
		case n == 0:
			high = low + step
		default:
			low = n
		}
	}
	for high-low > backlog {
		mid := low + (high-low)/2
		n, err := firstAfter(ctx, r, side, mid)
		switch {
		case err != nil:
			return 0, err
		case n == 0:
			high = mid
		default:
			low = n
		}
	}
	err = eventsAfter(ctx, r, side, low, func(seq int64) error {
		low = seq
		return nil
	})
	return low, err
}

// firstAfter returns the number of the first event of a side after another, 0 if
// there is none.
func firstAfter(ctx context.Context, r Reader, side core.Side, after int64) (first int64, err error) {
	err = eventsAfter(ctx, r, side, after, func(seq int64) error {
		first = seq
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return first, err
}

// eventsAfter calls f for the number of each event of a side after another.
func eventsAfter(ctx context.Context, r Reader, side core.Side, after int64, f func(seq int64) error) error {
	since := api.Since{Client: after, Server: far}
	if side == core.SideServer {
		since = api.Since{Client: far, Server: after}
	}
	return r.Events(ctx, "", since, false, func(e core.Event) error {
		if (e.Side == core.SideServer) != (side == core.SideServer) || e.Seq <= after {
			return nil
		}
		return f(e.Seq)
	})
}
