package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Tools lists the tools that the server has; problems names the MCP servers
// that do not answer, and why.
func (c *Client) Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error) {
	var p api.ToolList
	err = c.ask(ctx, request{method: http.MethodGet, path: "/tools"}, &p)
	return p.Items, p.Problems, err
}

// Servers are the MCP servers of the workspace as the server of this machine runs them.
func (c *Client) Servers(ctx context.Context) ([]api.ServerInfo, error) {
	var out servers
	err := c.ask(ctx, request{method: http.MethodGet, path: "/servers"}, &out)
	return out.Items, err
}

// RestartServer has the server of this machine end the process of an MCP server and start it
// anew.
func (c *Client) RestartServer(ctx context.Context, name string) ([]api.ServerInfo, error) {
	var out servers
	err := c.ask(ctx, request{method: http.MethodPost, path: "/servers/" + url.PathEscape(name) + "/restart", body: struct{}{}}, &out)
	return out.Items, err
}

type servers struct {
	Items []api.ServerInfo `json:"items"`
}

// CallTool makes one call as a run of its own, through all gates of the server.
func (c *Client) CallTool(ctx context.Context, tool string, args json.RawMessage, by core.Actor, wait time.Duration) (api.Result, error) {
	id, req := oneCall(tool, args)
	req.By, req.Wait = by, wait
	r, err := c.Execute(ctx, req)
	if err != nil || r.Status != api.StatusSuccess {
		return r, err
	}
	r.Result, err = outputOf(r.Result, id)
	return r, err
}

// oneCall is a DAG of a single task, and the id of that.
func oneCall(tool string, args json.RawMessage) (id string, req api.ExecuteRequest) {
	// No text of the arguments may look like a reference to the task.
	id = "call"
	for strings.Contains(string(args), id) {
		id += "_"
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return id, api.ExecuteRequest{
		Tasks: []core.TaskSpec{{ID: id, Tool: tool, Arguments: args}},
	}
}

func outputOf(result json.RawMessage, id string) (json.RawMessage, error) {
	var out map[string]json.RawMessage
	if err := json.Unmarshal(result, &out); err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot read the result of the call: %w", err)
	}
	return out[id], nil
}

// CallToolOnce makes a call that a run on this machine needs, as a run of the
// server's own, at most once for a key; parent is the run here. It waits until
// that run ends, as long as the context lasts: through approvals, which are
// decided on the server, and through restarts of the server. A call that fails
// there fails here with the same code.
func (c *Client) CallToolOnce(ctx context.Context, tool string, args json.RawMessage, key string, parent core.ID) (json.RawMessage, error) {
	id, req := oneCall(tool, args)
	if parent != "" {
		req.Name = core.CallName(tool, args) + " for the run " + parent.Short()
	}
	req.IdempotencyKey, req.Wait, req.HoldApprovals = key, -1, true
	w := c.waiting(-1, true)
	w.away = -1
	r, err := c.execute(ctx, req, w, true)
	for err == nil && r.Status == api.StatusError && r.ErrorCode == core.CodeApprovalExpired && r.WorkflowID != "" {
		// Nobody decided. Whoever asks again on the server wakes this call.
		if err = c.moved(ctx, r.WorkflowID); err == nil {
			r, err = w.follow(ctx, r.WorkflowID, api.Result{Status: api.StatusRunning, WorkflowID: r.WorkflowID})
		}
	}
	if err != nil {
		return nil, err
	}
	switch r.Status {
	case api.StatusSuccess, api.StatusComplete:
		return outputOf(r.Result, id)
	case api.StatusAborted:
		return nil, core.Errorf(core.CodeAborted, "the call of %s was aborted on the server: %s", tool, r.Reason)
	case api.StatusExecuteLocally:
		return nil, c.givenBack(ctx, tool, r.WorkflowID)
	default:
		return nil, callError(tool, r)
	}
}

// givenBack is the error of a call that this machine's routing gives to the
// server and the server's to this machine. The run that the server keeps of it
// is ended: nobody will report it.
func (c *Client) givenBack(ctx context.Context, tool string, id core.ID) error {
	if _, err := c.Abort(ctx, id, core.Actor{}, "the routing of its client gives it to the server"); err != nil {
		c.o.Logger.Warn("a call that was given back could not be ended on the server", "run", id, "error", err)
	}
	return core.Errorf(core.CodeInvalidConfig, "the routing here gives %s to the server at %s, and the routing there gives it to its callers; change one of them", tool, c.name)
}

// callError is the error of the only task of a run.
func callError(tool string, r api.Result) *core.Error {
	if len(r.Failures) == 1 && r.Failures[0].Code != "" {
		e := core.Errorf(r.Failures[0].Code, "%s", r.Failures[0].Error)
		e.Retryable = r.Failures[0].Retryable
		return e
	}
	if r.ErrorCode != "" {
		e := core.Errorf(r.ErrorCode, "%s", r.Error)
		e.Retryable = r.Retryable
		return e
	}
	return core.Errorf(core.CodeToolFailed, "the call of %s ended %s on the server", tool, r.Status)
}
