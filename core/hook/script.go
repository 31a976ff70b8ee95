package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/sandbox"
)

// Limits bound one execution of a script; Options.Sandbox has them.
func Limits() sandbox.Limits {
	return sandbox.Limits{CPU: flow.DefaultTimeout, MemoryBytes: 64 << 20, LogBytes: 64 << 10, SourceBytes: 1 << 20}
}

// PoolOptions are those of the pool that runs the scripts of flows, in children of their
// own: warm of them are started together when the first call may come (0: as many as
// are usual), and those that calls made at once have needed are kept.
func PoolOptions(command []string, warm int) sandbox.Options {
	return sandbox.Options{Command: command, Warm: cmp.Or(warm, 4), Keep: 8, Limits: Limits()}
}

// scripts are compiled scripts by their source.
type scripts struct {
	mu   sync.Mutex
	made map[string]string
}

const keptScripts = 256

// compile compiles a script once for as long as it is kept. It does not hold the lock
// meanwhile: two calls that meet a new script at once compile it twice, which is cheaper
// than to have the others wait. When there are too many, all are dropped: flows change
// seldom, and the next calls compile what is still in use.
func (s *scripts) compile(ctx context.Context, box Sandbox, source string) (string, error) {
	s.mu.Lock()
	script, ok := s.made[source]
	s.mu.Unlock()
	if ok {
		return script, nil
	}
	c, err := box.Compile(ctx, source, "")
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil || len(s.made) >= keptScripts {
		s.made = map[string]string{}
	}
	s.made[source] = c.Script
	return c.Script, nil
}

// scriptContext is all that a script knows.
type scriptContext struct {
	Request    scriptRequest              `json:"request"`
	Response   json.RawMessage            `json:"response,omitempty"`
	Error      *scriptError               `json:"error,omitempty"`
	Metadata   scriptMetadata             `json:"metadata"`
	Variables  map[string]json.RawMessage `json:"variables"`
	Parameters json.RawMessage            `json:"parameters,omitempty"` // of a template node
}

type scriptRequest struct {
	Method string       `json:"method"`
	Params scriptParams `json:"params"`
}

