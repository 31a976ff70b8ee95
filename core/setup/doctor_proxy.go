package setup

import (
	"context"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// checkExposed says what is offered to agents' hosts under its own name, and
// what cannot be. It runs after the servers were looked at.
func (doc *Doctor) checkExposed(ctx context.Context, known []string) []api.Check {
	cfg, err := doc.config()
	if err != nil {
		return []api.Check{failed("expose", err)}
	}
	if len(cfg.Expose) == 0 {
		return nil
	}
	h, err := doc.own()
	if err != nil {
		return []api.Check{failed("expose", err)}
	}
	e, err := h.Exposure()
	if err != nil {
		return []api.Check{failed("expose", err)}
	}
	var out []api.Check
	warn := func(detail string) {
		out = append(out, api.Check{Name: "expose", Status: checkWarn, Detail: core.Visible(detail, 600, false)})
	}
	var servers []api.Exposed
	var unknown []string
	for _, name := range e.Names() {
		s, err := doc.o.Explore(ctx, nil, name)
		if err != nil || len(s.Problems) > 0 {
			unknown = append(unknown, name)
		}
		if err != nil {
			continue // it takes too long: told already
		}
		servers = append(servers, s)
	}
	for _, f := range e.Findings(known) {
		if !concerns(f.Rule, unknown) {
			warn(fmt.Sprintf("%q: %s", f.Rule, f.Message))
		}
	}
	offer := api.Merge(servers)
	for _, p := range offer.Problems {
		if p.Path == "expose" { // it is the name of the check
			p.Path = ""
		}
		warn(p.String())
	}
	if len(out) == 0 {
		detail := fmt.Sprintf("%d tool(s) are offered under their own names", len(offer.Tools))
		if offer.Search {
			detail = fmt.Sprintf("%d tool(s) are offered by %s and %s", len(offer.Found), api.SearchTools, api.CallTool)
		}
		out = append(out, api.Check{Name: "expose", Status: checkOK, Detail: detail})
	}
	return out
}
