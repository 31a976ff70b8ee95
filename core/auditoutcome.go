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

// ShownReason is the reason of a row as people read it, behind what else was decided: that a no
// has aborted the run, that a yes changed the arguments, and what it allows from then on.
func ShownReason(r AuditRow) string {
	var parts []string
	add := func(is bool, text string) {
		if is {
			parts = append(parts, text)
		}
	}
	add(r.Aborted, AbortedRun)
	add(r.SentDigest != "", "changed the arguments")
	add(r.Remember == RememberRun || r.Remember == RememberSession, "allow for this "+string(r.Remember))
	rule := "allow " + r.Tool // which an older pml has not written into the reason
	add(r.Remember == RememberRule && r.Reason != rule && !strings.HasPrefix(r.Reason, rule+": "), rule)
	add(r.Shape != "" && r.Reason == "", "calls within bounds: pml approvals show "+r.ApprovalID.Short())
	add(r.Reason != "", r.Reason)
	return strings.Join(parts, ": ")
}

// ofOutcome reports whether a row has the outcome that is asked for, as people read it; a no
// with which somebody has aborted the run is denied and aborted.
func (f AuditFilter) ofOutcome(r AuditRow) bool {
	return ShownOutcome(r) == string(f.Outcome) || r.Aborted && f.Outcome == aborted
}
