package client

import (
	"context"
	"net/http"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// haltPatience is how long a server may take to halt calls or to let them go on.
const haltPatience = abortWait

// Halts is the server's halt, if there is one.
func (c *Client) Halts(ctx context.Context) ([]core.Halt, error) {
	var p api.Page[core.Halt]
	err := c.ask(ctx, request{method: http.MethodGet, path: "/halt"}, &p)
	return p.Items, err
}

// HaltCalls halts all calls of the server's runs. A server is halted once, however often it
// is asked.
func (c *Client) HaltCalls(ctx context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	var p api.Page[core.Halt]
	err := c.persist(ctx, c.o.Limits.Away, false, func() error {
		return c.ask(ctx, request{method: http.MethodPost, path: "/halt", body: api.HaltBody{Reason: reason}, wait: haltPatience, by: by}, &p)
	})
	return p.Items, err
}

// ResumeCalls lets the calls of the server's runs go on.
func (c *Client) ResumeCalls(ctx context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	var p api.Page[core.Halt]
	body := api.ResumeBody{Reason: req.Reason, Pin: req.Pin, Presence: req.Presence}
	err := c.ask(ctx, request{method: http.MethodPost, path: "/resume", body: body, wait: haltPatience, by: req.By}, &p)
	return p.Items, err
}
