package core

import "strings"

// How the reasons of rows begin that are about no approval, but about what was done.
const (
	AbortedRun = "aborted the run"
	HaltedAll  = "halted all calls"
	LetGoOn    = "let calls go on that were "
)

const aborted = "aborted"

// DoneOutcomes are all that doneOutcome says.
var DoneOutcomes = []string{"halted", "resumed", aborted}

// doneOutcome is what a row of the audit log that is about no approval says was done: with
// all calls "halted" or "resumed", with a run "aborted"; empty for any other row. What is
// stored, and covered by the hash, is "denied" or "approved": people read this instead.
func doneOutcome(r AuditRow) string {
	switch {
	case r.Type != "" || r.Tool != "":
	case r.RunID != "":
		if r.Outcome == ApprovalDenied && strings.HasPrefix(r.Reason, AbortedRun) {
			return aborted
		}
	case r.Outcome == ApprovalDenied && strings.HasPrefix(r.Reason, HaltedAll):
		return "halted"
	case r.Outcome == ApprovalApproved && strings.HasPrefix(r.Reason, LetGoOn):
		return "resumed"
	}
	return ""
}

// ShownOutcome is the outcome of a row as people read it.
func ShownOutcome(r AuditRow) string {
	if done := doneOutcome(r); done != "" {
		return done
	}
	return string(r.Outcome)
}

// ShownReason is the reason of a row as people read it: of a no that has aborted the run it
// says so.
func ShownReason(r AuditRow) string {
	switch {
	case r.Aborted && r.Reason == "":
		return AbortedRun
	case r.Aborted:
		return AbortedRun + ": " + r.Reason
	}
	return r.Reason
}

// ofOutcome reports whether a row has the outcome that is asked for, as people read it; a no
// with which somebody has aborted the run is denied and aborted.
func (f AuditFilter) ofOutcome(r AuditRow) bool {
	return ShownOutcome(r) == string(f.Outcome) || r.Aborted && f.Outcome == aborted
}
