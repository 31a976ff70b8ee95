package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// headerLastEvent is the number after which a stream goes on.
const headerLastEvent = "Last-Event-ID"

// subscription is one reader of events over any number of connections.
type subscription struct {
	c    *Client
	path string
	// query narrows what is asked for.
	query url.Values
	// last is the number of the newest event that was passed on; negative: none,
	// begin with a snapshot. seen is set once the server itself gave a number.
	last   int64
	seen   bool
	events int // of this connection

	event func(core.Event) error
	// snapshot takes what the server sends when it cannot go on after last; nil
	// makes a number that the server does not have an error.
	snapshot func(api.Snapshot) error
	// state is called when the stream breaks off (err says why) and is back; may be nil.
	state func(live bool, err error)
	// all is whether the events are those of all runs.
	all bool
	// forever goes on however long the server is away, even from the beginning.
	forever bool
}

// stopped is what a reader's own function returned.
type stopped struct{ err error }

// Error implements error.
func (s *stopped) Error() string { return s.err.Error() }

// errSilent ends a connection on which not even a heartbeat came.
var errSilent = errors.New("the stream fell silent")

// settled is how long a connection that carried no event must have lasted for
// the next one to be tried at once.
const settled = time.Second

// run reads until the context ends, a function fails, or the server is gone for
// good.
func (s *subscription) run(ctx context.Context) error {
	pauses := backoff{rand: s.c.o.Rand}
	since := s.c.o.Clock.Now()
	for first := true; ; first = false {
		begin := s.c.o.Clock.Now()
		s.events = 0
		made, err := s.connection(ctx)
		if stop, ok := errors.AsType[*stopped](err); ok {
			return stop.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if now := s.c.o.Clock.Now(); made {
			since = now
			if now.Sub(begin) >= settled || s.events > 0 {
				pauses.n = 0
			}
		}
		if gone, _ := away(err); !gone {
			return err
		}
		// Who only follows starts no server: a person may have stopped it.
		found := !made && s.c.redial(ctx, first && !s.all, err) == nil
		if !s.forever && (first && !made && !found || s.c.o.Clock.Now().Sub(since) >= s.c.o.Limits.Away) {
			return err
		}
		if s.state != nil {
			s.state(false, err)
		}
		s.c.o.Logger.Debug("the stream of events broke off", "server", s.c.name, "after", s.last, "error", err)
		if err := sleep(ctx, pauses.next()); err != nil {
			return err
		}
	}
}

// connection reads one connection until it breaks, which is an error always.
// made says whether there was one.
func (s *subscription) connection(parent context.Context) (made bool, err error) {
	if err := s.c.check(parent); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	watchdog := time.AfterFunc(s.c.o.Limits.Silent, func() { cancel(errSilent) })
	defer watchdog.Stop()
	req, err := s.c.prepare(ctx, request{method: http.MethodGet, path: s.path, query: s.query})
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.last >= 0 {
		req.Header.Set(headerLastEvent, strconv.FormatInt(s.last, 10))
	}
	resp, err := s.c.http.Do(req)
	if err != nil {
		return false, s.c.transport(parent, ctx, false, err)
	}
	defer resp.Body.Close()
	if err := s.c.streams(resp); err != nil {
		return false, err
	}
	made = true
	if s.state != nil {
		s.state(true, nil)
	}
	heard := &hearing{r: resp.Body, heard: func() { watchdog.Reset(s.c.o.Limits.Silent) }}
	scan := newScanner(heard, s.c.o.Limits.Frame)
	for {
		f, err := scan.next()
		if err != nil {
			if core.CodeOf(err) == core.CodeResultTooLarge {
				return made, err
			}
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return made, core.Errorf(core.CodeServerUnreachable, "the stream of events of %s broke off (%w)", s.c.name, &lost{sent: true, err: err})
		}
		if err := s.take(f); err != nil {
			return made, err
		}
	}
}

// streams checks that an answer is a stream.
func (c *connection) streams(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return nil
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode >= 300 {
		err := c.problem(resp, raw)
		if _, sent := away(err); !sent && passing(resp.StatusCode) {
			return core.Errorf(core.CodeOf(err), "%w", &lost{sent: true, err: err})
		}
		return err
	}
	return core.Errorf(core.CodeServerUnreachable, "what answers at %s sends %s instead of events", c.name, core.Visible(kind, 60, false))
}

// passing reports whether an answer says nothing about the stream itself: all
// places for readers are taken, and one may become free; the server is about to
// stop, or its store does not answer.
func passing(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway:
		return true
	}
	return false
}

// take passes a message on.
func (s *subscription) take(f frame) error {
	if f.event == "snapshot" {
		var snap api.Snapshot
		if err := json.Unmarshal(f.data, &snap); err != nil {
			return s.foreign(f, err)
		}
		return s.begin(snap)
	}
	if len(f.data) == 0 {
		return nil
	}
	var e core.Event
	err := json.Unmarshal(f.data, &e)
	if err == nil && e.Type == core.EventAgentText {
		if err := s.event(e); err != nil { // it has no number
			return &stopped{err}
		}
		return nil
	}
	if err != nil || e.Seq <= 0 {
		return s.foreign(f, err)
	}
	if e.Seq <= s.last {
		if s.seen && e.Seq < s.last {
			return s.backwards(e.Seq)
		}
		return nil
	}
	if err := s.event(e); err != nil {
		return &stopped{err}
	}
	s.last, s.seen = e.Seq, true
	s.events++
	return nil
}

// begin takes the snapshot with which a server begins, or begins anew.
func (s *subscription) begin(snap api.Snapshot) error {
	if s.snapshot == nil {
		if s.seen && snap.Seq < s.last {
			return s.backwards(snap.Seq)
		}
		return nil
	}
	if err := s.snapshot(snap); err != nil {
		return &stopped{err}
	}
	s.last, s.seen = snap.Seq, true
	return nil
}

// backwards is the error of a server whose events have other numbers.
func (s *subscription) backwards(seq int64) error {
	return core.Errorf(core.CodeServerUnreachable, "the events of %s went back from number %d to %d: it keeps its runs in another database than before; start anew, without --since",
		s.c.name, s.last, seq).WithNext("pml", "events", "--follow")
}

func (s *subscription) foreign(f frame, err error) error {
	if err == nil {
		err = errors.New("an event without a number")
	}
	return core.Errorf(core.CodeServerUnreachable, "what %s sends as %q is no event of a pml server (%w)", s.c.name, core.Visible(f.event, 60, false), err)
}

// hearing reports every sign of life on a connection.
type hearing struct {
	r     io.Reader
	heard func()
}

// Read implements io.Reader.
func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.heard()
	}
	return n, err
}
