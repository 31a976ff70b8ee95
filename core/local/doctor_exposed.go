package local

import (
	"context"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// checkExposed says what is offered to agents' hosts under its own name, and
// what cannot be. It runs after the servers were looked at.
func (c *Client) checkExposed(ctx context.Context, known []string) []api.Check {
	cfg, err := c.config()
	if err != nil || len(cfg.Expose) == 0 {
		return nil // told already
	}
	h, err := c.own()
	if err != nil {
		return nil
	}
	e, err := h.Exposure()
	if err != nil {
		return []api.Check{failed("expose", err)}
	}
	var out []api.Check
	warn := func(detail string) {
		out = append(out, api.Check{Name: "expose", Status: checkWarn, Detail: core.Visible(detail, 600, false)})
	}
	for _, f := range e.Findings(known) {
		warn(fmt.Sprintf("%q: %s", f.Rule, f.Message))
	}
	var servers []api.Exposed
	for _, name := range e.Names() {
		s, err := c.Explore(ctx, nil, name)
		if err != nil {
			continue // it takes too long: told already
		}
		servers = append(servers, s)
	}
	offer := api.Merge(servers)
	for _, p := range offer.Problems {
		warn(p.String())
	}
	if len(out) == 0 {
		out = append(out, api.Check{Name: "expose", Status: checkOK, Detail: fmt.Sprintf("%d tool(s) are offered under their own names", len(offer.Tools))})
	}
	return out
}
