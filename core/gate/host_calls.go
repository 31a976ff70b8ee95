package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

// ofHost reports whether a call is one that an agent's host makes by itself, and asks
// pml about: it has no server here, and to make it is to say that the host may.
func ofHost(call engine.Call) bool { return core.OfHost(call.Requester, call.Tool) }

// HostRule is what the rules say of a call that an agent's host makes by itself. Ask
// without a rule is a call of which no rule speaks. A rule allows one only where its
// pattern names the host: what lets through every tool of every server was written
// before hosts asked.
func (h *Host) HostRule(call engine.Call) (policy.Verdict, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return policy.Verdict{}, err
	}
	return s.hostRule(call), nil
}

func (s *settings) hostRule(call engine.Call) policy.Verdict {
	v := s.policy.DecideCall(s.ruled(call, nil), false)
	host, _, _ := core.SplitTool(call.Tool)
	pattern, _, _ := strings.Cut(v.Rule, " where ")
	server, _, _ := strings.Cut(pattern, ":")
	if v.Effect == policy.Allow && server != host {
		return policy.Verdict{Effect: policy.Ask}
	}
	return v
}

// HostDenied is the refusal of a call of an agent's host by a rule.
func HostDenied(call engine.Call, v policy.Verdict) *core.Error { return deniedBy(call.Tool, v) }

// hostVerdict judges a call that an agent's host makes by itself.
func (h *Host) hostVerdict(call engine.Call) engine.Verdict {
	s, err := h.reader.recent()
	if err != nil {
		return engine.Verdict{Deny: core.AsError(err)}
	}
	// The call has no effect here: whatever becomes of it, it can be made again.
	v := engine.Verdict{Side: core.SideClient, Known: true, ReadOnly: true, Repeatable: true}
	switch p := s.hostRule(call); p.Effect {
	case policy.Deny:
		return engine.Verdict{Deny: deniedBy(call.Tool, p)}
	case policy.Allow:
	default:
		folder := ""
		if g := h.clients.of(call.RunID); g != nil {
			folder = g.Folder
		}
		v.Ask = append(v.Ask, s.byRule(s.hostPermission(call, folder), p))
	}
	return v
}

// hostMay makes a call of an agent's host that has passed its gates: that it may.
func (h *Host) hostMay(call engine.Call) (json.RawMessage, error) {
	s, err := h.reader.recent()
	if err != nil {
		return nil, core.AsError(err).WithNotMade()
	}
	if p := s.hostRule(call); p.Effect == policy.Deny {
		return nil, deniedBy(call.Tool, p)
	}
	return json.RawMessage(`{"allowed":true}`), nil
}

// hostTitles are what people call the hosts.
var hostTitles = map[string]string{core.HostClaude: "Claude Code", core.HostCodex: "Codex"}

// hostPermission asks whether an agent's host may make a call of its own with exactly
// these arguments, in a folder; without one that is the workspace.
func (s *settings) hostPermission(call engine.Call, folder string) engine.Ask {
	host, tool, _ := core.SplitTool(call.Tool)
	args := s.redact.JSON(call.Args)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	folder = cmp.Or(folder, s.all.Workspace.Dir)
	digest, err := core.DigestOf([]string{"host", call.Tool, call.Digest, folder})
	if err != nil {
		digest = call.Digest
	}
	file := s.fileChange(call)
	risk, why := s.hostRisk(tool, call.Args, file)
	shown := core.Visible(s.redact.String(folder), 300, false)
	context := map[string]any{
		"tool": call.Tool, "tool_id": call.Tool, "namespace": host, "host": hostTitles[host], "folder": shown,
		"risk_why": why, "arguments": args,
	}
	if file != nil {
		context["file"] = file
	}
	return engine.Ask{
		Type: core.ApproveHost, Subject: core.CallSubject(call.Tool, call.Digest), Tool: call.Tool, Risk: risk, Digest: digest, Once: true,
		Description: fmt.Sprintf("May %s use its tool %s in %s?", hostTitles[host], core.Visible(tool, 80, false), shown),
		Context:     context, Within: s.granted.Hooks.Wait,
	}
}

