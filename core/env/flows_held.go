package env

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// heldFlow is a flow that checks calls and that a person has trusted. While it is not
// there as it was, nothing that it may match is called: whoever can write to the
// workspace must not get around a check by deleting it.
type heldFlow struct {
	File   string   `json:"file"`
	Digest string   `json:"digest"` // of its file and those that it uses
	Server []string `json:"server,omitempty"`
	Tool   []string `json:"tool,omitempty"`
}

// in reports whether the same flow, with the same content, is among others.
func (f heldFlow) in(list []heldFlow) bool {
	return slices.ContainsFunc(list, func(g heldFlow) bool { return g.File == f.File && g.Digest == f.Digest })
}

func unionFlows(a, b []heldFlow) (out []heldFlow) {
	for _, f := range slices.Concat(a, b) {
		if !f.in(out) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b heldFlow) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Digest, b.Digest))
	})
	return out
}

// checkingFlows are the workspace's flows that are enabled and do more than to record.
func (c *Config) checkingFlows() (out []heldFlow) {
	if c.workFlows == nil {
		return nil
	}
	for _, f := range c.workFlows.Flows {
		if f.Enabled && f.Mode != flow.Audit {
			match := f.Reach()
			out = append(out, heldFlow{File: f.File, Digest: f.Digest, Server: match.Server, Tool: match.Tool})
		}
	}
	return out
}

// holdFlows finds out which of the flows that are kept are not there any more.
func (c *Config) holdFlows() {
	if len(c.held.Flows) == 0 {
		return
	}
	there := c.checkingFlows()
	for _, f := range c.held.Flows {
		if f.in(there) {
			continue
		}
		c.goneFlows = append(c.goneFlows, f)
		text := "flows: " + strconv.Quote(f.File) + " as it was trusted, which checks "
		switch {
		case len(f.Tool) > 0:
			text += strings.Join(f.Tool, ", ")
		case len(f.Server) > 0:
			text += "all tools"
		default:
			text += "all calls"
		}
		if len(f.Server) > 0 {
			text += " of " + strings.Join(f.Server, ", ")
		}
		c.taken = append(c.taken, visibleJSON(text))
	}
}

// FlowGone refuses a call (server:tool) that a trusted flow of the workspace might
// check, while that flow is deleted, switched off or changed and no person has trusted
// the files without it: core.CodeNotTrusted. Otherwise nil.
func (c *Config) FlowGone(tool string) *core.Error {
	for _, f := range c.goneFlows {
		if (flow.Match{Server: f.Server, Tool: f.Tool}).Covers(tool) {
			return core.Errorf(core.CodeNotTrusted, "%s is refused: the flow %s, which is trusted and may check this call, was deleted, switched off or changed; put it back, or look at the change and trust it",
				core.Visible(tool, 120, false), strconv.Quote(core.Visible(f.File, 120, false))).WithNext("pml", "trust")
		}
	}
	return nil
}
