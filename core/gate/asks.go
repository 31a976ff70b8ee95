package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
)

// permission asks whether a tool may be called with exactly these arguments.
func (s *settings) permission(call engine.Call, a core.Annotations, needsInstall bool) engine.Ask {
	return s.permissionFor(call, s.effectOf(call.Tool, call.Args, a, needsInstall, s.fileChange(call)))
}

// permissionFor is permission of a call that has this effect.
func (s *settings) permissionFor(call engine.Call, e effect) engine.Ask {
	namespace, _, _ := core.SplitTool(call.Tool)
	args := s.redact.JSON(call.Args)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	digest, err := core.DigestOf([]string{call.Tool, call.Digest})
	if err != nil {
		digest = call.Digest
	}
	description := fmt.Sprintf("Allow %s?", core.Visible(call.Tool, 120, false))
	if e.unknown {
		description = fmt.Sprintf("Allow %s, once its server is ready?", core.Visible(call.Tool, 120, false))
	}
	risk, why := e.risk()
	context := map[string]any{
		"tool": call.Tool, "tool_id": call.Tool, "namespace": namespace, "risk_why": why,
		"arguments": args, "needs_installation": e.unknown, "leaves_workspace": e.leaves || e.outside != "",
	}
	if e.file != nil {
		context["file"] = e.file
	}
	return engine.Ask{
		Type: core.ApproveTool, Subject: core.CallSubject(call.Tool, call.Digest), Tool: call.Tool, Risk: risk,
		Digest: digest, Description: description, Context: context,
	}
}

// executing asks about a change of what other programs execute without anybody
// naming it: no rule, session or run allows it beforehand, or afterwards.
func (s *settings) executing(call engine.Call, a core.Annotations, path string) engine.Ask {
	e := s.effectOf(call.Tool, call.Args, a, false, s.fileChange(call))
	e.executed = true
	ask := s.permissionFor(call, e)
	shown := core.Visible(s.redact.String(path), 200, false)
	ask.Once = true
	ask.Description = fmt.Sprintf("Allow %s on %s? Agents' hosts, editors, git, CI or build tools execute or obey what is in it.", core.Visible(call.Tool, 120, false), shown)
	if digest, err := core.DigestOf([]string{"executed", ask.Digest}); err == nil {
		ask.Digest = digest
	}
	if context, ok := ask.Context.(map[string]any); ok {
		context["executed"] = shown
	}
	return ask
}

// keysAsk asks for keys by name; their values are never asked for.
func (s *server) keysAsk(missing []string) engine.Ask {
	list := strings.Join(missing, ", ")
	digest, err := core.DigestOf(map[string]any{"server": s.name, "missing_keys": missing})
	if err != nil {
		digest = ""
	}
	return engine.Ask{
		Type: core.ApproveKeys, Subject: s.name, Tool: s.name, Risk: core.RiskLow, Digest: digest,
		Description: fmt.Sprintf("The server %s needs %s.", s.name, list),
		Context: map[string]any{
			"tool": s.name, "missing_keys": missing,
			"instruction": fmt.Sprintf("Add %s to %s (NAME=value, one a line), then continue.", list, s.host.o.Workspace.DotEnv()),
		},
	}
}

// dependencyAsk asks whether a package may be installed, and from where.
func (s *server) dependencyAsk(ctx context.Context, spec launch.Spec, want install.Resolved) engine.Ask {
	risk, why := core.RiskMedium, "a package is installed, without install scripts"
	if len(want.Scripts) > 0 {
		risk, why = core.RiskHigh, "the package brings install scripts"
	}
	dependency := map[string]any{
		"name": want.Name, "version": want.Version, "install": want.InstallCommand,
		"integrity": want.Digest, "size_bytes": want.SizeBytes, "packages": len(want.Packages),
		"scripts": orEmpty(want.Scripts),
	}
	from := ""
	if registry := s.host.o.Installer.Registry(ctx, want.Name); registry != "" {
		dependency["registry"], from = registry, " from "+registry
	}
	context := map[string]any{"tool": s.name, "server": s.name, "range": spec.Range, "dependency": dependency, "risk_why": why}
	description := fmt.Sprintf("Install %s@%s (%d packages)%s for the server %s?", want.Name, want.Version, len(want.Packages), from, s.name)
	if failed := s.host.o.Installer.Failures.Last(want.Digest); failed != nil {
		message := s.set.redact.String(failed.Message)
		context["error"] = message
		description += " The last attempt failed: " + message
	}
	return engine.Ask{
		Type: core.ApproveDependency, Subject: s.name, Tool: s.name, Risk: risk, Digest: want.Digest,
		Description: description, Context: context,
	}
}

// treeAsk asks about files of an installed package that are not what was
// installed.
func (s *server) treeAsk(pkg install.Installed, c install.Change) engine.Ask {
	return s.integrityAsk(s.name, fmt.Sprintf("The installed files of %s@%s have changed.", pkg.Name, pkg.Version),
		approvedTree, c.OldHash, c.NewHash, s.set.bounded(c.Files))
}

// integrityAsk asks about something that differs from what was recorded.
func (s *server) integrityAsk(subject, description, kind, old, now string, changed []string) engine.Ask {
	digest, err := core.DigestOf([]string{kind, subject, old, now})
	if err != nil {
		digest = now
	}
	return engine.Ask{
		Type: core.ApproveIntegrity, Subject: subject, Tool: subject, Risk: core.RiskHigh, Digest: digest,
		Description: core.Visible(s.set.redact.String(description), 600, false),
		Context: map[string]any{
			"tool": subject, "fqdn_base": subject, "kind": kind, "old_hash": old, "new_hash": now, "changed": orEmpty(changed),
			"risk_why": riskWhy(kind, old),
		},
	}
}

// riskWhy says why a question about integrity is of high risk.
func riskWhy(kind, old string) string {
	switch {
	case old != "":
		return "it is not what was approved before"
	case kind == approvedClaims:
		return "what the server says of itself, pml cannot check"
	}
	return "nobody has approved it yet"
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
