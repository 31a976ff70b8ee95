package server

import (
	"context"
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// FlowPath names a hook flow.
type FlowPath struct {
	Name string `path:"name" maxLength:"200" doc:"The id, the file or the name of a hook flow"`
}

type flowRunsInput struct {
	FlowPath
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
}

func (s *Server) addFlows() {
	const one = prefix + "/flows/{name}"
	add(s, op("flows", http.MethodGet, prefix+"/flows", "The hook flows that calls meet, in the order in which they run"), flows)
	add(s, op("flow", http.MethodGet, one, "A hook flow with its nodes and faults, without its scripts"), flow)
	add(s, op("flow-runs", http.MethodGet, one+"/runs", "What a hook flow did, newest first; a key sees calls of its own runs"), flowRuns)
	add(s, op("flow-stats", http.MethodGet, one+"/stats", "How often the nodes of a hook flow ran, blocked and failed, and their times"), flowStats)
}

func flows(ctx context.Context, c call, _ *nothing) (*page[api.Flow], error) {
	list, err := c.Flows(ctx)
	return pageOf(list, ""), err
}

type flowOutput struct{ Body api.Flow }

func flow(ctx context.Context, c call, in *FlowPath) (*flowOutput, error) {
	f, err := c.Flow(ctx, in.Name)
	return &flowOutput{f.Outline()}, err
}

func flowRuns(ctx context.Context, c call, in *flowRunsInput) (*page[core.FlowRun], error) {
	h, err := c.FlowHistory(ctx, in.Name, in.Limit)
	return pageOf(h.Runs, ""), err
}

func flowStats(ctx context.Context, c call, in *FlowPath) (*page[api.FlowNodeStats], error) {
	h, err := c.FlowHistory(ctx, in.Name, 1)
	return pageOf(h.Nodes, ""), err
}
