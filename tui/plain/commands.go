package plain

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/screen"
)

const help = `commands about the current approval (or name another one: show 7f3a91c2):
  show            read all of it
  1 or deny       deny; words after it are the reason
  2 or abort      deny and abort its workflow
  3 or approve    approve once
  remember run    approve, and the same for the rest of this run; or remember session
  run-again       call in doubt: approve running it again
  skip-result     call in doubt: approve going on without it; JSON after it is its result
  scripts         allow the install scripts, or take that back
  4 or more       five more minutes
  5 or skip       the next one
  again ID        ask again for an approval that expired
  open            open the address to sign in
commands about workflows:
  list            what waits
  runs            the newest workflows
  run ID          one workflow with its tasks
  retry ID        run what failed again
  continue ID     go on with a workflow that was interrupted
  abort-run ID    end a workflow
  events on|off   tell every step, or only what ends and fails
  quit            leave; what waits goes on waiting`

// command does what a line says and reports whether the person leaves.
func (d *dialogue) command(ctx context.Context, line string) (leave bool) {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "":
	case "help", "?":
		d.say("%s", help)
	case "quit", "exit", "q":
		return true
	case "list":
		d.list()
	case "runs":
		d.runs()
	case "run":
		d.run(ctx, rest)
	case "events":
		d.loud = rest == "on"
		d.say("events: %s.", map[bool]string{true: "every step", false: "only what ends and fails"}[d.loud])
	case "retry", "continue", "abort-run":
		d.move(ctx, verb, rest)
	default:
		d.about(ctx, verb, rest)
	}
	return false
}

// about does something with an approval: the current one, or the one that the
// first word names.
func (d *dialogue) about(ctx context.Context, verb, rest string) {
	id, more := d.current, rest
	if word, after, _ := strings.Cut(rest, " "); len(word) >= 4 {
		if found, ok := d.approval(word); ok {
			id, more = found, strings.TrimSpace(after)
			if id != d.current {
				d.offer(id)
			}
		}
	}
	if verb == "again" {
		d.again(ctx, id, rest)
		return
	}
	if id == "" {
		d.say("nothing is waiting; type help.")
		return
	}
	switch verb {
	case "show":
		d.show(ctx)
	case "1", "deny":
		d.decide(ctx, decide.Choice{Verb: decide.Deny, Reason: more})
	case "2", "abort":
		d.decide(ctx, decide.Choice{Verb: decide.Abort, Reason: more})
	case "3", "approve":
		d.decide(ctx, decide.Choice{Verb: decide.Approve, Answer: d.card.Answer()})
	case "remember":
		d.remember(ctx, more)
	case "run-again":
		d.inDoubt(ctx, core.RunAgain, nil)
	case "skip-result":
		d.inDoubt(ctx, core.SkipResult, json.RawMessage(more))
	case "scripts":
		d.scripts()
	case "4", "more":
		d.more(ctx)
	case "5", "skip":
		d.skip()
	case "open":
		d.open(ctx)
	default:
		d.say("not understood: %s. Type help.", core.Visible(verb, 60, false))
	}
}

// approval finds an approval by the beginning of its id.
func (d *dialogue) approval(prefix string) (core.ID, bool) {
	now := d.now()
	for _, a := range append(d.st.Waiting(now), d.st.Resolved(now, 200)...) {
		if strings.HasPrefix(string(a.ID), strings.ToLower(prefix)) {
			return a.ID, true
		}
	}
	return "", false
}

// workflow finds a run by the beginning of its id.
func (d *dialogue) workflow(prefix string) (core.ID, bool) {
	if len(prefix) >= 4 {
		for _, id := range d.st.Runs() {
			if strings.HasPrefix(string(id), strings.ToLower(prefix)) {
				return id, true
			}
		}
	}
	d.say("no workflow begins with %s.", core.Visible(prefix, 60, false))
	return "", false
}

// show reads the whole of the current approval out.
func (d *dialogue) show(ctx context.Context) {
	a := d.card.Approval()
	var tasks []core.Task
	if w, err := d.o.Backend.Workflow(ctx, a.RunID); err == nil {
		for _, l := range w.Layers {
			tasks = append(tasks, l.Tasks...)
		}
	}
	d.say("approval %s", d.headline(a, d.now()))
	for _, l := range screen.Evidence(a, tasks) {
		d.say("  %s", l)
	}
	d.say("end of approval %s. The same as a command: %s", a.ID.Short(), decide.Shell(decide.Command(a, decide.Choice{Verb: decide.Approve})))
	d.card.Read()
}

// ask asks for a line. What happens meanwhile is said afterwards.
func (d *dialogue) ask(ctx context.Context, prompt string) (string, bool) {
	d.say("%s", prompt)
	select {
	case line, ok := <-d.lines:
		return strings.TrimSpace(line), ok
	case <-ctx.Done():
		return "", false
	}
}

