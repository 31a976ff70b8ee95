package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// call is one request on its way through the protocol.
type call struct {
	name    string          // of the tool
	method  string          // of a request that is passed on, with its params
	passed  json.RawMessage // as the server gets them, without _meta
	args    json.RawMessage // as the client sent them: numbers keep their digits
	token   json.RawMessage // for progress; empty: none is wanted
	out     *stream
	session *session
	backend Backend
	by      core.Actor
	agent   core.Client
	modern  bool      // of a revision without requests from the server
	can     abilities // of the client, as of this request
	level   int       // of the log that is wanted, as in levels; 0: none

	// state and responses are what a client of a modern revision sends when it
	// was asked for input.
	state     json.RawMessage
	responses map[string]json.RawMessage

	// result is set once mcp-go has let a call of one of pml's own tools through:
	// where the tool's result goes.
	result *mcp.CallToolResult

	// refusal is set when the answer must be this error of the protocol: mcp-go
	// has one code for whatever a handler returns. input is set when the answer
	// is what the client is asked for.
	refusal *jsonrpc.Error
	input   *inputRequired
}

// newCall is a call of a message of a session.
func (e *Edge) newCall(s *session, m *message, out *stream) *call {
	c := &call{
		name: string(m.Params.Name), args: m.Params.Arguments, token: jsonrpc.PlainID(m.Params.Meta.Token), out: out, session: s,
		modern: m.modern(), state: m.Params.State, level: levels[m.Params.Meta.Level],
	}
	if len(m.Params.Responses) > 0 {
		_ = json.Unmarshal(m.Params.Responses, &c.responses) // what is no object answers nothing
	}
	if c.modern {
		c.can, c.agent = abilitiesOf(m.Params.Meta.Capabilities), m.Params.Meta.Client
		s.introduce(c.agent)
	} else {
		c.can, c.level, c.agent = s.abilities(), s.level(), clientOf(s.GetClientInfo())
	}
	return c
}

// digest stands for the tool and its arguments, or for another request that is
// passed on.
func (c *call) digest() string {
	if c.passed != nil {
		return callDigest(c.method, c.passed)
	}
	if len(c.args) == 0 {
		return callDigest(c.name, json.RawMessage("{}"))
	}
	return callDigest(c.name, c.args)
}

// unadmitted is the refusal of what a client sent back to be taken up, which is
// put on record.
func (e *Edge) unadmitted(ctx context.Context, c *call, err error) error {
	ce := core.AsError(err)
	e.o.Log.Warn("a requestState was refused", "tool", core.Visible(c.name, 120, false), "run", ce.RunID, "why", err)
	if audits, ok := c.backend.(api.Refusals); ok {
		if err := audits.Refused(context.WithoutCancel(ctx), ce.RunID, c.by, "requestState: "+ce.Message); err != nil {
			e.o.Log.Error("a refused requestState is not in the audit log", "run", ce.RunID, "why", err)
		}
	}
	data := map[string]any{"error_code": ce.Code}
	if ce.RunID != "" {
		data["workflow_id"] = ce.RunID
	}
	return c.refuse(mcp.INVALID_PARAMS, err, data)
}

func (c *call) refuse(code int, err error, data any) error {
	c.refusal = (&jsonrpc.Error{Code: code, Message: core.Visible(err.Error(), 4000, true)}).With(data)
	return err
}

type callKey struct{}

// badArguments are arguments that the published schema does not allow. The
// client gets them as an error of the protocol: it has sent what it must not.
type badArguments struct {
	tool   string
	faults []core.Fault
}

// Error names every place.
func (b *badArguments) Error() string {
	said := make([]string, len(b.faults))
	for i, f := range b.faults {
		if f.Path == "" {
			f.Path = "(root)"
		}
		said[i] = f.String()
	}
	return "invalid arguments of " + b.tool + ": " + strings.Join(said, "; ")
}

