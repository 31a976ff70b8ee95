package route

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// cursor is where a page of both halves ends: the last run that was listed of
// each. A run's id is the cursor of either half behind it.
type cursor struct {
	Local  core.ID `json:"c,omitempty"`
	Remote core.ID `json:"s,omitempty"`
}

// String is the cursor as callers give it back.
func (c cursor) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return "both." + base64.RawURLEncoding.EncodeToString(raw)
}

func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return cursor{}, nil
	}
	enc, ok := strings.CutPrefix(text, "both.")
	if !ok { // of a list that had one half only
		return cursor{Local: core.ID(text)}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(enc)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return cursor{}, core.Errorf(core.CodeInvalidArguments, "%q is not a cursor that a list gave", core.Visible(text, 80, false))
	}
	return c, nil
}

// before reports whether a run stands before another one in a list: newest first.
func before(a, b core.Run) bool {
	if n := a.CreatedAt.Compare(b.CreatedAt); n != 0 {
		return n > 0
	}
	return a.ID > b.ID
}

// Workflows lists the runs of both halves, newest first. When the server does
// not answer, those of this machine are listed and a warning is among the page's.
func (b *Backend) Workflows(ctx context.Context, states []core.RunState, limit int, at string) (api.Page[core.Run], error) {
	from, err := parseCursor(at)
	if err != nil {
		return api.Page[core.Run]{}, err
	}
	ours, err := b.o.Local.Workflows(ctx, states, limit, string(from.Local))
	if err != nil {
		return ours, err
	}
	r, err := b.server(ctx, false)
	if err == nil && r == nil {
		return ours, nil
	}
	var theirs api.Page[core.Run]
	var warnings []string
	if err == nil {
		theirs, err = b.served(ctx, r, states, limit, string(from.Remote))
	}
	if err != nil {
		if !b.absent(ctx, err) {
			return api.Page[core.Run]{}, err
		}
		theirs, warnings = api.Page[core.Run]{}, []string{missing(err)}
	}
	page := mergePages(ours, theirs, limit, from)
	page.Warnings = slices.Concat(ours.Warnings, theirs.Warnings, warnings)
	page.Notices = ours.Notices
	for _, n := range theirs.Notices {
		if !slices.Contains(page.Notices, n) {
			page.Notices = append(page.Notices, n)
		}
	}
	return page, nil
}

// served lists runs of the server, without those that it gave to this machine:
// they are in the other list.
func (b *Backend) served(ctx context.Context, r Remote, states []core.RunState, limit int, at string) (api.Page[core.Run], error) {
	var out api.Page[core.Run]
	for {
		page, err := r.Workflows(ctx, states, limit, at)
		if err != nil {
			return page, err
		}
		out.Items = slices.Grow(out.Items, len(page.Items))
		for _, run := range page.Items {
			if run.Remote {
				if _, _, err := b.o.Local.Resolve(ctx, string(run.ID)); err == nil {
					continue
				}
			}
			out.Items = append(out.Items, run)
		}
		out.Next, out.Warnings, out.Notices = page.Next, append(out.Warnings, page.Warnings...), page.Notices
		// A page that is all ours must not look like the end of the list.
		if len(out.Items) > 0 || page.Next == "" || page.Next == at {
			return out, nil
		}
		at = page.Next
	}
}

// mergePages puts two pages in order, up to a limit (0: none).
func mergePages(ours, theirs api.Page[core.Run], limit int, from cursor) api.Page[core.Run] {
	page := api.Page[core.Run]{Items: make([]core.Run, 0, len(ours.Items)+len(theirs.Items))}
	end := from
	i, j := 0, 0
	for limit <= 0 || len(page.Items) < limit {
		switch {
		case i == len(ours.Items) && ours.Next != "" || j == len(theirs.Items) && theirs.Next != "":
			// What comes next of that half is not known: it may belong here.
			page.Next = end.String()
			return page
		case i < len(ours.Items) && (j == len(theirs.Items) || before(ours.Items[i], theirs.Items[j])):
			page.Items, end.Local = append(page.Items, ours.Items[i]), ours.Items[i].ID
			i++
		case j < len(theirs.Items):
			page.Items, end.Remote = append(page.Items, theirs.Items[j]), theirs.Items[j].ID
			j++
		default:
			return page
		}
	}
	if i < len(ours.Items) || j < len(theirs.Items) || ours.Next != "" || theirs.Next != "" {
		page.Next = end.String()
	}
	return page
}

