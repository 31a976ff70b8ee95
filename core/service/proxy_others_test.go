package service_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What another process has written counts for the very next call: a rule that
// denies, and a configuration that nobody trusts.
func TestThrough_Changed(t *testing.T) {
	t.Parallel()
	m, u := exposing(t, exposeAll)
	c := m.client().trusting()
	if _, err := c.through("up:read", ``); err != nil {
		t.Fatal(err)
	}
	m.writeHome("config.json", `{"permissions": {"deny": ["up:read"]}}`)
	_, err := c.through("up:read", ``)
	code(t, err, core.CodePermissionDenied)
	m.writeHome("config.json", `{}`)
	if _, err := c.through("up:read", ``); err != nil {
		t.Fatal(err)
	}
	m.write(".pml.json", `{"mcpServers": {"up": {"type": "http", "url": "`+u.url+`"}}, "permissions": {"allow": ["up"]}, "expose": ["up:*"]}`)
	_, err = c.through("up:read", ``)
	code(t, err, core.CodeNotTrusted)
	if n := u.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// Who aborts the run of a call that is under way ends the call, from another
// process, too; an outcome that was there before stays.
func TestThrough_Aborted(t *testing.T) {
	t.Parallel()
	m, u := exposing(t, exposeAll)
	c := m.client().trusting()
	began, let := make(chan struct{}), make(chan struct{})
	defer close(let)
	hang := func() {
		close(began)
		<-let
	}
	u.during.Store(&hang)
	over := make(chan error, 1)
	go func() {
		_, err := c.through("up:write", ``)
		over <- err
	}()
	<-began
	other := m.client()
	shown, _ := other.runsAndReads()
	if len(shown) != 1 {
		t.Fatalf("%+v", shown)
	}
	r, err := other.Abort(other.ctx(), shown[0].ID, me, "it takes too long")
	if err != nil || r.Status != api.StatusAborted && r.Status != api.StatusComplete {
		t.Fatalf("%+v, %v", r, err)
	}
	code(t, <-over, core.CodeAborted)
	w, err := other.Workflow(other.ctx(), shown[0].ID)
	if err != nil || w.State != core.RunAborted || w.Abort == nil || w.Abort.Reason != "it takes too long" || u.calls.Load() != 1 {
		t.Errorf("%+v, %v, %d calls", w, err, u.calls.Load())
	}
}

// A rule that denies reading the resources of a server holds for all requests
// about them, also where everything of the server is allowed and exposed; one
// that asks refuses.
func TestThrough_ResourcesDenied(t *testing.T) {
	t.Parallel()
	m, u := exposing(t, exposeAll)
	u.AddResource(mcp.NewResource("up://r", "r"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		u.calls.Add(1)
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: "up://r", Text: "read"}}, nil
	})
	c := m.client().trusting()
	do := func(method string) error {
		_, err := c.ForwardExposed(c.ctx(), &api.Peer{ID: "p"}, "up", method, json.RawMessage(`{"uri":"up://r"}`))
		return err
	}
	if err := do("resources/read"); err != nil || u.calls.Load() != 1 {
		t.Fatal(err)
	}
	for _, rule := range []string{"deny", "ask"} {
		m.writeHome("config.json", `{"permissions": {"`+rule+`": ["up:resources/read"]}}`)
		for _, method := range []string{"resources/read", "resources/list", "resources/templates/list", "resources/subscribe"} {
			code(t, do(method), core.CodePermissionDenied)
		}
	}
	if n := u.calls.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
}