// decide takes a decision about the current approval.
func (d *dialogue) decide(ctx context.Context, c decide.Choice) {
	approves := c.Verb == decide.Approve || c.Verb == decide.Remember
	if approves && !d.card.HasRead() {
		d.show(ctx)
	}
	if d.card.Asks(c.Verb, d.now()) {
		typed, ok := d.ask(ctx, "confirm: type "+d.card.Wants()+" to approve, anything else goes back")
		if !ok || !d.card.Type(typed) || !d.card.Confirmed() {
			d.say("not approved.")
			return
		}
	} else if approves && d.card.Why(c.Verb, d.now()) == "" {
		if typed, ok := d.ask(ctx, "confirm: type yes to approve, anything else goes back"); !ok || typed != "yes" {
			d.say("not approved.")
			return
		}
	}
	if why := d.card.Why(c.Verb, d.now()); why != "" {
		d.say("not possible: %s.", why)
		return
	}
	d.send(ctx, d.card.Approval(), c)
}

// send gives a decision to the backend.
func (d *dialogue) send(ctx context.Context, a core.Approval, c decide.Choice) {
	decision := &api.Decision{Checkpoint: a.ID, ExpectDigest: a.Digest, Reason: c.Reason, Abort: c.Verb == decide.Abort}
	if c.Verb == decide.Approve || c.Verb == decide.Remember {
		decision.Approve, decision.Answer = true, c.Answer
		pin, ok := d.pin(ctx)
		if !ok {
			return
		}
		decision.Pin = pin
	}
	_, err := d.o.Backend.Continue(ctx, api.ContinueRequest{ID: a.RunID, By: d.by(), Decision: decision})
	d.feed.Touch(a.RunID)
	if err != nil {
		d.failed(err)
		return
	}
	d.mine[a.RunID] = true
	word := map[bool]string{true: "approved", false: "denied"}[decision.Approve]
	d.say("done: %s by you at %s.", word, d.now().Format(time.TimeOnly))
	d.current = ""
}

// pin asks for the PIN where one is needed.
func (d *dialogue) pin(ctx context.Context) (string, bool) {
	need, err := d.o.Backend.NeedsPin(ctx)
	if err != nil {
		d.failed(err)
		return "", false
	}
	if !need {
		return "", true
	}
	if d.o.Secret == nil {
		return d.ask(ctx, "type the PIN")
	}
	pin, err := d.o.Secret(ctx, "PIN: ")
	if err != nil {
		d.failed(err)
	}
	return pin, err == nil
}

func (d *dialogue) by() core.Actor { return core.Actor{Who: d.o.User, Via: core.ViaTUI} }

func (d *dialogue) failed(err error) {
	e := core.AsError(err)
	if e.Decided != nil {
		d.say("too late: %s by %s via %s at %s.", "already decided", core.Visible(e.Decided.Who, 60, false), core.Visible(string(e.Decided.Via), 20, false), e.Decided.At.Format(time.TimeOnly))
		return
	}
	d.say("error: %s", core.Visible(err.Error(), 1000, true))
}

func (d *dialogue) remember(ctx context.Context, how string) {
	r := core.Remember(how)
	if r != core.RememberRun && r != core.RememberSession {
		d.say("say remember run or remember session; a rule is written with: pml continue --approve --remember rule")
		return
	}
	d.decide(ctx, decide.Choice{Verb: decide.Remember, Answer: &core.Answer{Remember: r}})
}

func (d *dialogue) inDoubt(ctx context.Context, way core.InDoubtAnswer, result json.RawMessage) {
	if !d.card.ChooseInDoubt(way, result) {
		d.say("that is for a call in doubt, and a result must be JSON.")
		return
	}
	d.decide(ctx, decide.Choice{Verb: decide.Approve, Answer: d.card.Answer()})
}

func (d *dialogue) scripts() {
	switch {
	case !d.card.ToggleScripts():
		d.say("there are no install scripts.")
	case d.card.ScriptsAllowed():
		d.say("with an approval the install scripts run: %s", core.Visible(strings.Join(d.card.Scripts(), "; "), 1000, false))
	default:
		d.say("the install scripts will not run.")
	}
}

func (d *dialogue) more(ctx context.Context) {
	a, err := d.o.Backend.Extend(ctx, d.current, 5*time.Minute)
	if err != nil {
		d.failed(err)
		return
	}
	d.st.PutApprovals(a)
	d.said[a.ID] = 1 << 62
	d.say("done: %s.", left(a, d.now()))
}

// skip goes on to the next approval that waits.
func (d *dialogue) skip() {
	waiting := d.st.Waiting(d.now())
	for i, a := range waiting {
		if a.ID == d.current {
			d.offer(waiting[(i+1)%len(waiting)].ID)
			return
		}
	}
	d.current = ""
	d.approvals()
}

func (d *dialogue) again(ctx context.Context, id core.ID, prefix string) {
	if id == "" || prefix == "" {
		d.say("say which: again and the beginning of an id; list shows them.")
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

func (d *dialogue) open(ctx context.Context) {
	var c struct {
		URL string `json:"auth_url"`
	}
	a := d.card.Approval()
	if a.Type != core.ApproveOAuth || json.Unmarshal(a.Context, &c) != nil || c.URL == "" {
		d.say("there is no address to open.")
		return
	}
	if d.o.OpenURL == nil {
		d.say("cannot open a browser here; open %s", core.Visible(c.URL, 0, false))
		return
	}
	if err := d.o.OpenURL(ctx, c.URL); err != nil {
		d.failed(err)
		return
	}
	d.say("opened in your browser.")
}
