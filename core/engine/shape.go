package engine

import (
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// maxRefusals is how often the store refuses that a yes to a loop permits a call, before a
// person is asked about the call itself. One refusal is usual where another process has used
// the yes up. More mean that this process and the store differ, which trying again does not end.
const maxRefusals = 3

// A yes to one call of a script can be one to others that the same place makes (core.Shape).
// Each call that it permits is kept among the calls of its approval, with a row in the audit
// log, in the commit of the step that admits the call: so it counts once, whichever process
// makes it, and how often. The store refuses more than the yes is for (store.Step.Used).

// within reports whether such a yes answers a question about a call, and notes which. One
// that has permitted the call before still does, as long as the call is within the bounds; a call
// that somebody has refused, or changed, is none of a loop any more.
func (g *gates) within(c *call, ask Ask) bool {
	if c.refusals >= maxRefusals || ask.Type != core.ApproveTool || c.at.Line == 0 || len(c.edits) > 0 || g.questions.refused[c.id] {
		return false
	}
	var free *core.Approval
	for _, ap := range g.questions.list {
		s := ap.Shape()
		switch {
		case s == nil || s.Tool != c.tool || s.Place != c.at || !g.covers(*s, c, ask):
		case slices.Contains(ap.CallIDs, c.id):
			c.by = ap
			return true
		case free == nil && len(ap.CallIDs)+g.ahead(ap, c) < s.Max:
			free = ap
		}
	}
	c.by = free
	return free != nil
}

// ahead counts the calls that the same yes permits and that were asked about before this one:
// where it is for fewer than wait, they go first, whichever of them is checked first. So it is
// shown to the person who decides (approval.LoopTable).
func (g *gates) ahead(yes *core.Approval, c *call) (n int) {
	own := g.questions.own(c)
	for _, ap := range g.questions.list {
		switch {
		case ap == own:
			return n
		case ap.State != core.ApprovalOpen && ap.State != core.ApprovalExpired || ap.Tool != c.tool || ap.Place != c.at || len(ap.CallIDs) == 0 || slices.Contains(yes.CallIDs, ap.CallIDs[0]):
		case approval.Outside(*yes.Shape(), *ap, nil) == "":
			n++
		}
	}
	return n
}

func (g *gates) covers(s core.Shape, c *call, ask Ask) bool {
	if s.Until != nil && !g.batch.now().Before(*s.Until) {
		return false
	}
	context, err := json.Marshal(ask.Context)
	if err != nil {
		return false
	}
	sent := c.sent.raw
	if len(sent) == 0 {
		sent = json.RawMessage("{}")
	}
	q := core.Approval{Type: ask.Type, Once: ask.Once, Tool: ask.Tool, Risk: ask.Risk, Context: context, Place: c.at}
	return approval.Outside(s, q, sent) == ""
}

// permit keeps that a yes to several calls permits this one.
func (g *gates) permit(c *call) {
	c.until = nil
	if c.by == nil {
		return
	}
	ap := c.by
	s := ap.Shape()
	c.until = s.Until
	if slices.Contains(ap.CallIDs, c.id) {
		return
	}
	digest, err := s.Digest()
	if err != nil { // it was written by one
		digest = ""
	}
	ap.CallIDs, ap.Used = append(slices.Clone(ap.CallIDs), c.id), true
	g.batch.step.Used = append(g.batch.step.Used, store.Use{Approval: ap.ID, CallID: c.id, Shape: digest})
	g.batch.audit(core.AuditRow{
		ApprovalID: ap.ID, Type: core.ApproveTool, Tool: c.tool, Digest: c.sent.digest, Outcome: core.ApprovalApproved,
		By: ap.DecidedBy.Actor, Reason: "within the bounds of the approval " + ap.ID.Short(), Shape: digest, CallID: c.id,
	})
}

// takeBackPermits takes back that calls were permitted in a step that the store has refused, and
// returns those.
func (g *gates) takeBackPermits() (calls []string) {
	step := &g.batch.step
	for _, u := range step.Used {
		if u.Shape == "" {
			continue
		}
		calls = append(calls, u.CallID)
		for _, ap := range g.questions.list {
			if ap.ID == u.Approval {
				ap.CallIDs = slices.DeleteFunc(slices.Clone(ap.CallIDs), func(id string) bool { return id == u.CallID })
			}
		}
	}
	step.Used = slices.DeleteFunc(slices.Clone(step.Used), func(u store.Use) bool { return u.Shape != "" })
	step.Audit = slices.DeleteFunc(slices.Clone(step.Audit), func(r core.AuditRow) bool { return r.Shape != "" })
	return calls
}

// answers reports whether a decision may answer a question that a call is parked on.
func answers(ap *core.Approval, c *call) bool {
	s := ap.Shape()
	return slices.ContainsFunc(c.asks, answeredBy(ap)) || s != nil && s.Tool == c.tool && s.Place == c.at
}

// isOf reports whether an approval was asked about a call. One that permits others has them
// behind the call that it was asked about.
func isOf(ap *core.Approval, callID string) bool {
	if ap.Shape() != nil {
		return len(ap.CallIDs) > 0 && ap.CallIDs[0] == callID
	}
	return slices.Contains(ap.CallIDs, callID)
}
