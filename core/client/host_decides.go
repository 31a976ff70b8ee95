package client

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// HostMayDecide reports whether the answer of a person to a question of an agent's
// host can decide an approval of the server. The server cannot tell such an answer
// from the agent's own, so it counts for what an agent may approve.
func (c *Client) HostMayDecide(_ context.Context, a core.Approval) bool {
	return a.NotForAgents() == ""
}
