//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

// answering is a client that answers what servers ask it, and counts it.
type answering struct{ elicited, sampled atomic.Int32 }

// Elicit implements the client's handler.
func (a *answering) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.elicited.Add(1)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}, nil
}

// CreateMessage implements the client's handler.
func (a *answering) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	a.sampled.Add(1)
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("said over TCP")}, Model: "none",
	}, nil
}

// TestGateway_TCP: a client of the newest revision, over TCP with a key, lists
// and calls the tools of the reference server, and answers what that asks in the
// middle of a call: an elicitation and a sampling. Another key's client is asked
// nothing of it.
func TestGateway_TCP(t *testing.T) {
	t.Parallel()
	node := skiptest.Tool(t, "node")
	everything := filepath.Join(pmltest.NPMPackages(t, "gateway", "ci"), "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	m := pmltest.BareMachine(t)
	raw, err := json.Marshal(map[string]any{
		"mcpServers":  map[string]any{"everything": map[string]any{"command": node, "args": []string{everything, "stdio"}}},
		"permissions": map[string]any{"allow": []string{"everything"}}, "expose": []string{"everything"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", string(raw))
	m.OK("trust", "--yes")
	key := func(name string) string { return strings.TrimSpace(m.OK("server", "key", "add", name).Stdout) }
	ann, ben := key("ann"), key("ben")
	m.Serving("--listen", "127.0.0.1:0")
	url := m.Status(0).Server.URL + "/mcp"
	dial := func(key string) (*mcpGo, *answering) {
		a := &answering{}
		return dialMCPGo(t, dialed{URL: url, Headers: map[string]string{"Authorization": "Bearer " + key}},
			mcpgo.WithElicitationHandler(a), mcpgo.WithSamplingHandler(a)), a
	}
	c, asked := dial(ann)
	other, unasked := dial(ben)
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	if c.version() != newRevision {
		t.Fatalf("it speaks %s", c.version())
	}
	said := func(c *mcpGo, tool string, args map[string]any) string {
		t.Helper()
		r, err := c.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
		if err != nil || r.IsError || len(r.Content) == 0 {
			t.Fatalf("%s: %+v, %v", tool, r, err)
		}
		text, err := json.Marshal(r.Content)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// The first to reach the server has its tools recorded: it is one that can be asked.
	if text := said(c, "echo", map[string]any{"message": "hello"}); !strings.Contains(text, "hello") {
		t.Errorf("%s", text)
	}
	for _, c := range []*mcpGo{c, other} {
		for { // a list does not wait for a server that starts slowly: the next one has its tools
			names, err := c.tools(ctx)
			if err != nil {
				t.Fatalf("%v, %v", names, err)
			}
			if slices.Contains(names, "get-sum") {
				break
			}
		}
	}
	if text := said(c, "trigger-elicitation-request", map[string]any{}); !strings.Contains(text, "declined") || asked.elicited.Load() != 1 {
		t.Errorf("%s, asked %d times", text, asked.elicited.Load())
	}
	if text := said(c, "trigger-sampling-request", map[string]any{"prompt": "say something"}); !strings.Contains(text, "said over TCP") || asked.sampled.Load() != 1 {
		t.Errorf("%s, asked %d times", text, asked.sampled.Load())
	}
	if text := said(other, "echo", map[string]any{"message": "ben's"}); !strings.Contains(text, "ben's") || unasked.elicited.Load()+unasked.sampled.Load() != 0 {
		t.Errorf("%s", text)
	}
}
