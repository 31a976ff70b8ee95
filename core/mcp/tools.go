package mcp

import (
	"context"
	_ "embed" // the definitions of the tools
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
)

// definitions are the tools as they are published. They are data, so that what
// an agent reads can be read at one place.
//
//go:embed tools.json
var definitions []byte

// Definitions returns the tools as they are published, as a JSON list.
func Definitions() json.RawMessage { return slices.Clone(definitions) }

// tool is a published tool and what runs it.
type tool struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Input       json.RawMessage    `json:"inputSchema"`
	Output      json.RawMessage    `json:"outputSchema"`
	Hints       mcp.ToolAnnotation `json:"annotations"`

	run handler
}

// handler does the work of a tool. What it returns is shown as JSON; an error
// becomes a failed result, a *badArguments a protocol error.
type handler func(ctx context.Context, e *Edge, c *call) (any, error)

// handlers are the tools by name.
var handlers = map[string]handler{
	"execute":           execute,
	"agent_delegate":    delegate,
	"continue":          goOn,
	"abort":             abort,
	"replan":            replan,
	"approval_response": answer,
	"workflow_status":   status,
	"flow_status":       flowStatus,
	"discover":          discover,
}

func published() ([]tool, error) {
	var list []tool
	if err := json.Unmarshal(definitions, &list); err != nil {
		return nil, core.Errorf(core.CodeInternal, "the definitions of the MCP tools cannot be read: %w", err)
	}
	return list, nil
}

// inOrder lists tools in the order in which they are published, which is not
// that of their names: what looks comes before what acts.
func inOrder(list []tool) server.ToolFilterFunc {
	place := make(map[string]int, len(list))
	for i, t := range list {
		place[t.Name] = i
	}
	return func(_ context.Context, tools []mcp.Tool) []mcp.Tool {
		slices.SortFunc(tools, func(a, b mcp.Tool) int { return place[a.Name] - place[b.Name] })
		return tools
	}
}

// definition is the tool as mcp-go lists it.
func (t tool) definition() mcp.Tool {
	d := mcp.NewToolWithRawSchema(t.Name, t.Description, t.Input)
	d.Title, d.RawOutputSchema, d.Annotations = t.Title, t.Output, t.Hints
	return d
}
