package mcp

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// recentFlowRuns is how many runs of a flow flow_status gives unless more are wanted.
const recentFlowRuns = 5

// oneFlow is a hook flow with what it did.
type oneFlow struct {
	api.Flow
	Runs  []core.FlowRun      `json:"runs"`
	Stats []api.FlowNodeStats `json:"stats"`
}

// flowStatus shows the hook flows that calls meet, or one of them with what it did.
func flowStatus(ctx context.Context, _ *Edge, c *call) (any, error) {
	var in struct {
		Flow  string `json:"flow"`
		Limit int    `json:"limit"`
	}
	if err := decode(c, &in); err != nil {
		return nil, err
	}
	if in.Flow == "" {
		list, err := c.backend.Flows(ctx)
		for i := range list { // the graph is for one
			list[i].Nodes, list[i].Edges = nil, nil
		}
		if list == nil {
			list = []api.Flow{}
		}
		return api.Page[api.Flow]{Items: list}, err
	}
	f, err := c.backend.Flow(ctx, in.Flow)
	if err != nil {
		return nil, err
	}
	h, err := c.backend.FlowHistory(ctx, in.Flow, or(in.Limit, recentFlowRuns))
	return oneFlow{f.Outline(), h.Runs, h.Nodes}, err
}
