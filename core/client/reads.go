package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// get reads something, and waits a little for a server that restarts.
func (c *connection) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.persist(ctx, c.o.Limits.Timeout, false, func() error {
		return c.ask(ctx, request{method: http.MethodGet, path: path, query: query}, out)
	})
}

// Status says which server answers, and what it does.
func (c *Client) Status(ctx context.Context) (s api.ServerStatus, err error) {
	err = c.exchange(ctx, request{method: http.MethodGet, path: "/server"}, &s)
	return s, err
}

// latest names the newest run.
const latest = "@latest"

// Resolve turns what a person typed into a run and, when it names an approval,
// that approval.
func (c *Client) Resolve(ctx context.Context, text string) (id, approval core.ID, err error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == latest {
		page, err := c.Workflows(ctx, nil, 1, "")
		if err != nil {
			return "", "", err
		}
		if len(page.Items) == 0 {
			return "", "", core.Errorf(core.CodeNotFound, "there is no run yet").WithNext("pml", "execute", "FILE")
		}
		return page.Items[0].ID, "", nil
	}
	if len(text) < minPrefix {
		return "", "", core.Errorf(core.CodeNotFound, "%q is too short: give at least %d characters of the id", core.Visible(text, 40, false), minPrefix).
			WithNext("pml", "workflows", "ls")
	}
	// Of all that a server tells about a run this is the least.
	var run api.RunResult
	err = c.get(ctx, runPath(core.ID(text), "result"), nil, &run)
	switch {
	case err == nil && strings.HasPrefix(string(run.WorkflowID), text):
		return run.WorkflowID, "", nil
	case err != nil && core.CodeOf(err) != core.CodeNotFound:
		return "", "", err
	}
	ap, aerr := c.Approval(ctx, core.ID(text))
	if aerr != nil {
		if err == nil || core.CodeOf(aerr) != core.CodeNotFound {
			err = aerr
		}
		return "", "", err
	}
	return ap.RunID, ap.ID, nil
}

// minPrefix is the shortest prefix of an id that is accepted.
const minPrefix = 4

// pageLimit is the longest page of runs that a server gives.
const pageLimit = 500

// Workflows lists runs, newest first. Without a limit it lists all of them.
func (c *Client) Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	out := api.Page[core.Run]{Items: []core.Run{}}
	for {
		want := pageLimit
		if limit > 0 {
			want = min(limit-len(out.Items), pageLimit)
		}
		page, err := c.page(ctx, states, want, cursor)
		if err != nil {
			return api.Page[core.Run]{}, err
		}
		if out.Next = page.Next; len(out.Items) == 0 && page.Items != nil {
			out.Items = slices.Clip(page.Items) // what is known is not appended to
		} else {
			out.Items = append(out.Items, page.Items...)
		}
		out.Warnings = append(out.Warnings, page.Warnings...)
		if page.Next == "" || page.Next == cursor || limit > 0 && len(out.Items) >= limit {
			return out, nil
		}
		cursor = page.Next
	}
}

func (c *Client) page(ctx context.Context, states []core.RunState, limit int, cursor string) (page api.Page[core.Run], err error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if len(states) > 0 {
		names := make([]string, len(states))
		for i, s := range states {
			names[i] = string(s)
		}
		q.Set("status", strings.Join(names, ","))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if len(states) == 0 || cursor != "" { // pages of all runs are many
		err = c.get(ctx, "/workflows", q, &page)
		return page, err
	}
	of := knownPage[core.Run](c.connection, "/workflows", q)
	err = c.get(ctx, "/workflows", q, of)
	return of.Page, err
}

// Workflow is a run with its layers, tasks and approvals.
func (c *Client) Workflow(ctx context.Context, id core.ID) (w core.Workflow, err error) {
	err = c.get(ctx, runPath(id), nil, &w)
	return w, err
}

// ExportRun is a run as a file.
func (c *Client) ExportRun(ctx context.Context, id core.ID) (f api.RunFile, err error) {
	err = c.get(ctx, runPath(id, "export"), nil, &f)
	return f, err
}

// Program is what a run executes, its newest version.
func (c *Client) Program(ctx context.Context, id core.ID) (p core.Program, err error) {
	err = c.get(ctx, runPath(id, "dag"), nil, &p)
	return p, err
}

// Checkpoints lists the newest checkpoints of a run.
func (c *Client) Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error) {
	var page api.Page[core.Checkpoint]
	err := c.get(ctx, runPath(id, "checkpoints"), nil, &page)
	return page.Items, err
}

// Checkpoint is the run as it stood at a checkpoint; text is its id, or that of an
// approval that was asked for after it, or 4 or more characters of one.
func (c *Client) Checkpoint(ctx context.Context, id core.ID, text string) (v core.CheckpointView, err error) {
	err = c.get(ctx, runPath(id, "checkpoints", text), nil, &v)
	return v, err
}

