package upstream_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// eras is a server over HTTP with one tool, which says in which revision it was
// called. discover and initialize are what it answers to these, as members of a
// response; empty for nothing at all.
type eras struct {
	url                  string
	discover, initialize string
	tools                string // empty: one of them

	mu    sync.Mutex
	asked []string
}

const (
	asModern  = `"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`
	asSession = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	unknown   = `"error":{"code":-32601,"message":"no such method"}`
	notFound  = "404"
)

func newEras(t *testing.T, discover, initialize string) *eras {
	t.Helper()
	e := &eras{discover: discover, initialize: initialize}
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	e.url = srv.URL
	return e
}

// ServeHTTP implements http.Handler.
func (e *eras) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var msg message
	_ = json.Unmarshal(text, &msg)
	if len(msg.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	e.mu.Lock()
	e.asked = append(e.asked, msg.Method)
	e.mu.Unlock()
	answer := map[string]string{
		"server/discover": e.discover, "initialize": e.initialize, "tools/list": cmp.Or(e.tools, `"result":{"tools":[{"name":"t","inputSchema":{}}]}`),
		"tools/call": fmt.Sprintf(`"result":{"content":[{"type":"text","text":"%s"}]}`, "in "+r.Header.Get("Mcp-Protocol-Version")),
	}[msg.Method]
	switch answer {
	case notFound:
		http.NotFound(w, r)
		return
	case "":
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, msg.ID, answer)
}

// methods are those that were asked for since the last look.
func (e *eras) methods() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := e.asked
	e.asked = nil
	return asked
}

// A server that does not name a revision with server/discover in its answer has
// none: it is spoken to in a session, and the next time at once.
func TestEra_OfServer(t *testing.T) {
	t.Parallel()
	for name, discover := range map[string]string{
		"older ones only":  `"result":{"supportedVersions":["2025-11-25","2025-06-18"],"capabilities":{}}`,
		"later ones only":  `"result":{"supportedVersions":["2030-01-01"],"capabilities":{}}`,
		"an empty answer":  `"result":{}`,
		"another answer":   `"result":{"supportedVersions":"2026-07-28"}`,
		"an error":         unknown,
		"an error of HTTP": notFound,
		"no answer":        ``,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, m := newEras(t, discover, asSession), newManager(t, nil)
			l := remote(e.url)
			for _, want := range [][]string{{"server/discover", "initialize", "tools/call"}, {"initialize", "tools/call"}} {
				got, err := call(t, m, l, "t", `{}`)
				if err != nil || got != `"in 2025-11-25"` {
					t.Fatalf("%s, %v", got, err)
				}
				if diff := gocmp.Diff(want, e.methods()); diff != "" {
					t.Error(diff)
				}
				m.Stop(l.Name, l.Workspace)
			}
		})
	}
}

// A server that has refused server/discover is not asked again; one that did not
// answer in time, which may have been busy, is after a while.
func TestEra_Doubted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		discover string
		again    bool
	}{"refused": {unknown, false}, "silent": {"", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := &handClock{now: time.Unix(1000, 0)}
			e, m := newEras(t, tt.discover, asSession), newManager(t, func(o *upstream.Options) { o.Clock = at })
			l := remote(e.url)
			for _, step := range []struct {
				later time.Duration
				asked bool
			}{{0, true}, {4 * time.Minute, false}, {2 * time.Minute, tt.again}} {
				at.mu.Lock()
				at.now = at.now.Add(step.later)
				at.mu.Unlock()
				got, err := call(t, m, l, "t", `{}`)
				asked := slices.Contains(e.methods(), "server/discover")
				if err != nil || asked != step.asked {
					t.Errorf("%s later: asked %v, %s, %v", step.later, asked, got, err)
				}
				m.Stop(l.Name, l.Workspace)
				e.mu.Lock()
				e.discover = asModern // it has time now
				e.mu.Unlock()
			}
		})
	}
}