type scriptParams struct {
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type scriptError struct {
	Code    core.Code `json:"code"`
	Message string    `json:"message"`
}

type scriptMetadata struct {
	ClientID   string  `json:"clientId"`
	ServerName string  `json:"serverName"`
	ToolName   string  `json:"toolName"`
	WorkflowID string  `json:"workflowId"`
	NodeID     string  `json:"nodeId"`
	FlowRunID  core.ID `json:"flowRunId"`
}

// names splits what a request is about; the tool is empty for a list.
func names(req flow.Request) (server, tool string) {
	if server, tool, ok := core.SplitTool(req.Tool); ok {
		return server, tool
	}
	return req.Tool, ""
}

// contextOf is the context of a node as JSON. A second half sees either the response or
// the error of the call, never both; a request without arguments has an empty object,
// so that scripts can read members of it.
func contextOf(in flow.Input) (json.RawMessage, error) {
	server, tool := names(in.Request)
	c := scriptContext{
		Request: scriptRequest{Method: flow.CallTool, Params: scriptParams{tool, in.Request.Args}},
		Metadata: scriptMetadata{
			ClientID: in.Request.Client, ServerName: server, ToolName: tool, WorkflowID: in.Flow.ID, NodeID: in.Node.ID, FlowRunID: in.Run,
		},
		Variables: in.Variables, Parameters: in.Node.Parameters,
	}
	switch {
	case in.Flow.Type == flow.ListTools:
		c.Request = scriptRequest{Method: flow.ListTools}
	case len(in.Request.Args) == 0:
		c.Request.Params.Arguments = json.RawMessage("{}")
	}
	if in.Answer != nil {
		if c.Response = in.Answer.Result; in.Answer.Err != nil {
			c.Error, c.Response = &scriptError{in.Answer.Err.Code, in.Answer.Err.Message}, nil
		}
	}
	return json.Marshal(c)
}

// eval runs a script, or an expression, over the context of a node. The context is
// frozen: a script changes a call by what it returns, which the record of the flow run
// has, and in no other way. Time and the seed of random numbers are given, so the same
// node of the same flow run does the same when it runs again. The first script of a
// process has the sandbox make its children (Warm).
func (e *execution) eval(ctx context.Context, in flow.Input, source string, expression bool) (sandbox.Evaluated, error) {
	about, err := contextOf(in)
	if err != nil {
		return sandbox.Evaluated{}, core.Errorf(core.CodeHookFailed, "what it is to look at is no JSON: %w", err)
	}
	r := sandbox.EvalRequest{
		Globals: map[string]json.RawMessage{"context": about}, Frozen: true,
		Now: e.r.o.Clock.Now(), Seed: string(in.Run) + in.Node.ID, CPU: in.Node.Timeout(),
	}
	e.r.warm.Do(e.r.o.Sandbox.Warm)
	if expression {
		r.Source, r.Expression = source, true
	} else if r.Script, err = e.r.scripts.compile(ctx, e.r.o.Sandbox, source); err != nil {
		return sandbox.Evaluated{}, err
	}
	return e.r.o.Sandbox.Eval(ctx, r)
}

// hook runs the script of a hook, or of a template node. Variables are optimistic: the
// script computes new ones from those that it was given, and they are kept only if
// nobody has written in between; otherwise it runs again over the newer ones, a few
// times at most, and then fails. Its effects are carried out once the variables are
// kept, so that a script that runs again has no effect twice. No script at all is a
// hook that lets everything pass.
func (e *execution) hook(ctx context.Context, in flow.Input) (out flow.Output, err error) {
	if strings.TrimSpace(in.Node.Script) == "" {
		return out, nil
	}
	for range tries {
		var done sandbox.Evaluated
		done, err = e.eval(ctx, in, in.Node.Script, false)
		console := linesOf(done.Logs)
		if err != nil {
			return flow.Output{Console: console}, err
		}
		gave, err := readOutput(in, done.Value)
		if err != nil {
			return flow.Output{Console: console}, err
		}
		out = gave.Output
		out.Console = console
		fresh, err := e.keep(ctx, in, out.Variables, true)
		if err != nil {
			return out, err
		}
		if fresh == nil {
			return e.effects(ctx, in, out, gave.effects)
		}
		in.Variables = fresh
	}
	return out, faster(in)
}

// output is what a script gave.
type output struct {
	flow.Output
	effects []effect
}

// readOutput reads what a script returned. What has no meaning is an error: a hook
// that is not understood has not let anything pass.
// Members are read in the order of their names, so that of two faults the same one is
// reported each time.
func readOutput(in flow.Input, value json.RawMessage) (out output, err error) {
	if bytes.Equal(bytes.TrimSpace(value), core.Null) {
		return out, nil
	}
	nonsense := func(format string, args ...any) (output, error) {
		return output{}, core.Errorf(core.CodeHookFailed, "its script returned what pml does not understand: "+format, args...)
	}
	members := map[string]json.RawMessage{}
	if core.CheckKeys("what it returned", value) != nil || json.Unmarshal(value, &members) != nil {
		return nonsense("it must return nothing, or an object with params, response, block, variables or effects")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		raw := members[name]
		switch name {
		case "params":
			if out.Args, err = readParams(in, raw); err != nil {
				return nonsense("%w", err)
			}
		case "response":
			if out.Response, err = readResponse(in, raw); err != nil {
				return nonsense("%w", err)
			}
		case "block":
			out.Block = &flow.Block{}
			if err := strict(raw, out.Block); err != nil {
				return nonsense("block must be {code, message}, both texts: %w", err)
			}
		case "variables":
			if len(raw) > maxVariables || json.Unmarshal(raw, &out.Variables) != nil || out.Variables == nil {
				return nonsense("variables must be an object of at most %d bytes", maxVariables)
			}
		case "effects":
			if err := strict(raw, &out.effects); err != nil || len(out.effects) > maxEffects {
				return nonsense("effects must be a list of at most %d {tool, arguments}", maxEffects)
			}
		default:
			return nonsense("it has the member %s; members are params, response, block, variables and effects", core.Visible(name, 60, false))
		}
	}
	return out, nil
}

const (
	maxVariables = 64 << 10 // bytes
	maxEffects   = 20
)

// readParams reads changed parameters, which have the shape of request.params.
func readParams(in flow.Input, raw json.RawMessage) (json.RawMessage, error) {
	if in.Flow.Type == flow.ListTools {
		return nil, core.Errorf(core.CodeHookFailed, "a request for a list has no parameters to change")
	}
	var p struct {
		Name      *string         `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if strict(raw, &p) != nil || len(p.Arguments) == 0 {
		return nil, core.Errorf(core.CodeHookFailed, "params must be {arguments: {…}}, as in context.request.params")
	}
	if _, tool := names(in.Request); p.Name != nil && *p.Name != tool {
		return nil, core.Errorf(core.CodeHookFailed, "params.name is %s: a hook cannot have another tool called than %s", core.Visible(*p.Name, 120, false), core.Visible(tool, 120, false))
	}
	return p.Arguments, nil
}

// strict decodes JSON whose members are all known, and by their exact names.
func strict(raw json.RawMessage, to any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if bytes.Equal(bytes.TrimSpace(raw), core.Null) {
		return core.Errorf(core.CodeHookFailed, "it is null")
	}
	return dec.Decode(to)
}

// condition evaluates the JavaScript of a condition, which must give true or false.
func (e *execution) condition(ctx context.Context, in flow.Input) (flow.Output, error) {
	done, err := e.eval(ctx, in, in.Node.Data.Condition.Expression, true)
	out := flow.Output{Console: linesOf(done.Logs)}
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(done.Value, &out.Branch); err != nil || bytes.Equal(done.Value, core.Null) {
		return out, core.Errorf(core.CodeHookFailed, "its expression must give true or false")
	}
	return out, nil
}

// linesOf are console lines as they are kept: of other levels than log with the level.
func linesOf(logs []sandbox.Log) (out []string) {
	for _, l := range logs {
		text := l.Text
		if l.Level != "log" {
			text = l.Level + ": " + text
		}
		out = append(out, text)
	}
	return out
}

// The bounds of the console lines that are kept of one execution.
const (
	maxLines     = 50
	maxLineBytes = 500
)

// lines are console lines that are fit to be kept.
func (e *execution) lines(lines []string) (out []string) {
	for i, line := range lines {
		if i == maxLines {
			return append(out, "… and more lines, which are not kept")
		}
		out = append(out, core.Visible(e.secrets(line), maxLineBytes, false))
	}
	return out
}
