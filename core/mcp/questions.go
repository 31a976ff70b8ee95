package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// abilities are what a client has declared that it can be asked.
type abilities struct {
	form, url bool
	// servers is what upstream servers may ask by: sampling, elicitation and
	// roots as the client has declared them, as far as members are known and in one
	// order, so that there are not many of them; nil for none.
	servers json.RawMessage
}

// abilitiesOf reads the capabilities of a client. What is not understood is not
// declared.
func abilitiesOf(raw json.RawMessage) abilities {
	var all map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil {
		return abilities{}
	}
	var a abilities
	var modes map[string]json.RawMessage
	if json.Unmarshal(all["elicitation"], &modes) == nil && modes != nil {
		_, form := modes["form"]
		_, a.url = modes["url"]
		a.form = form || !a.url // an empty object means forms
	}
	asked := map[string]map[string]any{}
	for name, known := range declarable {
		var declared map[string]json.RawMessage
		if json.Unmarshal(all[name], &declared) != nil || declared == nil {
			continue
		}
		asked[name] = map[string]any{}
		for _, member := range known {
			switch value := declared[member]; {
			case member == "listChanged" && string(value) == "true":
				asked[name][member] = true
			case member != "listChanged" && len(value) > 0 && value[0] == '{':
				asked[name][member] = struct{}{}
			}
		}
	}
	if len(asked) > 0 {
		a.servers, _ = json.Marshal(asked) // names that are known
	}
	return a
}

// declarable are the members that are known of what servers may ask by.
var declarable = map[string][]string{
	"sampling": {"tools", "context"}, "elicitation": {"form", "url"}, "roots": {"listChanged"},
}

// Ways in which a question is not answered.
var (
	errUnasked  = errors.New("there is no way to ask the client: it reads no event stream")
	errGarbled  = errors.New("the client's answer is neither a result nor an error")
	errTooMuch  = errors.New("the client has too many questions to answer")
	errNoAnswer = errors.New("the client did not answer in time")
)

// maxQuestions bounds how many requests of pml a client may have unanswered.
const maxQuestions = 1000

// ask sends a request to the client on the stream of the call that it belongs
// to, or else on the session's own, and waits for the answer. When ctx ends
// first, pml cancels the request to the client. A refusal of the client
// is an *api.PeerError.
func (s *session) ask(ctx context.Context, out *stream, method string, params any) (json.RawMessage, error) {
	if !out.open() {
		if out = s.mainStream(); !out.open() {
			return nil, errUnasked
		}
	}
	id := fmt.Appendf(nil, `"pml-%d"`, s.last.Add(1))
	m, err := s.asked.Do(ctx, id, maxQuestions, nil, func() error {
		err := out.deliver(ctx, jsonrpc.Request{Version: jsonrpc.Version, ID: id, Method: method, Params: params})
		if err != nil {
			return errors.Join(errUnasked, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, jsonrpc.ErrTooMany):
		return nil, errTooMuch
	case err == nil:
		return saidBy(m)
	case ctx.Err() != nil:
		out.notify(string(mcp.MethodNotificationCancelled), map[string]any{"requestId": json.RawMessage(id), "reason": "nobody waits for the answer any more"})
	}
	return nil, err
}

// saidBy is what an answer says.
func saidBy(m jsonrpc.Message) (json.RawMessage, error) {
	if len(m.Failure) == 0 {
		if len(m.Result) == 0 {
			return nil, errGarbled
		}
		return m.Result, nil
	}
	var refusal api.PeerError
	if len(m.Result) > 0 || json.Unmarshal(m.Failure, &refusal) != nil || refusal.Code == 0 {
		return nil, errGarbled
	}
	return nil, &refusal
}
