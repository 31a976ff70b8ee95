package plain

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/state"
)

// news says what has changed.
func (d *dialogue) news() {
	d.status.connections(d.st)
	d.status.halts(d.st)
	d.status.warnings(d.st)
	if !d.greeted && d.st.Loaded {
		d.greeted = true
		d.say("%s", d.summary())
	}
	if !d.greeted {
		return
	}
	if !d.begun { // what waits comes first
		d.approvals()
	}
	d.status.events(d.st)
	d.approvals()
}

// notRead is said of all that is not known yet.
const notRead = "the runs are not read yet."

// waiting are the approvals that wait and were not decided here just now.
func (d *dialogue) waiting() []core.Approval {
	var out []core.Approval
	for _, a := range d.st.Waiting(d.now()) {
		if !d.done[a.ID] {
			out = append(out, a)
		}
	}
	return out
}

// summary is how much runs and waits.
func (d *dialogue) summary() string {
	waiting := len(d.waiting())
	text := fmt.Sprintf("%d running, %d waiting for a decision.", d.st.CountRuns(core.RunRunning), waiting)
	if n := d.st.ExpiredRuns(d.now()); n > 0 {
		text += fmt.Sprintf(" What %d %s for has expired: pml approve asks again.", n, map[bool]string{true: "run waits", false: "runs wait"}[n == 1])
	}
	return text
}

// approvals announces what is new and says what became of the current one.
func (d *dialogue) approvals() {
	now := d.now()
	waiting := d.waiting()
	for i, a := range waiting {
		if !d.seen[a.ID] {
			d.seen[a.ID] = true
			d.mentioned[a.ID] = lately(a, now)
			d.ring()
			d.say("approval %d of %d: %s", i+1, len(waiting), d.headline(a, now))
		}
	}
	d.begun = true
	if d.current != "" {
		d.refresh()
		if why := d.card.Ended(now); why != "" {
			d.say("approval %s: %s.", d.current.Short(), why)
			d.current, d.stale = "", true
		} else if why := d.card.Expired(now); why != "" && d.lapsed != d.current {
			d.say("approval %s: %s. show %s and it can be decided all the same: pml first checks that it asks the same.", d.current.Short(), why, d.current.Short())
			d.current, d.stale = "", true
		}
	}
	if d.current == "" && len(waiting) > 0 {
		// It comes by itself: what is typed may be meant for what was before.
		d.take(waiting[0].ID, now)
	}
}

// ring rings for something new; what waits at the start is no news.
func (d *dialogue) ring() {
	if d.o.Bell && d.begun {
		_, _ = io.WriteString(d.o.Out, "\a") // as with all that is said: nobody to tell
	}
}

// lost says why what is known of a side may be out of date; empty when it is
// not. It is as on the full screen.
func (d *dialogue) lost(side core.Side) string {
	link := d.st.Links.Of(side)
	switch {
	case link.State == state.LinkLive, link.State == state.LinkNone && side != core.SideServer:
		return ""
	case side == core.SideServer:
		return "the server cannot be reached"
	}
	return "this machine's own half of pml cannot be reached"
}

// quietFor is how long what comes by itself cannot be decided.
const quietFor = decide.Quiet

// offer makes an approval the one that choices are about, because a person says
// so: that line was meant, there is no quiet period as with keys.
func (d *dialogue) offer(id core.ID) {
	d.take(id, d.now().Add(-quietFor))
	d.offered, d.stale = time.Time{}, false
}

// take makes an approval the one that choices are about, which may be decided
// quietFor after a time.
func (d *dialogue) take(id core.ID, from time.Time) {
	a, ok := d.st.Approval(id)
	if !ok {
		return
	}
	before := d.current
	d.current, d.card, d.offered = id, decide.Open(a, from), from
	if d.card.Expired(d.now()) != "" {
		d.lapsed = id // whoever chooses it is told by what is shown
	}
	d.refresh()
	if id != before {
		d.say("about approval %s, %s: choose %s", a.ID.Short(), typeName(a.Type), d.choices(a))
	}
}

func (d *dialogue) choices(a core.Approval) string {
	all := "1 deny, 2 abort run, 3 approve once, 4 more time, 5 skip, show to read all of it"
	switch a.Type { //nolint:exhaustive // the others have no more choices
	case core.ApproveInDoubt:
		all = "1 deny, 2 abort run, run-again or skip-result to say how it goes on and then 3, 4 more time, 5 skip, show to read all of it"
	case core.ApproveOAuth:
		all += ", open to sign in"
	case core.ApproveTool:
		session := ""
		if decide.OutlivesRun(a) {
			session = ", remember session"
		}
		all += ", remember run" + session + " or remember rule to approve for longer"
	}
	return all
}

// headline is an approval in one sentence.
func (d *dialogue) headline(a core.Approval, now time.Time) string {
	risk := core.Visible(string(a.Risk), 20, false)
	if why := a.RiskWhy(); why != "" {
		risk += " because " + core.Visible(why, 300, false)
	}
	return fmt.Sprintf("%s, risk %s, %s. %s in %s. Id %s.", typeName(a.Type), risk, left(a, now),
		core.Visible(a.Description, 300, false), d.st.Name(a.RunID), a.ID.Short())
}

// lately is the last moment of spoken that has no need to be mentioned once the time
// left of an approval was said: it has passed, or comes right after that.
func lately(a core.Approval, now time.Time) time.Duration {
	if a.ExpiresAt != nil {
		for _, at := range spoken {
			if a.ExpiresAt.Sub(now) <= at+10*time.Second {
				return at
			}
		}
	}
	return math.MaxInt64
}

// remind mentions the time left of what waits, at a few moments only.
func (d *dialogue) remind() {
	now := d.now()
	for _, a := range d.waiting() {
		if a.ExpiresAt == nil || !d.seen[a.ID] {
			continue
		}
		rest := a.ExpiresAt.Sub(now)
		for _, at := range spoken {
			if rest <= at && d.mentioned[a.ID] > at {
				d.say("approval %s, %s: %s.", a.ID.Short(), typeName(a.Type), left(a, now))
				d.mentioned[a.ID] = at
				break
			}
		}
	}
	if d.greeted {
		d.approvals() // what has expired by now
	}
}

// left says how long an approval still waits, in words.
func left(a core.Approval, now time.Time) string {
	if a.ExpiresAt == nil {
		return "no time limit"
	}
	rest := a.ExpiresAt.Sub(now).Round(time.Second)
	if hours := int(rest.Hours()); hours > 0 {
		if minutes := int(rest.Minutes()) % 60; minutes > 0 && hours < 10 {
			return plural(hours, "hour") + " " + plural(minutes, "minute") + " left"
		}
		return plural(hours, "hour") + " left"
	}
	minutes, seconds := int(rest.Minutes()), int(rest.Seconds())%60
	switch {
	case rest <= 0:
		return "expired"
	case minutes == 0:
		return plural(seconds, "second") + " left"
	case seconds == 0:
		return plural(minutes, "minute") + " left"
	}
	return plural(minutes, "minute") + " " + plural(seconds, "second") + " left"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// typeName is a type of approval in words.
func typeName(t core.ApprovalType) string { return approval.TypeOf(t).Words }
