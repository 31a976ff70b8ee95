package mcp

import (
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core/api"
)

// Proxy offers tools, resources and prompts of upstream servers through, under
// their own names. Every call passes the gates, the journal and the audit log
// behind it. Errors of an upstream server itself are *api.PeerError, all others
// *core.Error.
type Proxy interface {
	// Offer says what there is for a client. It changes; Changed tells when.
	Offer(ctx context.Context, peer *api.Peer) (api.Offer, error)
	// Call calls an offered tool.
	Call(ctx context.Context, call api.OfferedCall) (api.OfferedResult, error)
	// Forward answers a request about resources, prompts, completions and the
	// level of logs out of what upstream servers answer. ours is false when the
	// request is about nothing that they have.
	Forward(ctx context.Context, peer *api.Peer, method string, params json.RawMessage) (result json.RawMessage, ours bool, err error)
	// Changed calls f for each list that has changed for a peer (the method of
	// the notification), until the context ends.
	Changed(ctx context.Context, peer *api.Peer, f func(method string)) error
	// Gone says that a peer has left: what was started for it alone is stopped.
	Gone(peer string)
}
