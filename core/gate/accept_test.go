package gate_test

import (
	"errors"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What a look at a server has found is accepted by its digest, outside of any run, and
// only what was shown: another digest, or an audit log that cannot be written, accepts
// nothing.
func TestAccept(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly)
	p.write("../tools.json", claiming("read", "list"))
	p.trust().open()
	found := p.checked("fake")
	if len(found) != 1 || found[0].State != api.ServerNeeds || len(found[0].Needs) != 1 || found[0].Needs[0].Type != core.ApproveIntegrity {
		t.Fatalf("%+v", found)
	}
	digest, said := found[0].Needs[0].Digest, 0
	say := func(a core.Approval) error {
		said++
		if a.Digest != digest || a.Type != core.ApproveIntegrity || a.Tool != "fake" {
			t.Errorf("%+v", a)
		}
		return nil
	}
	for _, other := range []string{"", "sha256:0000"} {
		if err := p.Accept(t.Context(), "fake", other, say); core.CodeOf(err) != core.CodeDigestMismatch || said != 0 {
			t.Errorf("%q: %v, said %d times", other, err, said)
		}
	}
	if err := p.Accept(t.Context(), "fke", digest, say); core.CodeOf(err) != core.CodeNoSuchTool {
		t.Error(err)
	}
	full := errors.New("the log is full")
	if err := p.Accept(t.Context(), "fake", digest, func(core.Approval) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	p.want("fake:read", "{}", "integrity")
	if err := p.Accept(t.Context(), "fake", digest, say); err != nil || said != 1 {
		t.Fatalf("%v, said %d times", err, said)
	}
	p.want("fake:read", "{}", "ok")
	if s := p.checked("fake")[0]; s.State != api.ServerReady || len(s.Needs) != 0 {
		t.Errorf("%+v", s)
	}
	if err := p.Accept(t.Context(), "fake", digest, say); core.CodeOf(err) != core.CodeDigestMismatch || said != 1 {
		t.Errorf("accepted a second time: %v", err)
	}
}

// What is not trusted is not accepted either.
func TestAccept_NotTrusted(t *testing.T) {
	t.Parallel()
	p := settle(t, readOnly).open()
	err := p.Accept(t.Context(), "fake", "sha256:0000", func(core.Approval) error { t.Error("it was decided"); return nil })
	if core.CodeOf(err) != core.CodeNotTrusted {
		t.Error(err)
	}
}
