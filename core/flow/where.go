package flow

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/where"
)

// expression is a where that was compiled.
type expression struct{ e *where.Expression }

// holds evaluates it for what a node gets.
func (e *expression) holds(in Input) (bool, error) {
	r := in.Request
	server, tool, ok := core.SplitTool(r.Tool)
	if !ok {
		server = r.Tool
	}
	call := where.Call{
		Tool: tool, Server: server, Args: r.Args, Annotations: r.Annotations, Client: r.Client, Owner: r.Owner, Workspace: r.Workspace,
		Run: where.Run{Name: r.Run.Name, Kind: r.Run.Kind, Depth: r.Run.Depth},
	}
	if in.Answer != nil {
		call.Result = in.Answer.Result
	}
	return e.e.Eval(call)
}
