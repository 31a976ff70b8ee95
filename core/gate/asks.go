package gate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
)

// permission asks whether a tool may be called with exactly these arguments.
func (h *Host) permission(s *settings, call engine.Call, a core.Annotations, needsInstall bool) engine.Ask {
	namespace, _, _ := core.SplitTool(call.Tool)
	args := s.redact.JSON(call.Args)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	digest, err := core.DigestOf([]string{call.Tool, call.Digest})
	if err != nil {
		digest = call.Digest
	}
	risk := core.RiskMedium
	switch {
	case a.IsReadOnly():
		risk = core.RiskLow
	case a.Destructive != nil && *a.Destructive:
		risk = core.RiskHigh
	}
	description := fmt.Sprintf("Allow %s?", core.Visible(call.Tool, 120, false))
	if needsInstall {
		description = fmt.Sprintf("Allow %s, once its server is installed?", core.Visible(call.Tool, 120, false))
	}
	return engine.Ask{
		Type: core.ApproveTool, Subject: call.Tool + "#" + call.Digest, Tool: call.Tool, Risk: risk,
		Digest: digest, Description: description,
		Context: map[string]any{
			"tool": call.Tool, "tool_id": call.Tool, "namespace": namespace,
			"arguments": args, "needs_installation": needsInstall,
		},
	}
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

// dependencyAsk asks whether a package may be installed.
func (s *server) dependencyAsk(spec install.Spec, want install.Resolved) engine.Ask {
	risk := core.RiskMedium
	if len(want.Scripts) > 0 {
		risk = core.RiskHigh
	}
	dependency := map[string]any{
		"name": want.Name, "version": want.Version, "install": want.InstallCommand,
		"integrity": want.Digest, "size_bytes": want.SizeBytes, "packages": len(want.Packages),
		"scripts": orEmpty(want.Scripts),
	}
	context := map[string]any{"tool": s.name, "server": s.name, "range": spec.Range, "dependency": dependency}
	description := fmt.Sprintf("Install %s@%s (%d packages) for the server %s?", want.Name, want.Version, len(want.Packages), s.name)
	if failed := s.host.lastFailure(s.name); failed != nil {
		context["error"] = failed.Message
		description += " The last attempt failed: " + failed.Message
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
		approvedTree, c.OldHash, c.NewHash, s.bounded(c.Files))
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
		},
	}
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