func (c *call) invalid(bad *badArguments) error {
	return c.refuse(mcp.INVALID_PARAMS, bad, map[string]any{"faults": bad.faults})
}

// refuse says that arguments are wrong in one place.
func refuse(tool, path, message string) error {
	return &badArguments{tool: tool, faults: []core.Fault{{Path: path, Message: message}}}
}

// admit is the handler of every tool: it gives mcp-go a result that is filled in
// once mcp-go has returned. What mcp-go has on its stack and has read would stay
// for as long as the call waits, and a thousand may wait for people.
func (e *Edge) admit(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, core.Errorf(core.CodeInternal, "core/mcp: a tool was called outside of a request")
	}
	c.result = &mcp.CallToolResult{}
	return c.result, nil
}

// called is the answer of a call that was admitted, once its tool has run: the
// one that mcp-go has made, if there is nothing else to say.
func (e *Edge) called(ctx context.Context, c *call, id json.RawMessage, answer *jsonrpc.Response) *jsonrpc.Response {
	result, err := e.serve(ctx, c)
	if err != nil {
		return jsonrpc.Refuse(id, mcp.INTERNAL_ERROR, core.Visible(err.Error(), maxSaid, false))
	}
	c.result.Content, c.result.StructuredContent, c.result.IsError = result.Content, result.StructuredContent, result.IsError
	return answer
}

// serve checks the arguments, runs the tool and puts what comes out into the form
// of MCP.
func (e *Edge) serve(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
	t := e.tools[c.name]
	if len(c.args) == 0 || bytes.Equal(c.args, core.Null) {
		c.args = json.RawMessage("{}")
	}
	if err := core.CheckKeys("the argument", c.args); err != nil {
		return nil, c.invalid(&badArguments{tool: t.Name, faults: []core.Fault{{Message: err.Error()}}})
	}
	if faults := e.o.Validate(t.Input, c.args); len(faults) > 0 {
		return nil, c.invalid(&badArguments{tool: t.Name, faults: pointing(c, faults)})
	}
	var err error
	if err = e.admitCaller(ctx, c); err != nil {
		return failed(err)
	}
	value, err := e.run(ctx, c, t.run)
	return told(c, value, err)
}

// pointing is what is wrong with arguments. Of a decision that came by continue it names
// the tool that does.
func pointing(c *call, faults []core.Fault) []core.Fault {
	var in map[string]json.RawMessage
	if c.name != "continue" || json.Unmarshal(c.args, &in) != nil || in["approved"] == nil {
		return faults
	}
	return []core.Fault{{Path: "/approved", Message: "continue decides nothing; to decide, call approval_response with workflow_id, checkpoint_id and approved"}}
}

// told is what came of a tool in the form of MCP.
func told(c *call, value any, err error) (*mcp.CallToolResult, error) {
	var bad *badArguments
	input, asks := value.(inputRequired)
	switch {
	case c.refusal != nil:
		return nil, err
	case errors.As(err, &bad):
		return nil, c.invalid(bad)
	case err != nil:
		return failed(err)
	case asks:
		c.input = &input
		return &mcp.CallToolResult{}, nil
	}
	return shown(value)
}

// run does what a call of one of pml's own tools is for. One that brings what
// pml has given out takes up what it left, and begins nothing.
func (e *Edge) run(ctx context.Context, c *call, tool handler) (any, error) {
	switch {
	case len(c.state) > 0 && c.modern:
		return e.resume(ctx, c)
	case len(c.responses) > 0 && c.modern:
		return nil, e.unadmitted(ctx, c, core.Errorf(core.CodePermissionDenied, "inputResponses came without the requestState that they answer; nothing was done"))
	}
	return tool(ctx, e, c)
}

// inputKey names the one thing that pml asks a client for at a time, and what a
// server asks that has given it no key.
const inputKey = "question"

// inputRequired is the result of a call that needs an answer first.
type inputRequired struct {
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
	// all are, in its place, the questions of a server under its own keys.
	all   map[string]api.Question
	state string
}

