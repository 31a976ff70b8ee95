package approval

import "github.com/casys-ai/pml/core"

// AbortRows are the audit rows of a request to abort a run that had none yet: who asked for
// it, how and why. A run that is ended because the one that started it has ended has none,
// as nobody has asked. Stores write them with the request.
func AbortRows(run core.Run, req core.AbortRequest) []core.AuditRow {
	if req.Follows {
		return nil
	}
	return []core.AuditRow{{
		At: req.At.UTC(), RunID: run.ID, RunName: run.Name, Workspace: run.Workspace, Outcome: core.ApprovalDenied, By: req.By,
		Reason: core.OneLine(core.AbortedRun+because(req.Reason), maxRowReason),
	}}
}
