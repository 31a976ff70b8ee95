package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// marked is a gateway with a tool that repeats an argument in a header.
type marked struct{ *behind }

func (marked) Offer(context.Context, *api.Peer) (api.Offer, error) {
	return api.Offer{Tools: []api.OfferedTool{{Name: "echo", Definition: json.RawMessage(
		`{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`)}}}, nil
}

// What a call repeats in headers must be what it says.
func TestHTTP_ParamHeaders(t *testing.T) {
	t.Parallel()
	b := &behind{call: func(context.Context, api.OfferedCall) (api.OfferedResult, error) {
		return api.OfferedResult{Raw: json.RawMessage(`{"content":[]}`)}, nil
	}}
	srv, _ := serveHTTP(t, &fake{t: t}, offeringAny(marked{b}))
	for name, tt := range map[string]struct {
		args, header string
		code         int
	}{
		"the same":   {`{"region":"eu"}`, "eu", http.StatusOK},
		"differs":    {`{"region":"eu"}`, "us", http.StatusBadRequest},
		"missing":    {`{"region":"eu"}`, "", http.StatusBadRequest},
		"too much":   {`{}`, "eu", http.StatusBadRequest},
		"none":       {`{}`, "", http.StatusOK},
		"not base64": {`{"region":"eu"}`, "=?base64?%%%?=", http.StatusBadRequest},
	} {
		h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo"}
		if tt.header != "" {
			h = append(h, "Mcp-Param-Region", tt.header)
		}
		res := post(t, srv.URL, modernCall("1", "echo", tt.args, `{}`, ""), h...)
		if res.code != tt.code || tt.code != http.StatusOK && !strings.Contains(res.body, "-32020") {
			t.Errorf("%s: %d %s", name, res.code, res.body)
		}
	}
}

func offeringAny(g mcp.Proxy) func(*mcp.Options) {
	return func(o *mcp.Options) {
		o.Proxy = func(api.Scope) (mcp.Proxy, error) { return g, nil }
	}
}
