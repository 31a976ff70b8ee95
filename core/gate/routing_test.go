package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
)

// far is a server that has the tools "far:read" and "far:write".
type far struct {
	down bool
	keys []string
	lost int // how often its tools were asked for
}

func (f *far) CallTool(_ context.Context, call engine.Call, key string) (json.RawMessage, error) {
	f.keys = append(f.keys, key)
	if call.Tool == "far:write" {
		return nil, core.Errorf(core.CodeToolFailed, "it failed")
	}
	return call.Args, nil
}

func (f *far) Tools(context.Context) ([]core.Tool, []core.Fault, error) {
	f.lost++
	if f.down {
		return nil, nil, core.Errorf(core.CodeServerUnreachable, "nobody answers")
	}
	yes := true
	return []core.Tool{
		{Server: "far", Name: "read", Annotations: core.Annotations{ReadOnly: &yes}}, {Server: "far", Name: "write"},
	}, []core.Fault{{Path: "broken", Message: "needs a key"}}, nil
}

// routed opens a place whose configuration has a routing, with a server.
func routed(t *testing.T, permissions, routing string, f *far) *place {
	t.Helper()
	p := settle(t, permissions)
	var cfg map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.read(".pml.json")), &cfg); err != nil {
		t.Fatal(err)
	}
	cfg["routing"] = json.RawMessage(routing)
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.write(".pml.json", string(raw))
	p.remote = f
	return p.trust().open()
}

func TestRouting_WhoRunsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		routing string
		want    map[string]string // tool → client, server
	}{
		"Nothing":   {`{}`, map[string]string{"fake:read": "client", "far:read": "server", "workspace:stat": "client"}},
		"Patterns":  {`{"server":["fake"],"client":["fake:write"]}`, map[string]string{"fake:read": "server", "fake:write": "client", "far:read": "server"}},
		"Tie":       {`{"server":["fake"],"client":["fake"]}`, map[string]string{"fake:read": "client"}},
		"Default":   {`{"default":"server","client":["keyed"]}`, map[string]string{"fake:read": "server", "keyed:read": "client", "workspace:stat": "server"}},
		"OfBuiltin": {`{"server":["workspace:stat"]}`, map[string]string{"workspace:stat": "server", "workspace:list_directory": "client"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &far{}
			p := routed(t, `{"allow":["*"]}`, c.routing, f)
			for tool, want := range c.want {
				before := len(f.keys)
				_, err := p.Call(t.Context(), p.call(tool, `{"path":"."}`), func(string) {})
				got := "client"
				if len(f.keys) > before {
					got = "server"
				}
				if got != want {
					t.Errorf("%s: %s (%v), want %s", tool, got, err, want)
				}
			}
		})
	}
}

// Scenario 9: deny rules hold for what a server runs, and so do ask rules; the
// other gates are the server's.
func TestRouting_RulesHoldHere(t *testing.T) {
	t.Parallel()
	f := &far{}
	p := routed(t, `{"deny":["far:secret*"],"ask":["far:write"]}`, `{}`, f)
	p.want("far:read", "{}", "ok")
	p.want("far:write", "{}", "tool_permission")
	p.want("far:secret_one", "{}", "permission_denied")
	p.want("far:other", "{}", "ok")  // the server says what it has
	p.want("broken:any", "{}", "ok") // it is there, and needs a decision there
	p.want("nowhere:any", "{}", "no_such_tool")
	if v := p.want("far:read", "{}", "ok"); !v.ReadOnly || !v.Repeatable {
		t.Errorf("%+v", v)
	}
	if v := p.want("far:other", "{}", "ok"); v.ReadOnly || v.Repeatable {
		t.Errorf("%+v", v)
	}
	if f.lost != 1 {
		t.Errorf("its tools were listed %d times", f.lost)
	}
	if _, err := p.Call(t.Context(), p.call("far:secret_one", "{}"), func(string) {}); core.CodeOf(err) != core.CodePermissionDenied || len(f.keys) != 0 {
		t.Errorf("%v %v", err, f.keys)
	}
	call := p.call("far:read", `{"n":1}`)
	call.RunID, call.ID, call.Attempt = "run", "c7", 2
	got, err := p.Call(t.Context(), call, func(string) {})
	if err != nil || string(got) != `{"n":1}` || !cmp.Equal(f.keys, []string{"run/c7/2"}) {
		t.Errorf("%v %s %v", err, got, f.keys)
	}
	if _, err := p.Call(t.Context(), p.call("far:write", "{}"), func(string) {}); core.CodeOf(err) != core.CodeToolFailed {
		t.Error(err)
	}
}

// What was judged for one half is not made by the other, when the routing has changed
// meanwhile: it goes back to its gates, which differ.
func TestRouting_ChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tool, then  string
		judged, now core.Side
	}{
		"NowHere":  {"far:read", `{"client":["far"]}`, core.SideServer, core.SideClient},
		"NowThere": {"fake:read", `{"server":["fake"]}`, core.SideClient, core.SideServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &far{}
			p := routed(t, `{"allow":["*"]}`, `{}`, f)
			call := p.call(tt.tool, `{}`)
			call.Side = p.want(tt.tool, `{}`, "ok").Side
			if call.Side != tt.judged {
				t.Fatalf("judged for %q", call.Side)
			}
			if _, err := p.Call(t.Context(), call, func(string) {}); err != nil {
				t.Fatal(err)
			}
			made := len(f.keys)
			p.write(".pml.json", strings.Replace(p.read(".pml.json"), `"routing":{}`, `"routing":`+tt.then, 1))
			p.trust().open()
			_, err := p.Call(t.Context(), call, func(string) {})
			var again *engine.NotMadeError
			if !errors.As(err, &again) || !strings.Contains(err.Error(), string(tt.now)) || len(f.keys) != made {
				t.Errorf("made for %s: %v", tt.now, err)
			}
		})
	}
}

// A server that does not answer is no reason to refuse: its calls count as ones
// that change something.
func TestRouting_ToolsNotKnown(t *testing.T) {
	t.Parallel()
	p := routed(t, `{}`, `{}`, &far{down: true})
	if v := p.want("far:read", "{}", "ok"); v.ReadOnly || v.Repeatable || v.Known {
		t.Errorf("%+v", v)
	}
}

func TestRouting_Malformed(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`)
	p.write(".pml.json", `{"routing":{"server":["ok","a:[b"],"client":["{"]}}`)
	p.trust()
	_, err := gate.Open(gate.Options{Workspace: p.ws, Home: p.home, Environ: func(string) (string, bool) { return "", false }})
	e := core.AsError(err)
	if e.Code != core.CodeInvalidConfig || len(e.Faults) != 2 || e.Faults[0].Path != "/routing/server/1" || e.Faults[1].Path != "/routing/client/0" {
		t.Errorf("%v %+v", err, e.Faults)
	}
	if !strings.Contains(e.Message, "routing") {
		t.Error(e.Message)
	}
}
