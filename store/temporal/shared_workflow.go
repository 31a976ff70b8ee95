package temporal

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// sharedID is the workflow that keeps what belongs to no run: the audit log, the guard of
// decisions, the document of the notifications, and which flows have a workflow.
const sharedID = "pml-shared"

const (
	sharedType = "pml-shared-1"

	updateGuard   = "guard"
	updateRecord  = "record"
	updateNotices = "notices"
	signalAudit   = "audit"
	queryGuard    = "guard"
	queryNotices  = "notices"
	queryAudit    = "audit"

	activitySealAudit = "pml-seal-audit"
)

// sharedState is what the shared workflow keeps.
type sharedState struct {
	Guard core.Guard `json:"guard"`
	// Changes counts the changes of the guard: a change says which one it follows.
	Changes int64   `json:"changes"`
	Notices notices `json:"notices"`
	// Sealed are the pages of the audit log in the blobs, oldest first; Rows follow on.
	Sealed []auditPage     `json:"sealed,omitempty"`
	Rows   []core.AuditRow `json:"rows,omitempty"`
	// Last is the row that the next one follows.
	Last core.AuditRow `json:"last"`
	// Flows are those that have a workflow (flowWorkflow).
	Flows []core.FlowKey `json:"flows,omitempty"`
}

// auditPage is a part of the audit log in the blobs; Last is the number of its last row.
type auditPage struct {
	Blob string `json:"blob"`
	Last int64  `json:"last"`
}

// notices is a document with its version.
type notices struct {
	Version int64  `json:"version"`
	Doc     []byte `json:"doc,omitempty"`
	Blob    string `json:"blob,omitempty"`
}

func (n notices) same(m notices) bool { return string(n.Doc) == string(m.Doc) && n.Blob == m.Blob }

// guarded is the guard, and how often it was changed.
type guarded struct {
	Guard   core.Guard      `json:"guard"`
	Changes int64           `json:"changes"`
	Rows    []core.AuditRow `json:"rows,omitempty"`
}

// auditPart is a part of the audit log: all pages, and what follows on them.
type auditPart struct {
	Pages []auditPage     `json:"pages,omitempty"`
	Rows  []core.AuditRow `json:"rows,omitempty"`
}

// sharedWorkflow keeps what belongs to no run.
func sharedWorkflow(ctx workflow.Context, d *sharedState) error {
	if d == nil {
		d = &sharedState{}
	}
	if err := d.serve(ctx); err != nil {
		return err
	}
	signals := workflow.GetSignalChannel(ctx, signalAudit)
	full := func() bool { return workflow.GetInfo(ctx).GetContinueAsNewSuggested() }
	for !full() {
		err := workflow.Await(ctx, func() bool { return signals.Len() > 0 || full() || len(d.Rows) >= auditPageRows })
		if err != nil {
			return err
		}
		d.take(signals)
		if len(d.Rows) >= auditPageRows {
			if err := d.seal(ctx); err != nil {
				return err
			}
		}
	}
	if err := d.seal(ctx); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	d.take(signals) // a row that is not taken here would be lost
	return workflow.NewContinueAsNewError(ctx, sharedType, d)
}

// auditPageRows is how many rows of the audit log stay in the workflow.
const auditPageRows = 200

// seal takes the rows of the audit log out of the workflow.
func (d *sharedState) seal(ctx workflow.Context) error {
	if len(d.Rows) == 0 {
		return nil
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{}})
	rows := d.Rows
	var blob string
	if err := workflow.ExecuteActivity(ctx, activitySealAudit, rows).Get(ctx, &blob); err != nil {
		return err
	}
	d.Sealed = append(d.Sealed, auditPage{Blob: blob, Last: rows[len(rows)-1].Seq})
	d.Rows = d.Rows[len(rows):]
	return nil
}

// take adds the rows of all signals that have come. Each is read into a slice of its own: JSON
// that is read into a used one keeps what was there wherever a row has no such field.
func (d *sharedState) take(signals workflow.ReceiveChannel) {
	for {
		var rows []core.AuditRow
		if !signals.ReceiveAsync(&rows) {
			return
		}
		d.add(rows...)
	}
}

// add chains rows to those before them.
func (d *sharedState) add(rows ...core.AuditRow) {
	for _, row := range rows {
		next, err := approval.Chain(d.Last, row)
		if err != nil { // a row that is no JSON, which none of ours is
			next = row
		}
		d.Last = next
		d.Rows = append(d.Rows, next)
	}
}

func (d *sharedState) serve(ctx workflow.Context) error {
	if err := d.serveFlows(ctx); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, updateGuard, func(_ workflow.Context, g guarded) (none, error) {
		if err := d.follows(g); err != nil {
			return none{}, refusal(err)
		}
		d.Guard, d.Changes = g.Guard, g.Changes
		d.add(g.Rows...)
		return none{}, nil
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, g guarded) error { return refusal(d.follows(g)) }}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, updateRecord, func(_ workflow.Context, rows []core.AuditRow) (none, error) {
		d.add(rows...)
		return none{}, nil
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, updateNotices, func(_ workflow.Context, n notices) (none, error) {
		write, err := store.Follows(d.Notices.Version, n.Version, d.Notices.same(n), store.FasterNotices())
		if write {
			d.Notices = n
		}
		return none{}, refusal(err)
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, n notices) error {
		_, err := store.Follows(d.Notices.Version, n.Version, d.Notices.same(n), store.FasterNotices())
		return refusal(err)
	}}); err != nil {
		return err
	}
	for name, f := range map[string]any{
		queryGuard:   func() (guarded, error) { return guarded{Guard: d.Guard, Changes: d.Changes}, nil },
		queryNotices: func() (notices, error) { return d.Notices, nil },
		queryAudit:   func() (auditPart, error) { return auditPart{Pages: d.Sealed, Rows: d.Rows}, nil },
	} {
		if err := workflow.SetQueryHandler(ctx, name, f); err != nil {
			return err
		}
	}
	return nil
}

// errGuardMoved says that somebody else has changed the guard meanwhile.
func errGuardMoved() *core.Error {
	return core.Errorf(core.CodeNotWaiting, "another process has changed what decisions need; try again")
}

func (d *sharedState) follows(g guarded) error {
	if g.Changes != d.Changes+1 {
		return errGuardMoved()
	}
	return nil
}
