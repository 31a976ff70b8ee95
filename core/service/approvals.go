package service

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/store"
)

func (c *decisions) renew(ctx context.Context, ap core.Approval, by core.Actor) (core.Approval, error) {
	now := c.now()
	until, err := c.askedUntil(ap.Workspace, now)
	if err != nil {
		return core.Approval{}, err
	}
	return c.o.Store.Renew(ctx, ap.ID, c.o.NewID(), now, until, by)
}

// askedUntil is when an approval of a workspace expires that is asked for at a
// time; nil: never.
func (c *decisions) askedUntil(dir string, now time.Time) (*time.Time, error) {
	cfg, err := c.configOf(dir)
	if err != nil || cfg.Approvals.TTL <= 0 {
		return nil, err
	}
	t := approval.Bounded(now.Add(cfg.Approvals.TTL))
	return &t, nil
}

// RuleFor is the rule that would remember an approval: the tool that it is
// about, allowed. Only permissions can be remembered; anything else is
// core.CodeInvalidArguments.
func (c *decisions) RuleFor(ctx context.Context, approval core.ID) (api.Rule, error) {
	ap, err := c.Approval(ctx, approval)
	if err != nil {
		return api.Rule{}, err
	}
	return c.RuleOf(ctx, ap)
}

// RuleOf is RuleFor for an approval that the server of this machine keeps.
func (c *decisions) RuleOf(_ context.Context, ap core.Approval) (api.Rule, error) {
	if ap.Type != core.ApproveTool {
		return api.Rule{}, core.Errorf(core.CodeInvalidArguments, "%s asks for %s: only the permission of a tool can be remembered as a rule, everything else is decided each time",
			ap.ID.Short(), ap.Type).WithRun(ap.RunID).WithNext("pml", "approvals", "show", ap.ID.Short())
	}
	if ap.Once {
		return api.Rule{}, core.Errorf(core.CodeInvalidArguments, "%s is about what other programs execute: that is asked about each time, and no rule allows it", ap.ID.Short()).
			WithRun(ap.RunID).WithNext("pml", "approvals", "show", ap.ID.Short())
	}
	h, err := c.host(ap.Workspace)
	if err != nil {
		return api.Rule{}, err
	}
	list, pattern, file, before, after, err := h.Rule(ap.Tool)
	if err != nil {
		return api.Rule{}, err
	}
	ch, err := c.Setup.Workspace.Change(file, before, after)
	ch.About = list + " " + pattern
	return api.Rule{Approval: ap.ID, List: list, Pattern: pattern, Change: ch}, err
}

// KeysFound names those keys of an approval that were missing when it was made
// and are set by now, in the environment or in the .env of its workspace; a
// placeholder is none. It is nil for an approval of another type. A .env or
// configuration that cannot be read is core.CodeInvalidConfig.
func (c *decisions) KeysFound(ctx context.Context, approval core.ID) ([]string, error) {
	ap, err := c.Approval(ctx, approval)
	if err != nil {
		return nil, err
	}
	return c.keysOf(ap, c.machine.Load)
}

// KeysOf is KeysFound for an approval that the server of this machine keeps: that one
// has the files of the workspace, and not the environment of this process.
func (c *decisions) KeysOf(_ context.Context, ap core.Approval) ([]string, error) {
	return c.keysOf(ap, c.machine.LoadFiles)
}

func (c *decisions) keysOf(ap core.Approval, load func(env.Workspace) (*env.Config, error)) ([]string, error) {
	if ap.Type != core.ApproveKeys {
		return nil, nil
	}
	var asked struct {
		Keys  []string `json:"missing_keys"`
		Model string   `json:"model"`
	}
	if err := json.Unmarshal(ap.Context, &asked); err != nil {
		return nil, core.Errorf(core.CodeInternal, "what %s asks for cannot be read: %w", ap.ID.Short(), err)
	}
	ws := c.o.Workspace
	if ap.Workspace != ws.Dir {
		ws = env.Workspace{Dir: ap.Workspace, Source: "run"}
	}
	cfg, err := load(ws)
	if err != nil {
		return nil, err
	}
	missing, err := missingKeys(cfg, ap, asked.Model)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, name := range asked.Keys {
		if !slices.Contains(missing, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// missingKeys are the keys that the server, or the model, of an approval is still without.
func missingKeys(cfg *env.Config, ap core.Approval, model string) ([]string, error) {
	if core.IsProvider(ap.Tool) {
		m, err := cfg.ResolveModel(model)
		return m.Missing, err
	}
	state, err := cfg.Keys(ap.Subject)
	return state.Missing, err
}

// Approvals lists what waits for a person, soonest expiry first; with all also
// what was decided or has expired.
func (c *decisions) Approvals(ctx context.Context, all bool) ([]core.Approval, error) {
	filter := store.ApprovalFilter{Now: c.now()}
	if !all {
		filter.States = []core.ApprovalState{core.ApprovalOpen}
	}
	return c.listed(ctx, filter)
}

// Decidable lists what a decision can be about, soonest expiry first: what waits for a
// person, and what has expired while its run still waits.
func (c *decisions) Decidable(ctx context.Context) ([]core.Approval, error) {
	return c.listed(ctx, store.ApprovalFilter{Now: c.now(), Decidable: true})
}

// listed are approvals as they are shown.
func (c *decisions) listed(ctx context.Context, filter store.ApprovalFilter) ([]core.Approval, error) {
	list, err := c.o.Store.Approvals(ctx, filter)
	if err != nil {
		return nil, err
	}
	paths := pathFinder{view: c.view, known: map[core.ID][]string{}}
	for i := range list {
		list[i].State = list[i].StateAt(filter.Now)
		list[i].Path = paths.of(ctx, list[i])
		list[i], _ = c.asOfNow(list[i])
		list[i] = c.shownOf(list[i].Workspace).Approval(list[i])
	}
	if list == nil {
		list = []core.Approval{}
	}
	return list, nil
}

// Approval returns one approval.
func (c *decisions) Approval(ctx context.Context, id core.ID) (core.Approval, error) {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{ID: id, Now: c.now()})
	if err != nil {
		return core.Approval{}, err
	}
	if len(list) == 0 {
		return core.Approval{}, core.Errorf(core.CodeNotFound, "there is no approval %s", id.Short()).WithNext("pml", "approvals", "ls")
	}
	list[0].State = list[0].StateAt(c.now())
	list[0].Path = (&pathFinder{view: c.view, known: map[core.ID][]string{}}).of(ctx, list[0])
	list[0], _ = c.asOfNow(list[0])
	return c.shownOf(list[0].Workspace).Approval(list[0]), nil
}

// Extend gives an open approval more time from now.
func (c *decisions) Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	if by <= 0 {
		return core.Approval{}, core.Errorf(core.CodeInvalidArguments, "the time to add must be more than 0")
	}
	ap, err := c.Approval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	from := c.now()
	if ap.ExpiresAt == nil {
		return ap, nil // it never expires
	}
	if ap.ExpiresAt.After(from) {
		from = *ap.ExpiresAt
	}
	return c.o.Store.Extend(ctx, id, approval.Bounded(from.Add(by)))
}

// Renew asks again for an approval that expired.
func (c *decisions) Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error) {
	ap, err := c.Approval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	return c.renew(ctx, ap, by)
}
