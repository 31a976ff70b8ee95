package gate

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// Accept accepts what a server is now, outside of any run: what stands under the
// digest of a question about its integrity that was shown. It looks at the server anew;
// where it is another question by now, that is core.CodeDigestMismatch. decided is
// called before anything is carried out, and its error keeps it from being.
func (h *Host) Accept(ctx context.Context, name, digest string, decided func(core.Approval) error) error {
	s, err := h.reader.fresh()
	if err != nil {
		return err
	}
	if _, err := s.selected([]string{name}); err != nil {
		return err
	}
	if deny := s.refused(name+":*", name); deny != nil && deny.Code != core.CodePermissionDenied {
		return deny
	}
	h.servers.forget(name)
	r, err := h.servers.of(name).prepare(ctx, s)
	if err != nil {
		return s.clean(err)
	}
	asks, err := h.serverOf(s, name).stillAsks(r)
	if err != nil {
		return s.clean(err)
	}
	i := slices.IndexFunc(asks, func(a engine.Ask) bool {
		return a.Type == core.ApproveIntegrity && a.Digest == digest && digest != ""
	})
	if i < 0 {
		return core.Errorf(core.CodeDigestMismatch, "what was shown of the server %s (%s) is no longer what is asked; look at it again",
			core.Visible(name, 80, false), core.Visible(digest, 80, false)).WithNext("pml", "servers", "install", name)
	}
	shown, err := json.Marshal(asks[i].Context)
	if err != nil {
		return core.Errorf(core.CodeInternal, "the question about %s cannot be written down: %w", core.Visible(name, 80, false), err)
	}
	a := core.Approval{Type: core.ApproveIntegrity, Subject: asks[i].Subject, Tool: asks[i].Tool, Digest: digest, Description: asks[i].Description, Context: shown}
	if err := decided(a); err != nil {
		return err
	}
	return h.Apply(ctx, a, func(string) {})
}
