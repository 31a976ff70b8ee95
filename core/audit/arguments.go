package audit

import (
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// argsReader finds the arguments that rows are about, for one list of rows.
type argsReader struct {
	t        *Trail
	journals map[core.ID][]core.Record // of runs with calls that bounds have permitted
}

// of are the arguments of the approval of a row, as it shows them, and what was sent instead;
// of another call that its bounds have permitted those that were sent. There are none of
// what is not kept any more.
func (a argsReader) of(ctx context.Context, row core.AuditRow, workspace string) (proposed, sent json.RawMessage, err error) {
	if row.ApprovalID == "" {
		return nil, nil, nil
	}
	list, err := a.t.view.Store.Approvals(ctx, store.ApprovalFilter{ID: row.ApprovalID, Now: a.t.now(), Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, nil, err
	}
	shown := a.t.o.Machine.Redactor(workspace)
	if row.CallID != "" && row.Shape != "" && row.Digest != list[0].Digest {
		args, err := a.permitted(ctx, row)
		return shown.JSON(args), nil, err
	}
	ap := shown.Approval(list[0])
	if ap.Answer != nil {
		sent = ap.Answer.Arguments
	}
	var asked struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(ap.Context, &asked) != nil {
		return nil, sent, nil
	}
	return asked.Arguments, sent, nil
}

// permitted are the arguments of a call that bounds have permitted, which only the journal
// of its run has.
func (a argsReader) permitted(ctx context.Context, row core.AuditRow) (args json.RawMessage, err error) {
	records, read := a.journals[row.RunID]
	if !read {
		records, err = a.t.view.Store.Journal(ctx, row.RunID, 0)
		if core.CodeOf(err) == core.CodeNotFound { // removed since
			err = nil
		}
		if err != nil {
			return nil, err
		}
		a.journals[row.RunID] = records
	}
	for _, r := range records {
		switch {
		case r.CallID != row.CallID:
		case len(r.Sent) > 0:
			args = r.Sent
		case len(r.Args) > 0:
			args = r.Args
		}
	}
	return args, nil
}
