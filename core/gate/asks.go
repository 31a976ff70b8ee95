package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
)

// permission asks whether a tool may be called with exactly these arguments.
func (s *settings) permission(call engine.Call, a core.Annotations, needsInstall bool) engine.Ask {
	namespace, _, _ := core.SplitTool(call.Tool)
	args := s.redact.JSON(call.Args)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	digest, err := core.DigestOf([]string{call.Tool, call.Digest})
	if err != nil {
		digest = call.Digest
	}
	leaves := s.leaves(namespace, a)
	description := fmt.Sprintf("Allow %s?", core.Visible(call.Tool, 120, false))
	if needsInstall {
		description = fmt.Sprintf("Allow %s, once its server is installed?", core.Visible(call.Tool, 120, false))
	}
	context := map[string]any{
		"tool": call.Tool, "tool_id": call.Tool, "namespace": namespace,
		"arguments": args, "needs_installation": needsInstall, "leaves_workspace": leaves,
	}
	if file := s.fileChange(call); file != nil {
		context["file"] = file
	}
	return engine.Ask{
		Type: core.ApproveTool, Subject: call.Tool + "#" + call.Digest, Tool: call.Tool, Risk: riskOf(a, leaves),
		Digest: digest, Description: description, Context: context,
	}
}

// riskOf is the risk of a call of a tool that says this of itself; leaves is
// whether it reaches beyond this machine.
func riskOf(a core.Annotations, leaves bool) core.Risk {
	switch {
	case a.IsReadOnly() && !leaves:
		return core.RiskLow
	case !a.IsReadOnly() && (leaves || a.Destructive != nil && *a.Destructive):
		return core.RiskHigh
	}
	return core.RiskMedium
}

// leaves reports whether a call of a tool of a server reaches beyond this
// machine: its tool says so, or the server is elsewhere and the tool does not
// say that it stays there.
func (s *settings) leaves(server string, a core.Annotations) bool {
	if a.OpenWorld != nil {
		return *a.OpenWorld
	}
	entry, ok := s.granted.Servers[server]
	if !ok || entry.URL == "" {
		return false
	}
	at, err := url.Parse(entry.URL)
	if err != nil { // a variable: it may be anywhere
		return true
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// executing asks about a change of what other programs execute without anybody
// naming it: no rule, session or run allows it beforehand, or afterwards.
func (s *settings) executing(call engine.Call, a core.Annotations, path string) engine.Ask {
	ask := s.permission(call, a, false)
	shown := core.Visible(s.redact.String(path), 200, false)
	ask.Risk, ask.Once = core.RiskHigh, true
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
	risk := core.RiskMedium
	if len(want.Scripts) > 0 {
		risk = core.RiskHigh
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
	context := map[string]any{"tool": s.name, "server": s.name, "range": spec.Range, "dependency": dependency}
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
