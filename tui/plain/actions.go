package plain

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// choose takes a decision that a verb says.
func (d *dialogue) choose(ctx context.Context, verb, more string) {
	switch verb {
	case "1", "deny":
		d.decide(ctx, decide.Choice{Verb: decide.Deny, Reason: more})
	case "2", "abort":
		d.decide(ctx, decide.Choice{Verb: decide.Abort, Reason: more})
	case "3", "approve":
		d.decide(ctx, decide.Choice{Verb: decide.Approve, Answer: d.card.Answer()})
	case "loop":
		d.loop(ctx, more)
	case "remember":
		d.remember(ctx, more)
	case "run-again":
		d.inDoubt(ctx, core.RunAgain, nil)
	case "skip-result":
		d.inDoubt(ctx, core.SkipResult, json.RawMessage(more))
	}
}

func (d *dialogue) more(ctx context.Context) {
	if !d.possible(decide.Deny) {
		return
	}
	a, err := d.o.Backend.Extend(ctx, d.current, 5*time.Minute)
	if err != nil {
		d.failed(err)
		return
	}
	d.st.PutApprovals(a)
	d.mentioned[a.ID] = 1 << 62
	d.say("done: %s.", left(a, d.now()))
}

// skip goes on to the next approval that waits.
func (d *dialogue) skip() {
	waiting := d.waiting()
	for i, a := range waiting {
		if a.ID == d.current {
			d.offer(waiting[(i+1)%len(waiting)].ID)
			return
		}
	}
	d.current = ""
	d.approvals()
}

// again asks again for an approval that expired.
func (d *dialogue) again(ctx context.Context, prefix string) {
	id := core.ID("")
	if len(prefix) >= 4 {
		id = d.approval(prefix)
	}
	a, known := d.st.Approval(id)
	if !known {
		d.say("say which: again and the beginning of an id; list shows them.")
		return
	}
	if d.off(a.Side) {
		return
	}
	a, err := d.o.Backend.Renew(ctx, id, d.by())
	if err != nil {
		d.failed(err)
		return
	}
	d.st.PutApprovals(a)
	d.approvals()
	d.offer(a.ID)
}

// off says that nothing can be done on a side, where that is so.
func (d *dialogue) off(side core.Side) bool {
	why := d.lost(side)
	if why != "" {
		d.say("not possible: %s: decisions are off, nothing is queued.", why)
	}
	return why != ""
}

// open opens the address to sign in, if it is one of the web: any other one
// could start a program.
func (d *dialogue) open(ctx context.Context) {
	var c struct {
		URL string `json:"auth_url"`
	}
	a := d.card.Approval()
	if a.Type != core.ApproveOAuth || json.Unmarshal(a.Context, &c) != nil || c.URL == "" {
		d.say("there is no address to open.")
		return
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		d.say("only an address of the web can be opened, not %s", core.Visible(c.URL, 300, false))
		return
	case d.o.OpenURL == nil:
		d.say("cannot open a browser here; open %s", core.Visible(c.URL, 0, false))
		return
	}
	if err := d.o.OpenURL(ctx, c.URL); err != nil {
		d.failed(err)
		return
	}
	d.say("opened in your browser.")
}
