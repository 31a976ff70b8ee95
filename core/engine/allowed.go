package engine

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/store"
)

// allowedHost is the host of a run that may call some tools only
// (core.RunOptions.Allowed, Bounds), or that is in the tree of an agent. It refuses the
// others before anything else looks at them, and knows what people have permitted in other
// runs of the tree.
type allowedHost struct {
	Host
	allowed []*policy.Policy // each of them has to allow a tool
	tree    *tree            // nil: the run is in none
}

// hostOf is the host of a run, which lets through what the run may call.
func (e *Engine) hostOf(run core.Run) (Host, error) {
	h, err := e.opts.Hosts(run.Workspace)
	lists := run.Options.AllowedLists()
	inTree := run.AgentOfChildren() != ""
	if err != nil || len(lists) == 0 && !inTree {
		return h, err
	}
	out := &allowedHost{Host: h}
	if inTree {
		out.tree = &tree{store: e.opts.Store, run: run, now: e.opts.Clock.Now, known: map[string]store.Reliance{}}
	}
	for _, list := range lists {
		p, err := policy.Compile(policy.Rules{Allow: policy.Patterns(list...)})
		if err != nil {
			return nil, core.Errorf(core.CodeInvalidArguments, "allowed_tools: %w", err)
		}
		out.allowed = append(out.allowed, p)
	}
	return out, nil
}

func (h *allowedHost) refuses(call Call) *core.Error {
	for _, p := range h.allowed {
		if p.Decide(call.Tool, false).Effect != policy.Allow {
			return core.Errorf(core.CodePermissionDenied, "%s is not among the tools that this agent may use (allowed_tools)", core.Visible(call.Tool, 120, false))
		}
	}
	return nil
}

// Try implements Host.
func (h *allowedHost) Try(call Call) (Verdict, bool) {
	if err := h.refuses(call); err != nil {
		return Verdict{Deny: err}, true
	}
	v, ok := h.Host.Try(call)
	if ok && h.tree != nil && !h.tree.knows(&v) {
		return Verdict{}, false // whether somebody has to be asked is in the store
	}
	return v, ok
}

// Check implements Host.
func (h *allowedHost) Check(ctx context.Context, call Call) Verdict {
	if err := h.refuses(call); err != nil {
		return Verdict{Deny: err}
	}
	v := h.Host.Check(ctx, call)
	if h.tree != nil {
		h.tree.look(ctx, &v)
	}
	return v
}

// Call implements Host.
func (h *allowedHost) Call(ctx context.Context, call Call, progress func(string)) (json.RawMessage, error) {
	if err := h.refuses(call); err != nil {
		return nil, err.WithNotMade()
	}
	return h.Host.Call(ctx, call, progress)
}

// tree is what people have permitted for the run of an agent, as a run of its tree sees it:
// who remembers a permission for the run means the agent, and not the one of its scripts
// that has asked. Each step that begins calls with it is checked by the store (store.Rely).
type tree struct {
	store Store
	run   core.Run
	now   func() time.Time

	mu    sync.Mutex
	known map[string]store.Reliance // by tool, as far as they were read
}

// asksFor reports whether a question is about a tool whose permission can be remembered.
func asksFor(ask Ask) bool { return ask.Type == core.ApproveTool && !ask.Once }

// knows takes the questions out of a verdict that a permission answers which was read before. It
// reports false where there may be one that was not.
func (t *tree) knows(v *Verdict) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var asks []Ask
	for _, ask := range v.Ask {
		if !asksFor(ask) {
			asks = append(asks, ask)
			continue
		}
		r, ok := t.known[ask.Tool]
		if !ok {
			return false
		}
		v.Relies = append(v.Relies, r)
	}
	v.Ask = asks
	return true
}

