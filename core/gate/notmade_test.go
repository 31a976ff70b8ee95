package gate_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/casys-ai/pml/core"
)

// A call whose server has ended since the gates let it pass, and cannot be started
// again, was not made; one with which its server ends may have run. So it is for
// whoever calls through, too.
func TestCall_NotMade(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, p *place, tool string) (json.RawMessage, error){
		"Call": func(ctx context.Context, p *place, tool string) (json.RawMessage, error) {
			return p.Call(ctx, p.call(tool, "{}"), func(string) {})
		},
		"Through": func(ctx context.Context, p *place, tool string) (json.RawMessage, error) {
			raw, err := p.Through(ctx, p.call(tool, "{}"), func(string) {})
			return raw.Result, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, allow)
			p.write("../tools.json", tools[:len(tools)-1]+dying)
			p.trust().open()
			p.want("fake:write", "{}", "ok")
			_, err := call(t.Context(), p, "fake:die")
			if e := core.AsError(err); e == nil || e.Code != core.CodeServerUnreachable || e.NotMade {
				t.Fatalf("%+v", e)
			}
			p.write("../tools.json"+downMark, "")
			for range 2 {
				_, err = call(t.Context(), p, "fake:write")
				if e := core.AsError(err); e == nil || e.Code != core.CodeServerUnreachable || !e.NotMade {
					t.Fatalf("%+v", e)
				}
			}
			if err := os.Remove(p.file("../tools.json" + downMark)); err != nil {
				t.Fatal(err)
			}
			if out, err := call(t.Context(), p, "fake:write"); err != nil {
				t.Errorf("%s %v", out, err)
			}
			given, up := context.WithCancel(t.Context())
			up()
			p.up.Stop("fake", p.ws.Dir)
			if _, err = call(given, p, "fake:write"); err == nil || !core.AsError(err).NotMade {
				t.Errorf("given up: %v", err)
			}
		})
	}
}
