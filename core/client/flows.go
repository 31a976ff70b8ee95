package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Flows implements api.FlowReads.
func (c *Client) Flows(ctx context.Context) ([]api.Flow, error) {
	var page api.Page[api.Flow]
	err := c.get(ctx, "/flows", nil, &page)
	return page.Items, err
}

// Flow implements api.FlowReads. Text and Files of the flow stay on the server.
func (c *Client) Flow(ctx context.Context, name string) (f api.Flow, err error) {
	err = c.get(ctx, flowPath(name, ""), nil, &f)
	return f, err
}

// FlowHistory implements api.FlowReads.
func (c *Client) FlowHistory(ctx context.Context, name string, limit int) (h api.FlowHistory, err error) {
	var runs api.Page[core.FlowRun]
	if err := c.get(ctx, flowPath(name, "/runs"), url.Values{"limit": {strconv.Itoa(limit)}}, &runs); err != nil {
		return h, err
	}
	var nodes api.Page[api.FlowNodeStats]
	err = c.get(ctx, flowPath(name, "/stats"), nil, &nodes)
	return api.FlowHistory{Runs: runs.Items, Nodes: nodes.Items}, err
}

func flowPath(name, rest string) string { return "/flows/" + url.PathEscape(name) + rest }
