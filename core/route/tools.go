package route

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Tools lists the tools of this machine and, where a server is named, those of
// MCP servers that only the server has. A server that does not answer is one of
// the problems.
func (b *Backend) Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error) {
	tools, problems, err = b.o.Local.Tools(ctx)
	if err != nil || b.o.Server == "" {
		return tools, problems, err
	}
	known, err := b.servers(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, err := b.mustServer(ctx)
	var theirs []core.Tool
	var wrong []core.Fault
	if err == nil {
		theirs, wrong, err = r.Tools(ctx)
	}
	if err != nil {
		if !b.absent(ctx, err) {
			return nil, nil, err
		}
		return tools, append(problems, core.Fault{Message: missing(err)}), nil
	}
	for _, t := range theirs {
		if !known[t.Server] {
			tools = append(tools, t)
		}
	}
	return tools, append(problems, wrong...), nil
}

// CallTool makes one call as a run of its own, in the half whose tool it is.
func (b *Backend) CallTool(ctx context.Context, tool string, args json.RawMessage, by core.Actor, wait time.Duration) (api.Result, error) {
	if b.o.Server == "" {
		return b.o.Local.CallTool(ctx, tool, args, by, wait)
	}
	whole, err := b.mayGo(ctx, api.ExecuteRequest{By: by, Tasks: []core.TaskSpec{{ID: "call", Tool: tool, Arguments: args}}})
	if err != nil || !whole {
		// What is wrong with the call is said in the words of a call.
		return b.o.Local.CallTool(ctx, tool, args, by, wait)
	}
	r, err := b.mustServer(ctx)
	if err != nil {
		return api.Result{}, err
	}
	return r.CallTool(ctx, tool, args, by, wait)
}
