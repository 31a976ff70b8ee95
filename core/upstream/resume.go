package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

const (
	// resumeDelay is the wait before a stream is resumed whose server names none,
	// resumeDelayMin the shortest whatever the server names.
	resumeDelay    = time.Second
	resumeDelayMin = 100 * time.Millisecond
	resumeDelayMax = 30 * time.Second
	// maxResumeTries bounds how often in a row a server may fail to resume a stream.
	maxResumeTries = 5
	headerLastID   = "Last-Event-ID"
)

// errCut is how a stream ended that should have brought an answer.
var errCut = errors.New("the stream of its answer ended before the answer, without an event id to resume it by")

// cursor is how far a stream of events was read, and what its server says of
// resuming it.
type cursor struct {
	last    string        // the id of the last event that came whole
	retry   time.Duration // negative: the server names none
	idle    int           // streams in a row that brought no event
	started bool          // the stream has brought an event
}

// take notes an event, or what has come of one that is not whole.
func (c *cursor) take(e jsonrpc.Event, whole bool) {
	if e.Retry >= 0 {
		c.retry = e.Retry
	}
	if whole && e.HasID {
		c.last, c.idle, c.started = e.ID, 0, true
	}
}

// cut notes that the stream ended, with an event that is not whole or none.
func (c *cursor) cut() {
	if !c.started {
		c.idle++
	}
	c.started = false
}

// delay is the wait before the stream is resumed: longer where it brings nothing.
func (c *cursor) delay(failures int) time.Duration {
	wait := c.retry
	if wait < 0 {
		wait = resumeDelay
	}
	wait = max(wait, resumeDelayMin)
	return max(wait, min(resumeDelayMax, wait<<min(c.idle+failures, 10)))
}

// reopening returns how the stream that answers a request is resumed: by GET with
// the id of the last event, whatever the request was, which is never made again.
// From 2026-07-28 on streams cannot be resumed: nil.
func (e *endpoint) reopening(req *http.Request, resp *http.Response, a *answer, received func()) func(*cursor) (io.ReadCloser, error) {
	if mcp.IsModernProtocol(req.Header.Get(transport.HeaderKeyProtocolVersion)) {
		return nil
	}
	again := req.Clone(req.Context())
	again.Method, again.Body, again.GetBody, again.ContentLength = http.MethodGet, nil, nil, 0
	again.Header.Del("Content-Type")
	again.Header.Set("Accept", "text/event-stream")
	if session := resp.Header.Get(transport.HeaderKeySessionID); session != "" {
		again.Header.Set(transport.HeaderKeySessionID, session)
	}
	return func(at *cursor) (io.ReadCloser, error) {
		again.Header.Set(headerLastID, at.last)
		resp, err := e.reopen(again, at, a) //nolint:bodyclose // whoever reads the stream closes it
		if err != nil {
			return nil, fmt.Errorf("the stream of its answer ended before the answer, and could not be resumed: %w", err)
		}
		return &boundedBody{ReadCloser: resp.Body, max: e.max, left: e.max, events: true, answer: a, received: received}, nil
	}
}

// reopen resumes a stream, several times where what is in the way may pass.
func (e *endpoint) reopen(req *http.Request, at *cursor, a *answer) (*http.Response, error) {
	for failures := 0; ; failures++ {
		if err := sleep(req.Context(), at.delay(failures)); err != nil {
			return nil, err
		}
		resp, err := e.send(req, a)
		if err == nil && resp.StatusCode == http.StatusOK && isEvents(resp) {
			return resp, nil
		}
		passes := true
		if err == nil {
			discard(resp)
			passes = resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
			err = errors.New("it answers with HTTP " + core.Visible(resp.Status, 60, false))
		}
		if _, ok := errors.AsType[*AuthRequired](err); ok {
			// Its code would say that the request was refused: it was not, only the rest of its answer.
			return nil, errors.New(err.Error())
		}
		if !passes || failures+1 >= maxResumeTries || req.Context().Err() != nil {
			return nil, plain(err)
		}
	}
}

// sleep waits for d, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
