package gate_test

import (
	"testing"
)

// After PrepareServer a call need not wait for its server; one that is not trusted
// is not started.
func TestHost_PrepareServer(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).open()
	call := p.call("fake:read", "{}")
	p.PrepareServer(t.Context(), call.Tool)
	if v, ok := p.Try(call); !ok || v.Deny == nil {
		t.Errorf("not trusted, and prepared: %+v", v)
	}
	p.trust()
	if _, ok := p.Try(call); ok {
		t.Fatal("the server was known before it was prepared")
	}
	p.PrepareServer(t.Context(), call.Tool)
	if v, ok := p.Try(call); !ok || v.Deny != nil || len(v.Ask) > 0 {
		t.Errorf("after it was prepared: %v, %+v", ok, v)
	}
}
