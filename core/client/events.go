package client

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

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

// Said implements api.Workflows.
func (c *Client) Said(ctx context.Context, id core.ID, f func(core.Event) error) error {
	s := &subscription{
		c: c, path: runPath(id, "events"), query: url.Values{"types": {string(core.EventAgentText)}}, last: -1, event: f,
		snapshot: func(api.Snapshot) error { return nil },
	}
	return s.run(ctx)
}

// firstEvents is how many events are read at first, eventPage how many at once behind
// them: who looks for the newest number wants one of each read.
const (
	firstEvents = 50
	eventPage   = 1000
)

// past calls f for the events that there are.
func (c *Client) past(ctx context.Context, path string, since int64, f func(core.Event) error) error {
	for limit := firstEvents; ; limit = eventPage {
		q := url.Values{"since": {strconv.FormatInt(since, 10)}, "limit": {strconv.Itoa(limit)}}
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
		if len(page.Items) == 0 || len(page.Items) < limit && page.Next == "" {
			return nil
		}
	}
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
