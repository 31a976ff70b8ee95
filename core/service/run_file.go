package service

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/redact"
	"github.com/casys-ai/pml/store"
)

// ExportRun is a run as a file: all that is kept of it, values of keys left out. Of a
// run that goes on meanwhile it is the journal as it was at first.
func (c *history) ExportRun(ctx context.Context, id core.ID) (api.RunFile, error) {
	r, err := c.exported(ctx, id)
	if err != nil {
		return api.RunFile{}, err
	}
	return api.NewRunFile(r, c.now(), c.o.Version)
}

func (c *history) exported(ctx context.Context, id core.ID) (r api.ExportedRun, err error) {
	if r.Run, err = c.o.Store.Run(ctx, id); err != nil {
		return r, err
	}
	if r.Program, err = c.o.Store.Program(ctx, id); err != nil {
		return r, err
	}
	if r.Journal, err = c.o.Store.Journal(ctx, id, 0); err != nil {
		return r, err
	}
	if r.Checkpoints, err = c.o.Store.Checkpoints(ctx, id); err != nil {
		return r, err
	}
	if r.Approvals, err = c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: id, Now: c.now()}); err != nil {
		return r, err
	}
	if r.Events, err = c.o.Store.Events(ctx, store.EventFilter{RunID: id}); err != nil {
		return r, err
	}
	r.Run = c.present(ctx, r.Run)
	upTo := r.Run.JournalSeq
	r.Journal = r.Journal[:min(upTo, int64(len(r.Journal)))]
	r.Checkpoints = slices.DeleteFunc(r.Checkpoints, func(cp core.Checkpoint) bool { return cp.JournalSeq > upTo })
	return shownFile(c.shownOf(r.Run.Workspace), r), nil
}

// shownFile is without values of keys, and without what belongs to the store alone.
func shownFile(show redact.View, r api.ExportedRun) api.ExportedRun {
	r.Run, r.Program = show.Run(r.Run), show.Program(r.Program)
	r.Run.Owner, r.Run.Runner, r.Run.Epoch, r.Run.IdempotencyKey, r.Run.IdempotencyDigest = "", "", 0, "", ""
	for i := range r.Journal {
		r.Journal[i] = show.Record(r.Journal[i])
	}
	for i := range r.Approvals {
		r.Approvals[i] = show.Approval(r.Approvals[i])
		r.Approvals[i].Owner = ""
	}
	for i := range r.Events {
		r.Events[i] = show.Event(r.Events[i])
		r.Events[i].Owner = ""
	}
	return r
}

// ImportRun keeps a copy of the run of a file, under its own id. The copy has ended,
// whatever the run was: nothing here can take it up, and what was decided about it is
// its history. The same file again changes nothing; another run of this id is
// core.CodeDuplicate.
func (c *history) ImportRun(ctx context.Context, data []byte) (api.ImportedRun, error) {
	f, r, err := api.ParseRunFile(data)
	if err != nil {
		return api.ImportedRun{}, err
	}
	layers := len(r.Journal) + r.Run.TotalLayers
	for i, rec := range r.Journal {
		if bad := badRecord(rec, layers); bad != "" {
			return api.ImportedRun{}, core.Errorf(core.CodeInvalidArguments, "the file cannot be imported: record %d of its journal %s; nothing was changed", i+1, bad)
		}
	}
	out := api.ImportedRun{WorkflowID: r.Run.ID, Was: r.Run.State, Digest: f.Digest}
	step := c.copyOf(f, r)
	out.State = step.Run.State
	err = c.base.Store.Commit(ctx, step)
	if duplicate(err) == "" {
		return out, err
	}
	there, err := c.isThere(ctx, f, r.Run.ID)
	if err != nil {
		return api.ImportedRun{}, err
	}
	out.State, out.Already = there.State, true
	return out, nil
}

// isThere returns the run of a file if it is here already, just as it is in the file.
func (c *history) isThere(ctx context.Context, f api.RunFile, id core.ID) (core.Run, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return run, err
	}
	if run.Imported != nil && run.Imported.Digest == f.Digest {
		return run, nil
	}
	r, err := c.exported(ctx, id)
	if err != nil {
		return run, err
	}
	if now, err := api.NewRunFile(r, c.now(), c.o.Version); err != nil || now.Digest == f.Digest {
		return r.Run, err
	}
	return run, core.Errorf(core.CodeDuplicate, "the run %s is here already, and is not the same as in the file; nothing was changed. To have the one of the file, remove this one first", id.Short()).
		WithRun(id).WithNext("pml", "workflows", "rm", id.Short())
}

// copyOf is the step that adds the copy of a run of a file. It lies in this client's
// workspace: the one that the file names is another machine's, and nothing is read
// there.
func (c *history) copyOf(f api.RunFile, r api.ExportedRun) store.Step {
	now := c.now()
	run := r.Run
	run.Imported = &core.Imported{At: now.UTC(), By: c.o.By, State: run.State, Workspace: run.Workspace, Digest: f.Digest}
	run.Workspace, run.Side, run.Owner, run.Remote, run.Origin = c.o.Workspace.Dir, c.o.Side, c.scope.Owner, false, ""
	run.Runner, run.Epoch, run.IdempotencyKey, run.IdempotencyDigest = "", 0, "", ""
	run.ExpiresAt, run.Abort, run.JournalSeq = nil, nil, 0
	if !run.State.Final() {
		run.Error = core.Errorf(core.CodeAborted, "the run was %s when it was exported at %s: this is a copy, which does not go on",
			run.State, f.ExportedAt.UTC().Format("2006-01-02 15:04:05Z"))
		run.State = core.RunAborted
	}
	if run.EndedAt == nil {
		at := f.ExportedAt.UTC()
		run.EndedAt = &at
	}
	past := &store.Past{Approvals: r.Approvals, Checkpoints: r.Checkpoints}
	for i := range past.Approvals {
		a := &past.Approvals[i]
		a.Workspace, a.Side, a.Owner, a.Used = run.Workspace, run.Side, run.Owner, true
		if a.State == core.ApprovalOpen {
			a.State = core.ApprovalSuperseded
		}
	}
	return store.Step{
		Run: run, Create: true, Program: &r.Program, Records: r.Journal, Past: past, Events: r.Events,
		Audit: []core.AuditRow{{At: now, RunID: run.ID, Workspace: run.Workspace, Digest: f.Digest, Outcome: core.ApprovalApproved, By: c.o.By,
			Reason: "imported a copy of the run from a file; what was decided about it there counts for nothing here"}},
	}
}
