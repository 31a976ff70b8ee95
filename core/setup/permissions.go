package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/rules"
	"github.com/casys-ai/pml/store"
)

// Permissions are the permission rules of the workspace, with what the runs in the
// store say of them.
type Permissions struct{ base }

// Rules lists the rules that are in effect.
func (p *Permissions) Rules(context.Context) ([]api.PermissionRule, error) {
	cfg, err := p.config()
	if err != nil {
		return nil, err
	}
	out := []api.PermissionRule{}
	for _, l := range []struct {
		name  string
		rules []policy.Rule
	}{{"deny", cfg.Permissions.Deny}, {"ask", cfg.Permissions.Ask}, {"allow", cfg.Permissions.Allow}} {
		for i, r := range l.rules {
			from := cfg.Origin("/permissions/" + l.name + "/" + strconv.Itoa(i))
			out = append(out, api.PermissionRule{List: l.name, Tool: r.Tool, Where: r.Where, From: string(from)})
		}
	}
	return out, nil
}

// AddRules prepares a change with further rules. Those that hold already are left out;
// for the home only those that stand in its own file, as others hold in one workspace.
func (p *Permissions) AddRules(_ context.Context, home bool, rules ...api.PermissionRule) (api.ChangeSet, error) {
	file := p.o.Workspace.Config()
	if home {
		file = p.o.Home.Config()
	}
	before, err := current(file)
	if err != nil {
		return api.ChangeSet{}, err
	}
	cfg, err := p.load()
	if err != nil {
		return api.ChangeSet{}, err
	}
	after := before
	var about []string
	for _, r := range rules {
		rule := policy.Rule{Tool: r.Tool, Where: r.Where}
		if err := gate.CheckRule(rule); err != nil {
			return api.ChangeSet{}, err
		}
		if holdsAlready(cfg, home, r.List, rule) {
			continue
		}
		if after, err = env.AddRule(file, after, r.List, rule); err != nil {
			return api.ChangeSet{}, err
		}
		about = append(about, r.List+" "+rule.String())
	}
	change, err := p.Change(file, before, after)
	change.About = strings.Join(about, ", ")
	set := changeSet(change)
	set.Notes = idle(cfg.Permissions, rules)
	return set, err
}

// idle says of rules that allow one tool, whatever its arguments, that another rule stands
// against them, so that they change nothing.
func idle(have policy.Rules, rules []api.PermissionRule) (notes []string) {
	for _, r := range rules {
		if _, _, named := core.SplitTool(r.Tool); r.List != "allow" || r.Where != "" || !named || policy.Literal(r.Tool) != r.Tool {
			continue
		}
		with := have
		with.Allow = append(slices.Clone(have.Allow), policy.Rule{Tool: r.Tool})
		rules, err := policy.Compile(with)
		if err != nil {
			continue // whoever reads the configuration says so
		}
		if v := rules.Decide(r.Tool, false); v.Effect != policy.Allow {
			notes = append(notes, fmt.Sprintf("this rule changes nothing: %q in permissions.%s stands against it", core.Visible(v.Rule, 120, false), v.List))
		}
	}
	return notes
}

// holdsAlready reports whether a rule is in the configuration; with home, whether it is
// there by the file of the home.
func holdsAlready(cfg *env.Config, home bool, list string, rule policy.Rule) bool {
	have := map[string][]policy.Rule{"allow": cfg.Permissions.Allow, "ask": cfg.Permissions.Ask, "deny": cfg.Permissions.Deny}
	for i, r := range have[list] {
		if r == rule && (!home || cfg.Origin("/permissions/"+list+"/"+strconv.Itoa(i)) == env.FromHome) {
			return true
		}
	}
	return false
}

// trialTime bounds the start of servers whose tools a trial asks for.
const trialTime = 10 * time.Second