// What is known of a server ends when it is no longer true.
func TestEra_OfServerThatChanges(t *testing.T) {
	t.Parallel()
	e, m := newEras(t, unknown, asSession), newManager(t, nil)
	l := remote(e.url)
	if _, err := call(t, m, l, "t", `{}`); err != nil {
		t.Fatal(err)
	}
	m.Stop(l.Name, l.Workspace)
	e.discover, e.initialize = asModern, unknown
	_, err := call(t, m, l, "t", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if got, err := call(t, m, l, "t", `{}`); err != nil || got != `"in 2026-07-28"` {
		t.Errorf("%s, %v", got, err)
	}
}

// A server that has both eras is spoken to in that of its client; one that has
// one of them, in that.
func TestEra_OfClient(t *testing.T) {
	t.Parallel()
	const old, newest = `"in 2025-11-25"`, `"in 2026-07-28"`
	for name, tt := range map[string]struct {
		discover, initialize string
		era                  upstream.Era
		want                 string
	}{
		"both, a session":         {asModern, asSession, upstream.Sessions, old},
		"both, no session":        {asModern, asSession, upstream.Stateless, newest},
		"both, nobody":            {asModern, asSession, upstream.AnyEra, newest},
		"old, no session":         {unknown, asSession, upstream.Stateless, old},
		"newest, a session":       {asModern, unknown, upstream.Sessions, newest},
		"newest by HTTP, session": {asModern, notFound, upstream.Sessions, newest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, m := newEras(t, tt.discover, tt.initialize), newManager(t, nil)
			for _, capabilities := range []string{``, `{"roots":{}}`} {
				l := with(remote(e.url), newHost("a", capabilities))
				l.Era = tt.era
				for range 2 {
					if got, err := call(t, m, l, "t", `{}`); err != nil || got != tt.want {
						t.Errorf("with %q: %s, %v", capabilities, got, err)
					}
				}
			}
			if n := strings.Count(fmt.Sprint(e.methods()), "tools/call"); n != 4 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// Clients of both eras use one server at a time, each in its own.
func TestEra_OfClients(t *testing.T) {
	t.Parallel()
	e, m := newEras(t, asModern, asSession), newManager(t, nil)
	a, b := remote(e.url), remote(e.url)
	a.Era, b.Era = upstream.Sessions, upstream.Stateless
	for range 2 {
		got, err := call(t, m, a, "t", `{}`)
		other, err2 := call(t, m, b, "t", `{}`)
		if err != nil || err2 != nil || got != `"in 2025-11-25"` || other != `"in 2026-07-28"` {
			t.Fatalf("%s %v, %s %v", got, err, other, err2)
		}
	}
	want := []string{"initialize", "tools/call", "server/discover", "tools/call", "tools/call", "tools/call"}
	if diff := gocmp.Diff(want, e.methods()); diff != "" {
		t.Error(diff)
	}
}

// What the entry names is spoken, and nothing else tried.
func TestEra_Pinned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		discover, initialize, pin string
		asked                     []string
		problem                   string // of the call; empty: none
	}{
		"a session":        {asModern, asSession, "2025-11-25", []string{"initialize", "tools/call"}, ""},
		"none":             {asModern, asSession, "2026-07-28", []string{"server/discover", "tools/call"}, ""},
		"another revision": {asModern, asSession, "2025-06-18", []string{"initialize"}, `speaks revision 2025-11-25 of MCP, and its entry says "protocol": "2025-06-18"`},
		"not there":        {unknown, asSession, "2026-07-28", []string{"server/discover"}, "error -32601"},
		"not named":        {`"result":{}`, asSession, "2026-07-28", []string{"server/discover"}, "names no revision"},
		"no session there": {asModern, unknown, "2025-11-25", []string{"initialize"}, "no such method"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, m := newEras(t, tt.discover, tt.initialize), newManager(t, nil)
			l := remote(e.url)
			l.Protocol, l.Era = tt.pin, upstream.Sessions
			_, err := call(t, m, l, "t", `{}`)
			if tt.problem != "" {
				wantCode(t, err, core.CodeServerUnreachable, tt.problem)
			} else if err != nil {
				t.Error(err)
			}
			if diff := gocmp.Diff(tt.asked, e.methods()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A process that has both eras is spoken to in the newest for a client of it; one
// that ends when it is asked is started again, and never asked again.
func TestEra_OfProcess(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		protocol  string
		processes int
	}{
		"rich":             {"2026-07-28", 1},
		"ignores-unknown":  {"2025-06-18", 1},
		"exits-on-unknown": {"2025-06-18", 2},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			m := newManager(t, nil)
			l := with(launch(t, mode, p.env()), newHost("a", `{"roots":{}}`))
			l.Era = upstream.Stateless
			caps, err := m.Capabilities(t.Context(), l)
			if err != nil || caps.Protocol != want.protocol {
				t.Fatalf("%q, %v", caps.Protocol, err)
			}
			m.Stop(l.Name, l.Workspace)
			if _, err := m.Capabilities(t.Context(), l); err != nil {
				t.Error(err)
			}
			for range want.processes + 1 { // each calls before it answers anything
				pick(t, p)
			}
			if len(p.calls) > 0 {
				t.Errorf("%d more processes", len(p.calls))
			}
		})
	}
}

// The official SDK of Go over HTTP as it is without options: its answer to
// server/discover names the older revisions only.
func TestEra_GoSDK(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*gosdk.StreamableHTTPOptions{"default": nil, "stateless": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := gosdk.NewServer(&gosdk.Implementation{Name: "go", Version: "1"}, nil)
			type in struct {
				Name string `json:"name"`
			}
			gosdk.AddTool(s, &gosdk.Tool{Name: "greet"}, greet[in])
			srv := httptest.NewServer(gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, opts))
			t.Cleanup(srv.Close)
			for _, era := range []upstream.Era{upstream.AnyEra, upstream.Sessions, upstream.Stateless} {
				m := newManager(t, nil)
				l := remote(srv.URL)
				l.Era = era
				tools, err := m.Tools(t.Context(), l)
				if err != nil || len(tools) != 1 {
					t.Fatalf("%v, %v", tools, err)
				}
				if got, err := call(t, m, l, "greet", `{"name":"x"}`); err != nil || got != `"hello"` {
					t.Errorf("%s, %v", got, err)
				}
				_ = m.Close()
			}
		})
	}
}

func greet[In any](context.Context, *gosdk.CallToolRequest, In) (*gosdk.CallToolResult, any, error) {
	return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: "hello"}}}, nil, nil
}

// Over HTTP in the newest revision a tool whose x-mcp-header is not valid is left
// out; the others stay.
func TestTools_BadHeaders(t *testing.T) {
	t.Parallel()
	const tools = `"result":{"tools":[{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}},` +
		`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}},` +
		`{"name":"twice","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}}]}`
	for protocol, want := range map[string]int{"2026-07-28": 1, "2025-11-25": 3} {
		e, m := newEras(t, asModern, asSession), newManager(t, nil)
		e.tools = tools
		l := remote(e.url)
		l.Protocol = protocol
		got, err := m.Tools(t.Context(), l)
		if err != nil || len(got) != want || got[0].Name != "good" {
			t.Errorf("%s: %v, %v", protocol, got, err)
		}
		for tool, left := range map[string]bool{"good": false, "bad": want == 1, "twice": want == 1, "none": false} {
			if why := m.LeftOut(l, tool); (why != "") != left || left && !strings.Contains(why, "x-mcp-header") {
				t.Errorf("%s: %s is left out because %q", protocol, tool, why)
			}
		}
	}
}