// Tools of hosts whose effect is known by their names, and words in a command that make
// it one of high risk: it deletes, takes rights, reaches out or replaces history.
var (
	hostReads    = []string{"Read", "Glob", "Grep", "LS", "NotebookRead", "TodoRead"}
	hostFetches  = []string{"WebFetch", "WebSearch"}
	commandWords = append([]string{
		"sudo", "su", "doas", "dd", "mkfs", "shutdown", "reboot", "chmod", "chown", "eval", "ssh", "scp", "curl", "wget", "push", "publish", "force", "reset",
	}, deletingWords...)
)

// hostRisk is the risk of a call of an agent's host, and why; docs/hosts.md has the same
// table. pml does not see what the host does: it goes by what the arguments say.
func (s *settings) hostRisk(tool string, args json.RawMessage, file *asked.File) (core.Risk, string) {
	var a struct {
		Command any `json:"command"`
	}
	command := json.Unmarshal(args, &a) == nil && a.Command != nil
	patch, text := tool == hostPatch, fmt.Sprint(a.Command)
	named := []json.RawMessage{args}
	if patch {
		named = append(named, patched(text)...)
	}
	dir, reads := s.all.Workspace.Dir, slices.Contains(hostReads, tool)
	out, written := "", ""
	for _, args := range named {
		out = cmp.Or(out, outside(dir, args))
		if !reads {
			written = cmp.Or(written, hostExecuted(dir, args))
		}
	}
	switch {
	case written != "":
		return core.RiskHigh, "it changes what hosts, editors, git, CI or build tools execute or obey (" + core.Visible(s.redact.String(written), 200, false) + ")"
	case out != "" && !reads:
		return core.RiskHigh, "it names a path outside of the workspace (" + core.Visible(s.redact.String(out), 200, false) + ")"
	case patch && strings.Contains(text, "*** Delete File:"):
		return core.RiskHigh, "it deletes a file"
	case patch:
		return core.RiskMedium, "it changes files by a patch"
	case command && hasWord(text, commandWords):
		return core.RiskHigh, "it runs a command with a word that deletes, takes rights or reaches beyond this machine"
	case command:
		return core.RiskMedium, "it runs a command, of which pml knows the text alone"
	case file != nil && file.Added+file.Removed >= fewLines && file.State == asked.FileChanged:
		return core.RiskHigh, "it changes 200 lines or more of a file in the workspace"
	case file != nil:
		return core.RiskMedium, "it writes a file in the workspace"
	case slices.Contains(hostFetches, tool):
		return core.RiskMedium, "it reads beyond this machine"
	case reads && out != "":
		return core.RiskMedium, "it reads outside of the workspace (" + core.Visible(s.redact.String(out), 200, false) + ")"
	case reads:
		return core.RiskLow, "it only reads, by its name"
	case hasWord(tool, deletingWords):
		return core.RiskHigh, "it destroys, by its name"
	}
	return core.RiskMedium, "pml knows nothing of it but its name and its arguments"
}

// hostPatch is Codex's tool that changes files: its command is a patch.
const hostPatch = "apply_patch"

var patchFile = regexp.MustCompile(`(?m)^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$`)

// patched are the files that a patch names, each as the argument of a tool.
func patched(patch string) (out []json.RawMessage) {
	for _, m := range patchFile.FindAllStringSubmatch(patch, -1) {
		if raw, err := json.Marshal(map[string]string{"path": m[1]}); err == nil {
			out = append(out, raw)
		}
	}
	return out
}

// hostExecuted is the path in the arguments that other programs execute or obey, or that
// is pml's own; empty for none.
func hostExecuted(dir string, args json.RawMessage) string {
	var a struct {
		Path     string `json:"path"`
		FilePath string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	if json.Unmarshal(args, &a) != nil {
		return ""
	}
	for _, p := range []string{a.Path, a.FilePath, a.Notebook} {
		if p == "" {
			continue
		}
		if filepath.IsAbs(p) {
			rel, err := filepath.Rel(dir, p)
			if err != nil {
				continue
			}
			p = rel
		}
		raw, err := json.Marshal(map[string]string{"path": p})
		if err != nil {
			continue
		}
		if found := cmp.Or(workspace.Executed("write_file", raw), workspace.Guarded("write_file", raw)); found != "" {
			return found
		}
	}
	return ""
}
