package gate

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/policy"
)

// Provider decides whether a run may send its conversation to the provider of a model that
// is at a URL: by the rules for the provider's tool (core.ProviderTool), or because somebody
// has allowed it for the session. Otherwise a person is asked. It fails closed.
func (h *Host) Provider(run core.Run, name, base string) engine.Verdict {
	v := engine.Verdict{Known: true, ReadOnly: true, Repeatable: true}
	s, err := h.reader.recent()
	if err != nil {
		v.Deny = core.AsError(err).WithNotMade()
		return v
	}
	call := engine.Call{Tool: core.ProviderTool(base), Owner: run.Owner}
	p := s.policy.DecideCall(s.ruled(call, nil), false)
	switch {
	case p.Effect == policy.Deny:
		v.Deny = deniedBy(call.Tool, p).WithNotMade()
	case p.Effect != policy.Allow && !h.sessions.allow(call):
		v.Ask = append(v.Ask, s.byRule(s.provider(call.Tool, name, base), p))
	}
	return v
}

// provider asks whether conversations may go to a provider.
func (s *settings) provider(tool, name, base string) engine.Ask {
	shown := core.Visible(s.redact.String(base), 200, false)
	digest, err := core.DigestOf([]string{tool, base})
	if err != nil {
		digest = ""
	}
	local := onThisMachine(base)
	why := "goals, data and results of tools go there"
	if local {
		why = "goals, data and results of tools go to a program on this machine"
	}
	return engine.Ask{
		Type: core.ApproveTool, Subject: tool, Tool: tool, Risk: core.RiskMedium, Digest: digest,
		Description: fmt.Sprintf("May agents of this workspace send what they work on to %s? A yes holds for the workspace.", shown),
		Context: map[string]any{
			"tool": tool, "tool_id": tool, "model": name, "base_url": shown, "risk_why": why, "leaves_workspace": !local,
		},
	}
}

// ModelKeys asks for the keys of a model by their names, as keysAsk does for a server. The
// question is about the requests of a run, which has one model.
func (h *Host) ModelKeys(name, base string, missing []string) engine.Ask {
	tool, list := core.ProviderTool(base), strings.Join(missing, ", ")
	digest, err := core.DigestOf(map[string]any{"model": name, "base_url": base, "missing_keys": missing})
	if err != nil {
		digest = ""
	}
	return engine.Ask{
		Type: core.ApproveKeys, Subject: core.ModelTool, Tool: tool, Risk: core.RiskLow, Digest: digest,
		Description: fmt.Sprintf("The model %s needs %s.", name, list),
		Context: map[string]any{
			"tool": tool, "model": name, "missing_keys": missing,
			"instruction": fmt.Sprintf("Add %s to %s (NAME=value, one a line), then continue.", list, h.o.Workspace.DotEnv()),
		},
	}
}

// onThisMachine reports whether a URL names an address of the loopback interface.
func onThisMachine(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
}
