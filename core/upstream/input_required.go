package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

const (
	// maxRounds bounds how often one request asks its client for input.
	maxRounds = 10
	// maxEmptyRounds bounds how often in a row it asks for nothing but another try.
	maxEmptyRounds = 3
)

// inputError says why a server did not get the input that it asked for. The
// connection is well.
type inputError struct{ err error }

// Error implements error.
func (e *inputError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *inputError) Unwrap() error { return e.err }

// exchange sends a request. Where the server answers that it needs input, the
// client is asked and the request is sent again with what it said, so that it
// looks like a server that asks while it works.
func (c *conn) exchange(ctx context.Context, req request, a *answer) (*jsonrpc.Message, error) {
	if c.noHandshake && req.Method == string(mcp.MethodInitialize) {
		return nil, cmp.Or(c.undiscovered, errNoHandshake)
	}
	params, err := c.declare(req)
	if err != nil {
		return nil, err
	}
	req.Params = params
	m, err := c.wire.trip(ctx, req, a)
	if req.Method == string(mcp.MethodServerDiscover) {
		if err == nil && !m.Failed() {
			err = undiscovered(m.Result)
		}
		c.undiscovered = whyNot(m, err)
	}
	req.before = nil // the call has begun: its further rounds are sent as they come
	for round, empty := 1, 0; err == nil && !m.Failed() && wantsInput(m.Result); round++ {
		var wanted struct {
			Requests map[string]Question `json:"inputRequests"`
			State    json.RawMessage     `json:"requestState"`
		}
		if err := json.Unmarshal(m.Result, &wanted); err != nil {
			return nil, &inputError{fmt.Errorf("it asks for input in a form that is not MCP: %w", err)}
		}
		if c.own == nil && len(wanted.Requests) > 0 {
			break // nobody can be asked
		}
		if empty++; len(wanted.Requests) > 0 {
			empty = 0
		}
		if round > maxRounds || empty >= maxEmptyRounds {
			return nil, &inputError{fmt.Errorf("it asked for input %d times and still is not satisfied", round)}
		}
		answers, err := c.answers(ctx, wanted.Requests)
		if err != nil {
			return nil, err
		}
		if req, err = c.retry(req, answers, wanted.State); err != nil {
			return nil, err
		}
		if m, err = c.wire.trip(ctx, req, a); err != nil {
			a.unsent = false // the server has had it before
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if req.starts() {
		c.greeting = m.Result
	}
	return m, nil
}

// answers asks the client all that a server wants to know, at once.
func (c *conn) answers(ctx context.Context, wanted map[string]Question) (map[string]json.RawMessage, error) {
	for _, r := range wanted {
		if !c.asks(r.Method) {
			return nil, &inputError{fmt.Errorf("it asks for %q, which its client has not declared", r.Method)}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if c.own != nil && c.own.AskAll != nil && len(wanted) > 0 {
		return c.askAll(ctx, wanted)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	answers := make(map[string]json.RawMessage, len(wanted))
	take := func(id string, result json.RawMessage, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && failed == nil {
			failed = &inputError{err}
			cancel()
		}
		answers[id] = result
	}
	for id, r := range wanted {
		wg.Go(func() {
			defer core.Recover(c.log, "a client was asked", func(err *core.Error) { take(id, nil, err) }, "server", c.name)
			result, err := c.ask(ctx, r.Method, r.Params)
			take(id, result, err)
		})
	}
	wg.Wait()
	return answers, failed
}

// askAll asks the client all of a round at once.
func (c *conn) askAll(ctx context.Context, wanted map[string]Question) (answers map[string]json.RawMessage, err error) {
	defer c.waiting(ctx)()
	defer core.Recover(c.log, "a client was asked", func(e *core.Error) { answers, err = nil, &inputError{e} }, "server", c.name)
	if answers, err = c.own.AskAll(ctx, wanted); err != nil {
		return nil, &inputError{err}
	}
	return answers, nil
}

// retry is a request with the input that it lacked.
func (c *conn) retry(req request, answers map[string]json.RawMessage, state json.RawMessage) (request, error) {
	fields, err := fieldsOf(req.Params)
	if err != nil {
		return req, err
	}
	delete(fields, "requestState")
	delete(fields, "inputResponses")
	if len(answers) > 0 {
		if fields["inputResponses"], err = json.Marshal(answers); err != nil {
			return req, &inputError{err}
		}
	}
	if state != nil {
		fields["requestState"] = state
	}
	req.ID, req.Params = c.nextID(), fields
	return req, nil
}

// fieldsOf are the members of the params of a request, to be changed.
func fieldsOf(params any) (map[string]json.RawMessage, error) {
	if fields, ok := params.(map[string]json.RawMessage); ok {
		return maps.Clone(fields), nil
	}
	fields := map[string]json.RawMessage{}
	if params == nil {
		return fields, nil
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, errors.Join(errNoObject, err)
	}
	return fields, nil
}

var errNoObject = errors.New("the params of a request are no object")

// declare puts the capabilities of the client into a handshake as it declared
// them: the library has types of its own for them.
func (c *conn) declare(req request) (any, error) {
	if req.Method != string(mcp.MethodInitialize) || c.own == nil {
		return req.Params, nil
	}
	fields, err := fieldsOf(req.Params)
	if err == nil {
		fields["capabilities"], err = json.Marshal(c.declared)
	}
	return fields, err
}
