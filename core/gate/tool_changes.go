package gate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
)

// compareTools finds the tools whose definition is not the recorded one. The
// first list of a server is recorded: it came with what was just approved.
func (s *server) compareTools(tools []core.Tool) (map[string]engine.Ask, []api.ToolChange, error) {
	recorded, err := s.recordedTools(tools)
	if err != nil {
		return nil, nil, err
	}
	asks := map[string]engine.Ask{}
	var diff []api.ToolChange
	seen := map[string]bool{}
	for _, t := range tools {
		seen[t.Name] = true
		t.Server = s.name
		now, old := install.ToolDigest(t), recorded[t.Name]
		// Also one that is asked about: what follows it is shown against it.
		s.keepTool(t)
		if old == now || s.host.o.Installer.Approvals.Approved(approvedTool, s.toolKey(t.Name), now) {
			continue
		}
		change := s.toolChange(t, old, now)
		diff = append(diff, change)
		asks[t.Name] = s.toolAsk(t, change)
	}
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if !seen[name] {
			diff = append(diff, api.ToolChange{Tool: s.set.redact.String(s.name + ":" + name), Kind: toolRemoved, OldHash: recorded[name]})
		}
	}
	return asks, diff, nil
}

// keepTool keeps a definition for the day on which it has changed. Without it
// the change is noticed all the same, and shown with less.
func (s *server) keepTool(t core.Tool) {
	if err := s.host.o.Installer.Definitions.KeepAs(install.ToolDigest(t), s.set.redact.Tool(t)); err != nil {
		s.host.o.Logger.Warn("cannot keep the definition of a tool", "tool", t.ID(), "error", err)
	}
}

// The kinds of change of a tool.
const (
	toolChanged = "changed"
	toolAdded   = "added"
	toolRemoved = "removed"
)

// The bounds of what is shown of one change.
const (
	maxChangeLines = 60
	maxChangeLine  = 400
)

// toolChange says how a tool differs from what was recorded under the digest
// old; empty means that it is new.
func (s *server) toolChange(now core.Tool, old, digest string) api.ToolChange {
	c := api.ToolChange{Tool: now.ID(), Kind: toolChanged, OldHash: old, NewHash: digest}
	now = s.set.redact.Tool(now)
	var was core.Tool
	known := true
	if old == "" {
		c.Kind = toolAdded
	} else if was, known = s.host.o.Installer.Definitions.Known(old); !known {
		c.Diff = append(c.Diff, "  what it was before is not known on this machine; this is what it is now:")
	}
	if flip := flipped(was, now, known && old != ""); flip != "" {
		c.Diff = append(c.Diff, "+ "+flip)
	}
	if known && old != "" {
		lines := install.DescribeChange(s.set.redact.Tool(was), now)
		if len(lines) == 0 {
			lines = []string{"  it differs in nothing but the values of keys, which are not shown"}
		}
		c.Diff = append(c.Diff, lines...)
	} else {
		c.Diff = append(c.Diff, install.DescribeChange(core.Tool{}, now)...)
	}
	c.Diff = s.set.bounded(c.Diff)
	return c
}

// flipped says plainly when a tool claims that it only reads, and did not
// before. known is whether was is what it said before.
func flipped(was, now core.Tool, known bool) string {
	switch {
	case now.Annotations.IsReadOnly() && known && !was.Annotations.IsReadOnly():
		return "it claims now that it only reads (readOnlyHint: true); before it did not"
	case known && was.Annotations.IsReadOnly() && !now.Annotations.IsReadOnly():
		return "it no longer claims that it only reads (readOnlyHint)"
	case now.Annotations.IsReadOnly() && !known:
		return "it claims that it only reads (readOnlyHint: true)"
	}
	return ""
}

// bounded makes lines of foreign text fit to be shown.
func (s *settings) bounded(lines []string) []string {
	out := make([]string, 0, min(len(lines), maxChangeLines+1))
	for i, line := range lines {
		if i == maxChangeLines {
			return append(out, fmt.Sprintf("  … and %d more lines", len(lines)-i))
		}
		out = append(out, core.Visible(s.redact.String(line), maxChangeLine, false))
	}
	return out
}

// toolAsk asks about a tool whose definition is not the one that was approved.
func (s *server) toolAsk(tool core.Tool, c api.ToolChange) engine.Ask {
	id := core.Visible(tool.ID(), 120, false)
	description := fmt.Sprintf("The definition of %s has changed.", id)
	if c.Kind == toolAdded {
		description = id + " is new: the server did not have it when its tools were recorded."
	}
	was, known := core.Tool{}, false
	if c.OldHash != "" {
		was, known = s.host.o.Installer.Definitions.Known(c.OldHash)
	}
	flip := flipped(was, tool, known)
	if flip != "" {
		description = fmt.Sprintf("%s: %s. %s", id, flip, description)
	}
	ask := s.integrityAsk(tool.ID(), description, approvedTool, c.OldHash, c.NewHash, c.Diff)
	if context, ok := ask.Context.(map[string]any); ok && flip != "" && believed(tool).IsReadOnly() {
		context["read_only"] = []string{tool.Name} // whoever accepts the definition has seen the claim
	}
	return ask
}
