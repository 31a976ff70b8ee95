package decide

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// Card is what stands between a person and the decision of one approval: what
// was on screen, what was typed, and what became of the approval meanwhile. It
// has no clock; the times are given.
type Card struct {
	a     core.Approval // as shown: a decision binds its digest
	gone  bool          // not known any more
	lost  string        // why what is shown may be out of date
	read  bool
	typed string
	quiet Guard
	run   core.RunState // of its run, as last known

	scripts bool
	inDoubt *core.Answer // the way on that was chosen
	shape   *core.Shape  // the bounds that are shown in place of the call alone
}

// Open begins a card. It is quiet at first: the key that opened it may be
// pressed twice.
func Open(a core.Approval, now time.Time) Card {
	c := Card{a: a}
	c.quiet.Disturb(now)
	return c
}

// Approval is what the card is about, as last known.
func (c *Card) Approval() core.Approval { return c.a }

// Update takes what is known now: the approval, whether it is known at all, and
// why its half cannot be reached, empty when it can. It reports whether what a
// decision would bind has changed; then it must be read again.
func (c *Card) Update(a core.Approval, known bool, lost string, now time.Time) (changed bool) {
	c.gone, c.lost = !known, lost
	if !known {
		return false
	}
	changed = !sameQuestion(a, c.a)
	ended := a.State != c.a.State
	c.a = a
	if changed {
		c.read, c.typed, c.scripts, c.inDoubt, c.shape = false, "", false, nil, nil
	}
	if changed || ended {
		c.quiet.Disturb(now)
	}
	return changed
}

// RunIs takes the state that the approval's run is in; empty where it is not known.
func (c *Card) RunIs(state core.RunState) { c.run = state }

// sameQuestion reports whether two approvals ask the same.
func sameQuestion(a, b core.Approval) bool {
	return a.ID == b.ID && a.RunID == b.RunID && a.Type == b.Type && a.Digest == b.Digest && a.Risk == b.Risk &&
		a.Tool == b.Tool && a.Description == b.Description && bytes.Equal(a.Context, b.Context)
}

// Disturb begins a quiet period: the terminal got the focus back, say.
func (c *Card) Disturb(now time.Time) { c.quiet.Disturb(now) }

// Read notes that the end of the payload was on screen.
func (c *Card) Read() { c.read = true }

// Unread notes that more is shown than before, which was not on screen yet.
func (c *Card) Unread() { c.read = false }

// HasRead reports whether the end of the payload was on screen.
func (c *Card) HasRead() bool { return c.read || !NeedsReading(c.a) }

// Wants is what has to be typed, empty where nothing has to.
func (c *Card) Wants() string { return approval.Confirmation(c.a, c.scripts) }

// Typed is what was typed so far.
func (c *Card) Typed() string { return c.typed }

// Type adds what was typed, and says whether that was right so far. What is
// pasted must not come here. After a wrong character all begins anew.
func (c *Card) Type(text string) bool {
	want := c.Wants()
	typed := c.typed + strings.ToLower(text)
	if !strings.HasPrefix(want, typed) {
		c.typed = ""
		return false
	}
	c.typed = typed
	return true
}

// Erase takes the last character back.
func (c *Card) Erase() {
	if n := len(c.typed); n > 0 {
		c.typed = c.typed[:n-1]
	}
}

// Confirmed reports whether all that must be typed was.
func (c *Card) Confirmed() bool { return c.typed == c.Wants() }

// Scripts returns the install scripts that the approval names.
func (c *Card) Scripts() []string {
	if c.a.Type != core.ApproveDependency {
		return nil
	}
	var shown struct {
		Dependency struct {
			Scripts []string `json:"scripts"`
		} `json:"dependency"`
	}
	if json.Unmarshal(c.a.Context, &shown) != nil {
		return nil
	}
	return shown.Dependency.Scripts
}

// ScriptsAllowed reports whether the install scripts may run with an approval.
func (c *Card) ScriptsAllowed() bool { return c.scripts }

// ToggleScripts allows the install scripts, or takes that back; it reports
// whether there are any. What was typed was for something else.
func (c *Card) ToggleScripts() bool {
	if len(c.Scripts()) == 0 {
		return false
	}
	c.scripts, c.typed = !c.scripts, ""
	return true
}

// ChooseInDoubt says how a call goes on that may have run; result is for
// core.SkipResult. It reports whether the approval is of that kind and the
// result is JSON. What was typed was for something else.
func (c *Card) ChooseInDoubt(way core.InDoubtAnswer, result json.RawMessage) bool {
	if c.a.Type != core.ApproveInDoubt {
		return false
	}
	if way == core.SkipResult {
		if len(bytes.TrimSpace(result)) == 0 {
			result = core.Null
		}
		if !json.Valid(result) {
			return false
		}
	} else {
		result = nil
	}
	c.inDoubt, c.typed = &core.Answer{InDoubt: way, Result: result}, ""
	return true
}

// Answer is what an approval would say beyond yes.
func (c *Card) Answer() *core.Answer {
	switch {
	case c.shape != nil:
		return &core.Answer{Shape: c.shape}
	case c.inDoubt != nil:
		return c.inDoubt
	case c.scripts:
		return &core.Answer{Scripts: true}
	}
	return nil
}

// Lost says why what is known may be out of date; empty when it is not.
func (c *Card) Lost() string { return c.lost }

// Expired says since when the approval has expired where it can still be decided:
// then the decision asks the gates again first. Empty otherwise.
func (c *Card) Expired(now time.Time) string {
	if c.Ended(now) != "" || c.a.StateAt(now) != core.ApprovalExpired {
		return ""
	}
	if c.a.ExpiresAt == nil {
		return "expired"
	}
	return "expired at " + c.a.ExpiresAt.In(now.Location()).Format(time.TimeOnly)
}

// Ended says that the approval waits no more, and why; empty while it waits, and
// while one that has expired can be decided all the same.
func (c *Card) Ended(now time.Time) string {
	if c.gone {
		return "it is gone: its run was removed"
	}
	switch state := c.a.StateAt(now); state {
	case core.ApprovalOpen:
		return ""
	case core.ApprovalExpired:
		switch {
		case c.a.RenewedBy != "":
			return "expired, and asked again as " + c.a.RenewedBy.Short()
		case c.run.Final():
			return "expired, and its run has ended: it is " + string(c.run)
		}
		return ""
	case core.ApprovalSuperseded:
		return "not needed any more: the run has ended, or another answer covers it"
	case core.ApprovalApproved, core.ApprovalDenied:
		if d := c.a.DecidedBy; d != nil {
			return "already " + string(state) + " by " + core.Visible(d.Origin(), 80, false) + " at " + d.At.In(now.Location()).Format(time.TimeOnly) + Because(d)
		}
		return "already " + string(state)
	default:
		return "it does not wait"
	}
}

// Because is the reason of a decision, behind who took it; empty where there is none.
func Because(d *core.DecidedBy) string {
	if d.Reason == "" {
		return ""
	}
	return ", because: " + core.Visible(d.Reason, 200, false)
}