// look takes the questions out of a verdict that a permission of the tree answers. Where the
// store cannot be read a person is asked.
func (t *tree) look(ctx context.Context, v *Verdict) {
	if !slices.ContainsFunc(v.Ask, asksFor) {
		return
	}
	list, err := t.permitted(ctx)
	if err != nil {
		return
	}
	var asks []Ask
	for _, ask := range v.Ask {
		i := slices.IndexFunc(list, func(a core.Approval) bool { return asksFor(ask) && a.ForTree(t.run, ask.Tool) })
		if i < 0 {
			asks = append(asks, ask)
			continue
		}
		r := store.Reliance{Approval: list[i].ID, Tool: ask.Tool, By: *list[i].DecidedBy}
		v.Relies = append(v.Relies, r)
		t.mu.Lock()
		t.known[ask.Tool] = r
		t.mu.Unlock()
	}
	v.Ask = asks
}

// forget forgets a permission that the store does not let count.
func (t *tree) forget(tool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, tool)
}

// permitted are the permissions that were given in other runs of the tree.
func (t *tree) permitted(ctx context.Context) ([]core.Approval, error) {
	list, err := t.store.Approvals(ctx, store.ApprovalFilter{
		Agent: t.run.AgentOfChildren(), Workspace: t.run.Workspace, Owner: t.run.Owner, States: []core.ApprovalState{core.ApprovalApproved}, Now: t.now(),
	})
	return slices.DeleteFunc(list, func(a core.Approval) bool { return !a.ForTree(t.run, a.Tool) }), err
}

// treeOf is that of a run's host, nil where the run is in none.
func treeOf(host Host) *tree {
	if h, ok := host.(*allowedHost); ok {
		return h.tree
	}
	return nil
}

// rely keeps by whose permission in another run of the tree a call goes on, with a row in the
// audit log for each permission that the run uses.
func (g *gates) rely(c *call) {
	for _, r := range c.verdict.Relies {
		r.CallID = c.id
		g.batch.step.Relies = append(g.batch.step.Relies, r)
		if g.relied[r.Approval] {
			continue
		}
		g.relied[r.Approval] = true
		g.batch.audit(core.AuditRow{
			ApprovalID: r.Approval, Type: core.ApproveTool, Tool: c.tool, Digest: c.sent.digest, Outcome: core.ApprovalApproved,
			By: r.By.Actor, Remember: core.RememberRun, Reason: "permitted for the run of the agent " + g.run.AgentOfChildren().Short(),
		})
	}
}

// permittedElsewhere takes back the questions of the run about tools that somebody has
// permitted meanwhile in another run of its tree, and lets their calls go on.
func (g *gates) permittedElsewhere(ctx context.Context) {
	t := treeOf(g.host)
	if t == nil || g.stop.ending() || !slices.ContainsFunc(g.questions.list, openForTree) {
		return
	}
	list, err := t.permitted(ctx)
	if err != nil {
		return // they stay as they are: a person answers, or the next look does
	}
	for _, ap := range g.questions.list {
		if openForTree(ap) && slices.ContainsFunc(list, func(a core.Approval) bool { return a.Tool == ap.Tool }) {
			g.recheck(ap)
			g.questions.withdraw(ap)
		}
	}
}

// promptedElsewhere looks once more whether people are to be asked about a provider of models:
// whoever has said yes to an equal question in another run, after this one had looked and
// before they could see its own, has answered it. Any later yes finds the question.
func (g *gates) promptedElsewhere(ctx context.Context) {
	for _, c := range g.calls.order {
		if c.state != callParked || c.tool != core.ModelTool || g.mayPrompt == nil || g.stop.ending() {
			continue
		}
		ap := g.questions.own(c)
		if ap == nil || ap.State != core.ApprovalOpen || !core.IsProvider(ap.Tool) || g.lookedAgain[ap.ID] {
			continue
		}
		g.lookedAgain[ap.ID] = true
		if to, v := g.mayPrompt(ctx, *g.run, c.prompt.name); !slices.ContainsFunc(v.Ask, answeredBy(ap)) {
			g.questions.withdraw(ap)
			g.prompted(c, to, v)
		}
	}
}

// answeredElsewhere reports whether a question may be answered by what people have said in
// another run.
func (g *gates) answeredElsewhere(ap core.Approval) bool {
	return core.IsProvider(ap.Tool) || treeOf(g.host) != nil && openForTree(&ap)
}

func openForTree(ap *core.Approval) bool {
	return ap.State == core.ApprovalOpen && ap.Type == core.ApproveTool && !ap.Once
}