// TryRule puts past calls through the rules.
func (p *Permissions) TryRule(ctx context.Context, rule api.PermissionRule, since time.Time) (api.RuleTrial, error) {
	out := api.RuleTrial{Rule: rule, Since: since, Changed: []api.TriedCall{}}
	h, err := p.own()
	if err != nil {
		return out, err
	}
	trial, err := h.Trial(rule.List, policy.Rule{Tool: rule.Tool, Where: rule.Where})
	if err != nil {
		return out, err
	}
	text := policy.Rule{Tool: rule.Tool, Where: rule.Where}.String()
	short, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	err = p.eachRun(ctx, since, func(run core.Run) error {
		out.Runs++
		return p.eachCall(ctx, run, trial.Concerns, func(c pastCall) {
			out.Calls++
			now, then := trial.Judge(short, c.call)
			if !trial.Knows(c.call.Tool) {
				out.Unknown++
			}
			if then.Failed != nil && then.Failed.Rule == text {
				out.Failed++
			}
			if now.Effect != then.Effect {
				out.Changed = append(out.Changed, p.tried(c, now, then))
			}
		})
	})
	slices.SortStableFunc(out.Changed, func(a, b api.TriedCall) int { return b.At.Compare(a.At) })
	return out, err
}

func (p *Permissions) tried(c pastCall, now, then policy.Verdict) api.TriedCall {
	view := p.o.Machine.Redactor(p.o.Workspace.Dir)
	t := api.TriedCall{
		RunID: string(c.call.RunID), RunName: view.Text(c.call.RunName), CallID: c.call.ID, Tool: c.call.Tool, Arguments: view.JSON(c.call.Args),
		At: c.at, Now: string(now.Effect), Then: string(then.Effect), Decided: string(c.decided),
	}
	if then.Failed != nil {
		t.Reason = core.AsError(then.Failed.Err).Message
	}
	return t
}

// pastCall is a call of a run that is kept.
type pastCall struct {
	call    engine.Call
	at      time.Time
	decided core.ApprovalState // approved or denied; empty: nobody was asked
}

// eachRun goes through the runs of the workspace that began since a time, newest first.
func (p *Permissions) eachRun(ctx context.Context, since time.Time, do func(core.Run) error) error {
	const page = 200
	f := store.RunFilter{Workspace: p.o.Workspace.Dir, Limit: page}
	for {
		runs, err := p.o.Store.Runs(ctx, f)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if run.CreatedAt.Before(since) {
				return nil
			}
			if err := do(run); err != nil && core.CodeOf(err) != core.CodeNotFound { // removed meanwhile
				return err
			}
		}
		if len(runs) < page {
			return nil
		}
		f.Before = runs[len(runs)-1].ID
	}
}

// eachCall goes through the calls of a run of which the journal has the arguments.
func (p *Permissions) eachCall(ctx context.Context, run core.Run, concerns func(tool string) bool, do func(pastCall)) error {
	records, err := p.o.Store.Journal(ctx, run.ID, 0)
	if err != nil {
		return err
	}
	var order []string
	calls := map[string]core.Record{}
	for _, r := range records {
		if len(r.Args) == 0 || !concerns(r.Tool) || r.Tool == core.SleepTool || r.Tool == core.CodeTool {
			continue
		}
		key := r.CallID
		if run.Kind == core.KindReads { // each is a call of its own
			key = strconv.FormatInt(r.Seq, 10)
		}
		if _, known := calls[key]; !known {
			order = append(order, key)
		}
		calls[key] = r
	}
	if len(order) == 0 {
		return nil
	}
	asked, err := p.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, States: []core.ApprovalState{core.ApprovalApproved, core.ApprovalDenied}, Now: p.now()})
	if err != nil {
		return err
	}
	for _, key := range order {
		r := calls[key]
		args := r.Args
		if len(r.Sent) > 0 {
			args = r.Sent
		}
		c := pastCall{call: engine.Call{ID: r.CallID, Tool: r.Tool, Args: args, Digest: r.ArgsDigest, ArgsKnown: true}.Of(&run), at: r.At}
		subject := core.CallSubject(r.Tool, r.ArgsDigest)
		i := slices.IndexFunc(asked, func(a core.Approval) bool {
			return a.Type == core.ApproveTool && (a.Subject == subject || slices.Contains(a.CallIDs, r.CallID))
		})
		if i >= 0 {
			c.decided = asked[i].State
		}
		do(c)
	}
	return nil
}