// Workflow is a run with its layers, tasks and approvals.
func (b *Backend) Workflow(ctx context.Context, id core.ID) (core.Workflow, error) {
	h, local, err := b.half(ctx, id)
	if err != nil {
		return core.Workflow{}, err
	}
	w, err := h.Workflow(ctx, id)
	if err == nil && local {
		b.report(ctx, w.Run)
	}
	return w, err
}

// ExportRun is a run of either half as a file.
func (b *Backend) ExportRun(ctx context.Context, id core.ID) (api.RunFile, error) {
	h, _, err := b.half(ctx, id)
	if err != nil {
		return api.RunFile{}, err
	}
	return h.ExportRun(ctx, id)
}

// ImportRun keeps a copy of the run of a file on this machine.
func (b *Backend) ImportRun(ctx context.Context, data []byte) (api.ImportedRun, error) {
	return b.o.Local.ImportRun(ctx, data)
}

// RemoveWorkflows removes ended runs, each from its own half; those of this
// machine first.
func (b *Backend) RemoveWorkflows(ctx context.Context, ids ...core.ID) error {
	var ours, theirs []core.ID
	var r Half
	for _, id := range ids {
		h, local, err := b.half(ctx, id)
		switch {
		case err != nil:
			return err
		case local:
			ours = append(ours, id)
		default:
			r, theirs = h, append(theirs, id)
		}
	}
	if len(ours) > 0 {
		if err := b.o.Local.RemoveWorkflows(ctx, ours...); err != nil {
			return err
		}
	}
	if len(theirs) > 0 {
		return r.RemoveWorkflows(ctx, theirs...)
	}
	return nil
}

// ended are the states of runs that may be removed.
var ended = []core.RunState{core.RunComplete, core.RunFailed, core.RunAborted, core.RunExpired}

// Prune removes runs of both halves that ended before a time and returns how
// many. When the server does not answer, it says so as a warning.
func (b *Backend) Prune(ctx context.Context, when time.Time) (int, error) {
	n, err := b.o.Local.Prune(ctx, when)
	if err != nil {
		return n, err
	}
	r, err := b.server(ctx, false)
	if err == nil && r == nil {
		return n, nil
	}
	var page api.Page[core.Run]
	if err == nil {
		page, err = r.Workflows(ctx, ended, 0, "")
	}
	if err != nil {
		if !b.absent(ctx, err) {
			return n, err
		}
		b.warn(missing(err))
		return n, nil
	}
	for _, run := range page.Items {
		at := run.UpdatedAt
		if run.EndedAt != nil {
			at = *run.EndedAt
		}
		if !at.Before(when) {
			continue
		}
		if err := r.RemoveWorkflows(ctx, run.ID); err != nil && !unknown(err) {
			return n, err
		}
		n++
	}
	return n, nil
}

// Approvals lists what waits for a person in both halves, soonest expiry first.
// When the server does not answer, it says so as a warning.
func (b *Backend) Approvals(ctx context.Context, all bool) ([]core.Approval, error) {
	return b.approvals(ctx, func(h api.Approvals) ([]core.Approval, error) { return h.Approvals(ctx, all) })
}

// Decidable lists what a decision can be about in both halves, soonest expiry first.
func (b *Backend) Decidable(ctx context.Context) ([]core.Approval, error) {
	return b.approvals(ctx, func(h api.Approvals) ([]core.Approval, error) { return h.Decidable(ctx) })
}