// answer is the result as it is sent.
func (i inputRequired) answer(id json.RawMessage, server any) *jsonrpc.Response {
	requests := any(i.all)
	if i.all == nil {
		requests = map[string]any{inputKey: i}
	}
	raw, err := encoded(map[string]any{
		"resultType": mcp.ResultTypeInputRequired, "inputRequests": requests, "requestState": i.state,
		"_meta": map[string]any{mcp.MetaKeyServerInfo: server},
	})
	if err != nil {
		return jsonrpc.Refuse(id, mcp.INTERNAL_ERROR, err.Error())
	}
	return &jsonrpc.Response{ID: id, Result: json.RawMessage(raw)}
}

// failed is the result of a call that failed.
func failed(err error) (*mcp.CallToolResult, error) {
	ce := core.AsError(err)
	if ce.Code == core.CodeInternal && errors.Is(err, context.Canceled) {
		ce = core.Errorf(core.CodeCancelled, "the call has stopped waiting; a run that it started goes on, workflow_status finds it: %w", err)
	}
	r := api.Result{
		Status: api.StatusError, WorkflowID: ce.RunID, Error: ce.Message, ErrorCode: ce.Code, Location: ce.Location,
		Failures: ce.Failures, Faults: ce.Faults, Warnings: ce.Warnings, Next: ce.Next, Decided: ce.Decided, Stack: ce.Stack, Retryable: ce.Retryable,
	}
	if ce.Code == core.CodeAwaitingHuman {
		// The run is well, and the agent has done nothing wrong: it must tell a person.
		r.Status = api.StatusAwaitingHuman
	}
	return shown(r)
}

// shown is a value as text and as structure, the same in both. A result whose
// status is error is marked as failed.
func shown(value any) (*mcp.CallToolResult, error) {
	if r, ok := value.(api.Result); ok {
		value = forAgent(r)
	}
	raw, err := encoded(value)
	if err != nil {
		return nil, err
	}
	r, isResult := value.(api.Result)
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.NewTextContent(string(raw))},
		StructuredContent: json.RawMessage(raw),
		IsError:           isResult && r.Status == api.StatusError,
	}, nil
}

// forAgent is a result as an agent can use it: what to do next are tools, not
// commands of a shell.
func forAgent(r api.Result) api.Result {
	r.Next = nil
	if r.Status == api.StatusHalted {
		r.Options = []string{"continue", "abort"}
		r.Decide = "Tell the user that all calls are halted, by whom and why: only a person lets them go on, at a terminal with pml resume, no agent. Then call continue; never execute again."
	}
	if r.Status != api.StatusApprovalRequired {
		return r
	}
	r.Options = []string{"approval_response", "continue", "abort"}
	a, _ := asked(r)
	answer := fmt.Sprintf(`approval_response {"workflow_id":%q,"checkpoint_id":%q,"approved":`, r.WorkflowID, r.CheckpointID)
	where := "in pml tui, or at a terminal with pml continue " + r.WorkflowID.Short()
	switch why := a.NotForAgents(); {
	case r.CheckpointID == "":
		r.Decide = "A person decides " + where + "; then call continue."
	case a.Human:
		r.Options = []string{"continue", "abort"}
		r.Decide = "Tell the user what waits: a person decides it " + where + ", and no agent (approvals.decider is human). Then call continue; never execute again."
	case a.ID != "" && why != "":
		r.Decide = "Tell the user what waits: a person decides it " + where + ", as an agent does not approve " + why + ". " + answer + "false} denies it. Then call continue; never execute again."
	default:
		r.Decide = "Ask the user, and pass the answer on: " + answer + "true or false}. Where that answers awaiting_human, a person decides " + where + "; then call continue. Never execute again."
	}
	return r
}

// encoded is a value as JSON that is easy to read for who is not a browser.
func encoded(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode a result: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
