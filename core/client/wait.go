package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// firstBackoff and maxBackoff bound the pauses between attempts.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// backoff counts attempts. The first comes at once, the pauses before the next
// ones double, and are spread so that readers of one server do not all come
// back in the same instant.
type backoff struct {
	n    int
	rand func() float64
}

func (b *backoff) next() time.Duration {
	n := b.n
	b.n++
	if n == 0 {
		return 0
	}
	d := min(maxBackoff, firstBackoff<<min(n-1, 10))
	return time.Duration(float64(d) * (0.5 + b.rand()/2))
}

// persist repeats a request that may be sent twice for as long as the server is
// away, but not longer than limit since it was last there. With patient it does
// so even when the server was not there to begin with.
func (c *connection) persist(ctx context.Context, limit time.Duration, patient bool, do func() error) error {
	pauses := backoff{rand: c.o.Rand}
	begin := c.o.Clock.Now()
	for {
		err := do()
		gone, sent := away(err)
		if !gone || !sent && pauses.n == 0 && !patient {
			return err
		}
		if limit >= 0 && c.o.Clock.Now().Sub(begin) >= limit {
			return err
		}
		c.o.Logger.Debug("the server is away", "server", c.name, "error", err)
		if pauses.n > 0 {
			c.tell("the pml server at " + c.name + " is away; waiting for it")
		}
		if serr := sleep(ctx, pauses.next()); serr != nil {
			return core.Errorf(core.CodeCancelled, "stopped waiting for %s: %w", c.name, context.Cause(ctx))
		}
	}
}

// waiting is how a caller waits for a run: until a time, or without end.
type waiting struct {
	c       *Client
	endless bool
	until   time.Time
	hold    bool
	away    time.Duration // how long the server may be gone
}

func (c *Client) waiting(limit time.Duration, hold bool) waiting {
	return waiting{c: c, endless: limit < 0, until: c.o.Clock.Now().Add(limit), hold: hold, away: c.o.Limits.Away}
}

// chunk is the next wait to ask of the server; 0 when the caller waits no more.
func (w waiting) chunk() time.Duration {
	if w.endless {
		return w.c.o.Limits.Chunk
	}
	return max(0, min(w.until.Sub(w.c.o.Clock.Now()), w.c.o.Limits.Chunk))
}

// follow waits for a run in pieces, as long as the caller does. A server that
// goes away or stops in between is waited for: the next one takes the run up.
func (w waiting) follow(ctx context.Context, id core.ID, r api.Result) (api.Result, error) {
	pauses := backoff{rand: w.c.o.Rand}
	for r.Status == api.StatusRunning {
		chunk := w.chunk()
		if chunk <= 0 {
			return r, nil
		}
		asked := w.c.o.Clock.Now()
		next, err := w.ask(ctx, id, chunk)
		early := w.c.o.Clock.Now().Sub(asked) < chunk/2
		switch {
		case err == nil && next.Status != api.StatusRunning:
			return next, nil
		case err != nil && (!busy(err) || ctx.Err() != nil):
			return api.Result{WorkflowID: id, Status: api.StatusRunning}, ofRun(err, id)
		case !early:
			pauses.n = 0
			continue
		}
		// It would not wait: it is about to stop, or too many wait already.
		if err := sleep(ctx, pauses.next()); err != nil {
			return r, core.Errorf(core.CodeCancelled, "stopped waiting for the run %s: %w", id.Short(), context.Cause(ctx)).WithRun(id)
		}
	}
	return r, nil
}

// busy reports whether an error says no more than that the server does not
// wait now. The run goes on, and so does the wait for it.
func busy(err error) bool {
	code := core.CodeOf(err)
	return code == core.CodeCancelled || code == core.CodeRateLimited
}

// ofRun is an error that names the run that was waited for.
func ofRun(err error, id core.ID) error {
	e := core.AsError(err)
	if e.RunID != "" {
		return e
	}
	return e.WithRun(id)
}

// ask is one piece of a wait. It passes no pause that the run has come to, so it may
// be sent again.
func (w waiting) ask(ctx context.Context, id core.ID, chunk time.Duration) (r api.Result, err error) {
	err = w.c.persist(ctx, w.away, true, func() error {
		return w.c.ask(ctx, request{
			method: http.MethodPost, path: runPath(id, "continue"), query: followOnly, wait: chunk,
			body: api.ContinueBody{Wait: millis(chunk), HoldApprovals: w.hold},
		}, &r)
	})
	return r, err
}

// runPath is the path of a run, or of a part of it.
func runPath(id core.ID, parts ...string) string {
	p := "/workflows/" + url.PathEscape(string(id))
	for _, s := range parts {
		p += "/" + url.PathEscape(s)
	}
	return p
}

// millis is a time in the unit of the wire; a part of a millisecond counts.
func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