// approvals are those of both halves, soonest expiry first.
func (b *Backend) approvals(ctx context.Context, of func(api.Approvals) ([]core.Approval, error)) ([]core.Approval, error) {
	list, err := of(b.o.Local)
	if err != nil {
		return nil, err
	}
	r, err := b.server(ctx, false)
	if err == nil && r == nil {
		return list, nil
	}
	var theirs []core.Approval
	if err == nil {
		theirs, err = of(r)
	}
	if err != nil {
		if !b.absent(ctx, err) {
			return nil, err
		}
		b.warn(missing(err))
		return list, nil
	}
	list = slices.Concat(list, theirs)
	slices.SortStableFunc(list, core.BySoonest)
	return list, nil
}

// Approval returns one approval.
func (b *Backend) Approval(ctx context.Context, id core.ID) (core.Approval, error) {
	return b.approval(ctx, func(h Half) (core.Approval, error) { return h.Approval(ctx, id) })
}

// KeysFound names the keys that an approval of this machine, or of its own server, asks
// for and that are set by now. It is nil for one of a named server, whose files are not
// here.
func (b *Backend) KeysFound(ctx context.Context, id core.ID) ([]string, error) {
	names, err := b.o.Local.KeysFound(ctx, id)
	if !unknown(err) {
		return names, err
	}
	if b.o.Server != "" {
		return nil, nil
	}
	r, err := b.server(ctx, false)
	if err != nil || r == nil {
		return nil, err
	}
	ap, err := r.Approval(ctx, id)
	if err != nil || ap.Owner != "" {
		return nil, err
	}
	return b.o.Local.KeysOf(ctx, ap)
}

// RuleFor is the rule that would remember an approval: it stands in a file of this
// machine, also where this machine's own server has the run. The files of a named
// server are not here, and a run of somebody's API key writes none at all.
func (b *Backend) RuleFor(ctx context.Context, id core.ID) (api.Rule, error) {
	rule, err := b.o.Local.RuleFor(ctx, id)
	if !unknown(err) {
		return rule, err
	}
	r, rerr := b.server(ctx, false)
	switch {
	case rerr != nil:
		return api.Rule{}, rerr
	case r == nil:
		return api.Rule{}, err
	}
	ap, err := r.Approval(ctx, id)
	switch {
	case err != nil:
		return api.Rule{}, err
	case ap.Owner != "" || b.o.Server != "":
		return api.Rule{}, core.Errorf(core.CodePermissionDenied, "the rule would stand in a file of the server %s, which is not written from here; approve it for the run, or write the rule there: pml permissions allow",
			core.Visible(r.Name(), 120, false)).WithRun(ap.RunID).WithNext("pml", "approvals", "show", ap.ID.Short())
	}
	return b.o.Local.RuleOf(ctx, ap)
}

// Extend gives an open approval more time.
func (b *Backend) Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	return b.approval(ctx, func(h Half) (core.Approval, error) { return h.Extend(ctx, id, by) })
}

// Edited is what an approval would ask with other arguments.
func (b *Backend) Edited(ctx context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	return b.approval(ctx, func(h Half) (core.Approval, error) { return h.Edited(ctx, id, args) })
}

// Renew asks again for an approval that expired.
func (b *Backend) Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error) {
	return b.approval(ctx, func(h Half) (core.Approval, error) { return h.Renew(ctx, id, by) })
}

// approval does something with an approval of whichever half has it.
func (b *Backend) approval(ctx context.Context, do func(Half) (core.Approval, error)) (core.Approval, error) {
	ap, err := do(b.o.Local)
	if !unknown(err) {
		return ap, err
	}
	r, rerr := b.server(ctx, false)
	switch {
	case rerr != nil:
		return core.Approval{}, rerr
	case r == nil:
		return ap, err
	}
	return do(r)
}