// SuggestRules proposes rules from what people have decided.
func (p *Permissions) SuggestRules(ctx context.Context, since time.Time) ([]api.RuleSuggestion, error) {
	questions, err := p.questions(ctx, since)
	if err != nil {
		return nil, err
	}
	h, err := p.own()
	if err != nil {
		return nil, err
	}
	decisions := make([]rules.Decision, len(questions))
	for i, q := range questions {
		decisions[i] = q.Decision
	}
	short, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	out := []api.RuleSuggestion{}
	for _, s := range rules.Suggest(decisions, p.o.Workspace.Dir) {
		trial, err := h.Trial("allow", s.Rule)
		if err != nil {
			return nil, err
		}
		if saves := saved(short, trial, questions); saves >= rules.MinApproved {
			out = append(out, api.RuleSuggestion{Number: len(out) + 1, Saves: saves, Rule: api.PermissionRule{List: "allow", Tool: s.Rule.Tool, Where: s.Rule.Where}})
		}
	}
	return out, nil
}

// question is a decision with the call that it was about.
type question struct {
	rules.Decision
	call engine.Call
}

// saved counts the questions that would not be asked any more with the rule of a
// trial. A rule that others are stronger than saves none.
func saved(ctx context.Context, trial *gate.Trial, questions []question) (n int) {
	for _, q := range questions {
		if !q.Approved || !trial.Concerns(q.Tool) {
			continue
		}
		if now, then := trial.Judge(ctx, q.call); now.Effect == policy.Ask && then.Effect == policy.Allow {
			n++
		}
	}
	return n
}

// questions are the decisions about calls that speak for a rule or against one. A yes
// counts where a person has shown to have been asked.
func (p *Permissions) questions(ctx context.Context, since time.Time) ([]question, error) {
	rows, err := p.o.Store.Audit(ctx, store.AuditFilter{AuditFilter: core.AuditFilter{From: since, Type: core.ApproveTool, Workspace: p.o.Workspace.Dir}})
	if err != nil {
		return nil, err
	}
	person := map[core.ID]bool{}
	for _, r := range rows {
		person[r.ApprovalID] = r.Asked == core.PresenceTerminal || r.Asked == core.PresencePin || r.Asked == core.PresenceHost
	}
	list, err := p.o.Store.Approvals(ctx, store.ApprovalFilter{
		Workspace: p.o.Workspace.Dir, States: []core.ApprovalState{core.ApprovalApproved, core.ApprovalDenied}, Now: p.now(),
	})
	if err != nil {
		return nil, err
	}
	var out []question
	for _, a := range list {
		yes := a.State == core.ApprovalApproved && a.Risk != core.RiskHigh && !a.Once
		if a.Type != core.ApproveTool || a.DecidedBy == nil || yes && (a.DecidedBy.At.Before(since) || !person[a.ID] || a.IfEdited() != nil) {
			continue
		}
		var about struct {
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.Unmarshal(a.Context, &about) != nil || yes && bytes.ContainsAny(about.Arguments, "«»") { // a key that was left out
			continue
		}
		run := core.Run{ID: a.RunID, Name: a.RunName, Owner: a.Owner, RequestedBy: a.RequestedBy}
		out = append(out, question{
			rules.Decision{Tool: a.Tool, Args: about.Arguments, Approved: yes},
			engine.Call{Tool: a.Tool, Args: about.Arguments, ArgsKnown: true}.Of(&run),
		})
	}
	return out, nil
}
