package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// paramHeaders checks that the headers in which a call repeats arguments say what
// the call says, where the schema of an offered tool marks some for that: what
// stands between reads the headers only.
func (e *Edge) paramHeaders(ctx context.Context, h http.Header, m *message, of holder) *jsonrpc.Response {
	if _, own := e.tools[string(m.Params.Name)]; own || m.Method != string(mcp.MethodToolsCall) {
		return nil
	}
	gw, _, err := e.gateway(ctx)
	if gw == nil || err != nil {
		return nil // who makes the call says so
	}
	// The peer that the call will have: a server lists its tools by what its
	// client declares, and the first list is the one that is recorded.
	p := newPeer(gw, "alone", abilities{})
	if can := abilitiesOf(m.Params.Meta.Capabilities); len(can.servers) > 0 {
		leased, done, err := e.peers.lease(ctx, gw, of, can)
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		defer done()
		p = leased
	}
	offer, err := gw.Offer(ctx, &p.seen)
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	for _, t := range offer.Tools {
		if t.Name != string(m.Params.Name) || !bytes.Contains(t.Definition, []byte("x-mcp-header")) {
			continue
		}
		var d struct {
			Schema json.RawMessage `json:"inputSchema"`
		}
		tool := mcp.Tool{Name: t.Name}
		if json.Unmarshal(t.Definition, &d) != nil {
			return nil
		}
		if tool.RawInputSchema = d.Schema; mcp.ValidateParamHeaderAnnotations(&tool) != nil {
			return nil // such marks mean nothing
		}
		lookup := func(name string) (string, bool) {
			values, ok := h[http.CanonicalHeaderKey(name)]
			return h.Get(name), ok && len(values) > 0
		}
		if err := mcp.ValidateParamHeadersLookup(lookup, &tool, m.Message.Params); err != nil {
			return jsonrpc.Refuse(m.ID, mcp.HEADER_MISMATCH, core.Visible(err.Error(), 300, false))
		}
	}
	return nil
}