// Records is a run's journal after a sequence number.
func (c *Client) Records(ctx context.Context, id core.ID, after int64) ([]core.Record, error) {
	var out []core.Record
	for {
		var page api.Page[core.Record]
		if err := c.get(ctx, runPath(id, "journal"), url.Values{"since": {strconv.FormatInt(after, 10)}}, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if len(page.Items) == 0 || page.Next == "" || page.Items[len(page.Items)-1].Seq <= after {
			return out, nil
		}
		after = page.Items[len(page.Items)-1].Seq
	}
}

// auditLimit is the longest page of the audit log that a server gives.
const auditLimit = 1000

// Audit lists rows of the server's audit log after a sequence number, as far as
// the caller may see them; limit 0 means all. A server that is too old to tell is
// core.CodeServerUnreachable.
func (c *Client) Audit(ctx context.Context, q api.AuditQuery) ([]core.AuditRow, error) {
	out := []core.AuditRow{}
	after, before := q.Since.Of(core.SideServer), q.Before.Of(core.SideServer)
	for {
		want := auditLimit
		if q.Limit > 0 {
			want = min(q.Limit-len(out), auditLimit)
		}
		var page api.Page[core.AuditRow]
		if err := c.get(ctx, "/audit", auditValues(q, after, before, want), &page); err != nil {
			return nil, c.noAudit(err)
		}
		out = append(out, page.Items...)
		if len(page.Items) == 0 || page.Next == "" || q.Limit > 0 && len(out) >= q.Limit {
			return out, nil
		}
		last := page.Items[len(page.Items)-1].Seq
		if q.Newest && (before == 0 || last < before) {
			before = last
		} else if !q.Newest && last > after {
			after = last
		} else {
			return out, nil
		}
	}
}

// auditValues is a page of the audit log as HTTP asks for it: what restricts
// nothing is left out, which a server that is older knows.
func auditValues(q api.AuditQuery, after, before int64, limit int) url.Values {
	out := url.Values{"since": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	for name, text := range map[string]string{
		"by": q.By, "tool": q.Tool, "outcome": string(q.Outcome), "type": string(q.Type), "workspace": q.Workspace, "approval": string(q.Approval),
	} {
		if text != "" {
			out.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"from": q.From, "until": q.Until} {
		if !at.IsZero() {
			out.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, on := range map[string]bool{"newest": q.Newest, "args": q.Args} {
		if on {
			out.Set(name, "true")
		}
	}
	if before > 0 {
		out.Set("before", strconv.FormatInt(before, 10))
	}
	return out
}

// VerifyAudit has the server check its whole audit log.
func (c *Client) VerifyAudit(ctx context.Context) (r api.AuditReport, err error) {
	err = c.get(ctx, "/audit/verify", nil, &r)
	return r, c.noAudit(err)
}

// noAudit is the error of a server that knows no such path.
func (c *Client) noAudit(err error) error {
	if core.CodeOf(err) != core.CodeUsage {
		return err
	}
	return core.Errorf(core.CodeServerUnreachable, "the server at %s is older than this pml and does not tell its audit log", c.name).WithNext("pml", "server", "status")
}

// RemoveWorkflows removes ended runs, one after the other; it stops at the
// first that cannot be removed.
func (c *Client) RemoveWorkflows(ctx context.Context, ids ...core.ID) error {
	for _, id := range ids {
		if err := c.ask(ctx, request{method: http.MethodDelete, path: runPath(id)}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Approvals lists what waits for a person, soonest expiry first; with all also
// what was decided or has expired.
func (c *Client) Approvals(ctx context.Context, all bool) ([]core.Approval, error) {
	q := url.Values{}
	if all {
		q.Set("all", "true")
	}
	return c.approvals(ctx, q)
}

// Decidable lists what a decision can be about, soonest expiry first.
func (c *Client) Decidable(ctx context.Context) ([]core.Approval, error) {
	return c.approvals(ctx, url.Values{"decidable": {"true"}})
}

func (c *Client) approvals(ctx context.Context, q url.Values) ([]core.Approval, error) {
	page := knownPage[core.Approval](c.connection, "/approvals", q)
	err := c.get(ctx, "/approvals", q, page)
	if page.Items == nil {
		page.Items = []core.Approval{}
	}
	return page.Items, err
}

// Approval returns one approval.
func (c *Client) Approval(ctx context.Context, id core.ID) (ap core.Approval, err error) {
	err = c.get(ctx, "/approvals/"+url.PathEscape(string(id)), nil, &ap)
	return ap, err
}

// Extend gives an open approval more time.
func (c *Client) Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	ap, err := c.Approval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	var out core.Approval
	err = c.ask(ctx, request{method: http.MethodPost, path: runPath(ap.RunID, "approvals", string(ap.ID), "extend"), body: api.ExtendBody{By: millis(by)}}, &out)
	return out, c.unknown(err, ap.RunID, "given more time")
}

// Edited is what an approval would ask with other arguments.
func (c *Client) Edited(ctx context.Context, id core.ID, args json.RawMessage) (core.Approval, error) {
	ap, err := c.Approval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	var out core.Approval
	err = c.ask(ctx, request{method: http.MethodPost, path: runPath(ap.RunID, "approvals", string(ap.ID), "edited"), body: api.EditedBody{Arguments: args}}, &out)
	return out, err
}

// Renew asks again for an approval that expired. Asking again for one that was
// asked again gives the same new one.
func (c *Client) Renew(ctx context.Context, id core.ID, _ core.Actor) (core.Approval, error) {
	ap, err := c.Approval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	var out core.Approval
	err = c.persist(ctx, c.o.Limits.Timeout, false, func() error {
		return c.ask(ctx, request{method: http.MethodPost, path: runPath(ap.RunID, "approvals", string(ap.ID), "renew")}, &out)
	})
	return out, err
}
