package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

const (
	// maxRounds bounds how often one request asks its client for input.
	maxRounds = 10
	// maxEmptyRounds bounds how often in a row it asks for nothing but another try.
	maxEmptyRounds = 3
	// firstOwnID is where the ids of requests begin that the library does not
	// count. Servers that keep ids in 32 bits can have them too.
	firstOwnID = 1 << 30
)

// inputError says why a server did not get the input that it asked for. The
// connection is well.
type inputError struct{ err error }

// Error implements error.
func (e *inputError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *inputError) Unwrap() error { return e.err }

// roundTrip sends one request and returns its response.
type roundTrip func(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, error)

// exchange sends a request. Where the server answers that it needs input, the
// client is asked and the request is sent again with what it said, so that it
// looks like a server that asks while it works.
func (c *conn) exchange(ctx context.Context, req transport.JSONRPCRequest, send roundTrip) (*transport.JSONRPCResponse, error) {
	params, err := c.declare(req)
	if err != nil {
		return nil, err
	}
	req.Params = params
	resp, err := send(ctx, req)
	for round, empty := 1, 0; err == nil && resp.Error == nil && wantsInput(resp.Result); round++ {
		var wanted struct {
			Requests map[string]inputRequest `json:"inputRequests"`
			State    json.RawMessage         `json:"requestState"`
		}
		if err := json.Unmarshal(resp.Result, &wanted); err != nil {
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
		if resp, err = send(ctx, req); err != nil {
			if a := answerOf(ctx); a != nil {
				a.unsent = false // the server has had it before
			}
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if req.Method == string(mcp.MethodInitialize) || req.Method == string(mcp.MethodServerDiscover) {
		c.greeting = resp.Result
	}
	return keep(ctx, req, resp), nil
}

type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// answers asks the client all that a server wants to know, at once.
func (c *conn) answers(ctx context.Context, wanted map[string]inputRequest) (map[string]json.RawMessage, error) {
	for _, r := range wanted {
		if !c.asks(r.Method) {
			return nil, &inputError{fmt.Errorf("it asks for %q, which its client has not declared", r.Method)}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
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

// retry is a request with the input that it lacked.
func (c *conn) retry(req transport.JSONRPCRequest, answers map[string]json.RawMessage, state json.RawMessage) (transport.JSONRPCRequest, error) {
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

func (c *conn) nextID() mcp.RequestId { return mcp.NewRequestId(firstOwnID + c.ids.Add(1)) }

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

// declare puts the capabilities of the client into a request that tells them,
// as it declared them: the library has types of its own for them.
func (c *conn) declare(req transport.JSONRPCRequest) (any, error) {
	if _, complete := req.Params.(json.RawMessage); complete || c.own == nil {
		return req.Params, nil
	}
	starts := req.Method == string(mcp.MethodInitialize)
	modern, _ := req.Params.(map[string]json.RawMessage)
	if !starts && !bytes.Contains(modern["_meta"], []byte(mcp.MetaKeyClientCapabilities)) {
		return req.Params, nil
	}
	declared, err := json.Marshal(c.declared)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(req.Params)
	if err != nil {
		return nil, err
	}
	if starts {
		fields["capabilities"] = declared
		return fields, nil
	}
	meta := map[string]json.RawMessage{}
	if err := json.Unmarshal(fields["_meta"], &meta); err != nil {
		return nil, err
	}
	meta[mcp.MetaKeyClientCapabilities] = declared
	if fields["_meta"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return fields, nil
}
