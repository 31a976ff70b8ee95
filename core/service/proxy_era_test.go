package service_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// A server that has both eras is spoken to in that of the client which calls,
// whether the client can be asked something or not, unless its entry names one.
func TestThrough_Era(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		peer  api.Peer
		entry string
		want  string
	}{
		"a session":               {api.Peer{ID: "p"}, ``, "2025-11-25"},
		"a session that is asked": {api.Peer{ID: "p", Capabilities: json.RawMessage(`{"roots":{}}`)}, ``, "2025-11-25"},
		"stateless":               {api.Peer{ID: "p", Stateless: true}, ``, "2026-07-28"},
		"stateless that is asked": {api.Peer{ID: "p", Stateless: true, Capabilities: json.RawMessage(`{"roots":{}}`)}, ``, "2026-07-28"},
		"pinned":                  {api.Peer{ID: "p"}, `, "protocol": "2026-07-28"`, "2026-07-28"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, u := newMachine(t), newUpstream(t)
			in := make(chan string, 10)
			handler := server.NewStreamableHTTPServer(u.MCPServer)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				in <- r.Header.Get("Mcp-Protocol-Version")
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(front.Close)
			m.write(".pml.json", `{"mcpServers": {"up": {"url": "`+front.URL+`/mcp"`+tt.entry+`}}, "permissions": {"allow": ["up"]}, "expose": ["up"]}`)
			c := m.client().trusting()
			if _, err := c.CallExposed(c.ctx(), "up:read", api.OfferedCall{By: core.Actor{Who: "agent", Via: core.ViaMCP}, Peer: &tt.peer}); err != nil {
				t.Fatal(err)
			}
			last := ""
			for len(in) > 0 {
				if v := <-in; v != "" {
					last = v
				}
			}
			if last != tt.want {
				t.Errorf("called in %q", last)
			}
		})
	}
}
