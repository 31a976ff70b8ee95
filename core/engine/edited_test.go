package engine_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// edit approves all that is open with other arguments, which the gates would ask about
// under a digest.
func (b *bench) edit(p *process, h *engine.Handle, args, digest string) {
	b.T.Helper()
	if digest == "" {
		var err error
		if digest, err = core.Digest(json.RawMessage(args)); err != nil {
			b.T.Fatal(err)
		}
	}
	b.decide(p, h, core.ApproveTool, true, &core.Answer{Arguments: json.RawMessage(args), Digest: digest})
}

// TestEdited_Sent: what was approved is sent, in the process that asked and in another
// one; the journal has what the program passed and what was sent, and the program sees
// the result of that. Other calls are sent as they are.
func TestEdited_Sent(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"Warm": false, "Cold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.code(p, `const n = [1].length; const q = await mcp.a.ask({n}); return [q.n, (await mcp.a.ask({n: n + 1})).n]`, core.RunOptions{})
			b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 })
			if cold {
				p.close()
				p = b.process()
			}
			b.edit(p, h, `{"n":7}`, "")
			if cold {
				var err error
				if h, err = p.Resume(t.Context(), h.ID); err != nil {
					t.Fatal(err)
				}
			}
			b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 && len(b.Host.Called()) == 1 })
			b.decide(p, h, core.ApproveTool, true, nil)
			s := b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() })
			if got := b.Host.Called(); string(s.Run.Result) != "[7,2]" || !slices.Equal(got, []string{`a:ask{"n":7}`, `a:ask{"n":2}`}) {
				t.Errorf("%s, called %v", s.Run.Result, got)
			}
			records, err := p.st.Journal(t.Context(), h.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if r.CallID == "c1" && (r.Kind == core.RecordStarted || r.Kind == core.RecordSettled) && (string(r.Args) != `{"n":1}` || string(r.Sent) != `{"n":7}`) {
					t.Errorf("%s: %s, sent %s", r.Kind, r.Args, r.Sent)
				}
			}
			rows, err := p.st.Audit(t.Context(), store.AuditFilter{})
			if err != nil || !slices.ContainsFunc(rows, func(r core.AuditRow) bool { return r.SentDigest != "" && r.Digest != r.SentDigest }) {
				t.Errorf("the audit does not say that other arguments were sent: %v, %v", rows, err)
			}
		})
	}
}

// TestEdited_JudgedOtherwise: where the gates ask about the changed arguments what was
// not approved, somebody is asked again, about what would be sent.
func TestEdited_JudgedOtherwise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `const n = [1].length; return await mcp.a.ask({n})`, core.RunOptions{})
	b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 1 })
	b.edit(p, h, `{"n":7}`, "sha256:something-else")
	s := b.Wait(h, func(s engine.Status) bool {
		return len(s.Pending) == 1 && differs(s)
	})
	want, _ := core.Digest(json.RawMessage(`{"n":7}`))
	if len(b.Host.Called()) > 0 || s.Pending[0].Digest != want {
		t.Fatalf("called %v, asked %+v", b.Host.Called(), s.Pending)
	}
	b.edit(p, h, `{"n":8}`, "")
	s = b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() })
	if got := b.Host.Called(); !slices.Equal(got, []string{`a:ask{"n":8}`}) {
		t.Errorf("%s, called %v", s.Run.Result, got)
	}
}

// differs reports whether a run asks about changed arguments.
func differs(s engine.Status) bool {
	first, _ := core.Digest(json.RawMessage(`{"n":1}`))
	return s.Pending[0].Digest != first
}
