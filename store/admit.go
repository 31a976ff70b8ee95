package store

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// Admit checks a step against the run as it is stored, the same in every store, before
// anything of the step is written. The step must come from the run's runner in its epoch
// (core.CodeFenced), must not revive a run that has ended (core.CodeFenced), must not end
// one over a replan that its runner has not seen (core.CodeNotWaiting), must continue the
// journal without a gap (core.CodeFenced), and must not begin a call after somebody has
// asked to abort the run (core.CodeAborted).
func Admit(s *Step, stored core.Run) error {
	if stored.Runner != s.Run.Runner || stored.Epoch != s.Run.Epoch {
		return Fenced(stored)
	}
	if stored.State.Final() && s.Run.State != stored.State && !core.CanMove(stored.State, s.Run.State) {
		return Fenced(stored)
	}
	if (s.Run.State == core.RunComplete || s.Run.State == core.RunFailed) && s.Run.DAGVersion < stored.DAGVersion {
		return core.Errorf(core.CodeNotWaiting, "the run %s was planned anew before it ended: it is at version %d",
			stored.ID.Short(), stored.DAGVersion).WithRun(stored.ID)
	}
	if len(s.Records) > 0 && s.Records[0].Seq != stored.JournalSeq+1 {
		return core.Errorf(core.CodeFenced, "the journal of the run %s ends at %d; a record %d does not follow on",
			stored.ID.Short(), stored.JournalSeq, s.Records[0].Seq).WithRun(stored.ID)
	}
	if stored.Abort != nil && s.Begins() {
		return Aborted(stored.ID)
	}
	return nil
}

// MayStart refuses a step that begins a call while calls are halted, the same in every
// store (core.CodeHalted). halted reads who has halted them, within the transaction.
func MayStart(s *Step, halted func() (*core.Halt, error)) error {
	if !s.Begins() {
		return nil
	}
	h, err := halted()
	if err == nil && h != nil {
		err = h.Error().WithRun(s.Run.ID)
	}
	return err
}

// KeyUsed is the error of a new run whose idempotency key another run has used:
// core.CodeDigestMismatch where both say of what they are and it is not the same, else
// core.CodeDuplicate. Both name the earlier run.
func KeyUsed(r, earlier core.Run) error {
	key, at := core.Visible(r.IdempotencyKey, 120, false), earlier.CreatedAt.UTC().Format(time.RFC3339)
	if a, b := earlier.IdempotencyDigest, r.IdempotencyDigest; a != "" && b != "" && a != b {
		return core.Errorf(core.CodeDigestMismatch, "the idempotency key %q stands for another program, input or options: the run %s of %s; nothing was run, use another key",
			key, earlier.ID.Short(), at).WithRun(earlier.ID).WithNext("pml", "workflows", "show", string(earlier.ID))
	}
	return Duplicate(earlier.ID, "the idempotency key %q was used for the run %s at %s", key, earlier.ID.Short(), at)
}

// AuditRows are the step's rows of the audit log, with the id and the workspace of the
// run where a row does not say them.
func (s *Step) AuditRows(run core.Run) []core.AuditRow {
	rows := slices.Clone(s.Audit)
	for i := range rows {
		if rows[i].RunID == "" {
			rows[i].RunID = run.ID
		}
		if rows[i].Workspace == "" {
			rows[i].Workspace = run.Workspace
		}
	}
	return rows
}
