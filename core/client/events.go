package client

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// FrameKind says what a frame has.
type FrameKind string

// The kinds of frame.
const (
	FrameSnapshot FrameKind = "snapshot" // everything as it stands: what was known before does not count
	FrameEvent    FrameKind = "event"    // what happened after it
	FrameState    FrameKind = "state"    // how the connection stands
)

// Frame is one step of what Stream tells.
type Frame struct {
	Kind     FrameKind
	Snapshot *api.Snapshot
	Event    core.Event
	// Live is whether events come as they happen. If not, what is known is as
	// old as Since, and Err says why.
	Live  bool
	Since time.Time
	Err   error
}

// errNoMore ends a stream from which one frame was wanted.
var errNoMore = errors.New("enough")

// Events calls f for events after a number, in their order, each once, over
// any number of connections; with id only for those of a run. With follow it
// goes on until the context ends or f fails; a server that is away for longer
// than Limits.Away is an error. A server whose numbers go back is another one,
// and that is an error, too.
func (c *Client) Events(ctx context.Context, id core.ID, from api.Since, follow bool, f func(core.Event) error) error {
	since := from.Of(core.SideServer)
	path := "/events"
	if id != "" {
		path = runPath(id, "events")
	}
	if !follow {
		return c.past(ctx, path, since, f)
	}
	s := &subscription{c: c, path: path, last: max(0, since), event: f}
	if id == "" {
		s.state, s.all = c.o.Link, true
	}
	return s.run(ctx)
}

// eventPage is how many events are read at once.
const eventPage = 1000

// past calls f for the events that there are.
func (c *Client) past(ctx context.Context, path string, since int64, f func(core.Event) error) error {
	for {
		q := url.Values{"since": {strconv.FormatInt(since, 10)}, "limit": {strconv.Itoa(eventPage)}}
		var page api.Page[core.Event]
		if err := c.get(ctx, path, q, &page); err != nil {
			return err
		}
		for _, e := range page.Items {
			if e.Seq <= since {
				return core.Errorf(core.CodeServerUnreachable, "the events of %s are not in the order of their numbers: %d comes after %d", c.name, e.Seq, since)
			}
			since = e.Seq
			if err := f(e); err != nil {
				return err
			}
		}
		if len(page.Items) == 0 || len(page.Items) < eventPage && page.Next == "" {
			return nil
		}
	}
}

// Stream tells how everything stands and then what happens: a snapshot, events
// after it, and each change of the connection. After a lost connection it goes
// on where it was; when the server cannot do that, another snapshot begins
// anew. It ends with the context, with an error of f, or when the server does
// not let this client in. since is the number to go on after; negative begins
// with a snapshot.
func (c *Client) Stream(ctx context.Context, since int64, f func(Frame) error) error {
	var live *bool
	var failed error
	tell := func(frame Frame) {
		if failed == nil {
			failed = f(frame)
		}
	}
	s := &subscription{
		c: c, path: "/events", all: true, last: since, seen: since >= 0, forever: true, alive: c.o.Clock.Now(),
		event: func(e core.Event) error {
			tell(Frame{Kind: FrameEvent, Event: e})
			return failed
		},
		snapshot: func(snap api.Snapshot) error {
			tell(Frame{Kind: FrameSnapshot, Snapshot: &snap})
			return failed
		},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.state = func(now bool, err error) {
		if live == nil || *live != now {
			live = &now
			tell(Frame{Kind: FrameState, Live: now, Since: s.alive, Err: err})
		}
		if failed != nil {
			cancel()
		}
	}
	err := s.run(ctx)
	if failed != nil {
		return failed
	}
	return err
}

// Snapshot is how everything stands.
func (c *Client) Snapshot(ctx context.Context) (snap api.Snapshot, err error) {
	s := &subscription{
		c: c, path: "/events", last: -1,
		event: func(core.Event) error { return errNoMore },
		snapshot: func(got api.Snapshot) error {
			snap = got
			return errNoMore
		},
	}
	if err = s.run(ctx); errors.Is(err, errNoMore) {
		err = nil
	}
	return snap, err
}

// moved waits until a run that has nothing left to decide has something again,
// or goes on.
func (c *Client) moved(ctx context.Context, id core.ID) error {
	last := int64(0)
	err := c.patient(ctx, func() error {
		return c.past(ctx, runPath(id, "events"), last, func(e core.Event) error {
			last = e.Seq
			return nil
		})
	})
	if err != nil {
		return err
	}
	w, err := c.Workflow(ctx, id)
	if err != nil {
		return err
	}
	if w.State != core.RunWaiting {
		return nil
	}
	for _, ap := range w.Approvals {
		if ap.StateAt(c.o.Clock.Now()) == core.ApprovalOpen {
			return nil
		}
	}
	s := &subscription{c: c, path: runPath(id, "events"), last: last, forever: true, event: func(core.Event) error { return errNoMore }}
	if err := s.run(ctx); !errors.Is(err, errNoMore) {
		return err
	}
	return nil
}

// patient repeats what may be repeated until the server is back.
func (c *connection) patient(ctx context.Context, do func() error) error {
	return c.persist(ctx, -1, true, do)
}

// Live calls f for events of a run as they happen, those after a number or,
// when it is negative, from now on; ready is called once it listens. It goes on
// as Events does.
func (c *Client) Live(ctx context.Context, id core.ID, since int64, ready func(), f func(core.Event) error) error {
	if since >= 0 {
		ready()
		return c.Events(ctx, id, api.Since{Any: since}, true, f)
	}
	s := &subscription{
		c: c, path: runPath(id, "events"), last: since, event: f,
		snapshot: func(api.Snapshot) error { ready(); return nil },
	}
	return s.run(ctx)
}
