// Package gateway offers tools, resources and prompts of upstream MCP servers
// through to an agent's host, under their own names. What is offered is named by
// the globs of expose; every call passes the gates, the journal and the audit
// log of the half that makes it.
package gateway

import "github.com/casys-ai/pml/core/api"

// collisions are tools of one name: none of them is offered.
func collisions(tools []api.OfferedTool) map[string][]string {
	by := map[string][]string{}
	for _, t := range tools {
		by[t.Name] = append(by[t.Name], t.Tool)
	}
	for name, all := range by {
		if len(all) == 1 {
			delete(by, name)
		}
	}
	return by
}
