package env_test

import (
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core/env"
)

// An entry names any revision of MCP that pml speaks, and no other; with another
// one it is another server.
func TestLoad_Protocol(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	digests := map[string]bool{}
	for _, v := range append([]string{""}, mcp.ValidProtocolVersions...) {
		b.write(".pml.json", `{"mcpServers": {"a": {"url": "https://a.example/mcp"`+strings.Replace(`, "protocol": "X"`, "X", v, 1)+`}}}`)
		if v == "" {
			b.write(".pml.json", `{"mcpServers": {"a": {"url": "https://a.example/mcp"}}}`)
		}
		r, err := b.load().Resolve("a")
		if err != nil || r.Entry.Protocol != v || digests[r.Digest] {
			t.Errorf("%q: %q, %v, known: %v", v, r.Entry.Protocol, err, digests[r.Digest])
		}
		digests[r.Digest] = true
	}
	b.write(".pml.json", `{"mcpServers": {"a": {"url": "https://a.example/mcp", "protocol": "2025"}}}`)
	if _, err := env.Load(b.options()); err == nil || !strings.Contains(err.Error(), "2025-11-25") && !strings.Contains(err.Error(), "protocol") {
		t.Errorf("%v", err)
	}
}
