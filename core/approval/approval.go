// Package approval holds the rules of approvals as pure functions: when one
// expires, what a decision makes of it, and how the audit log is chained. The
// stores apply them within their transactions, so that all stores decide alike.
package approval

import (
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// Result is what a rule makes of an approval.
type Result struct {
	Approval core.Approval
	// Row is the audit row to append. It has neither Seq nor hashes yet: see Chain.
	Row core.AuditRow
	// Changed is false when the same had been decided before: then there is
	// nothing to write and no row.
	Changed bool
}

// Decide applies a decision to an approval at a time. The same decision again
// returns the approval as it is. Errors: core.CodeApprovalExpired,
// core.CodeNotWaiting (superseded), core.CodeDigestMismatch,
// core.CodeAlreadyDecided (with Decided), core.CodeInvalidArguments for a result
// to assume that is nested too deeply, and for a yes to a call in doubt that does
// not say which: it is neither run again nor skipped by itself, and for bounds that do not fit
// (core.Shape); core.CodePermissionDenied for bounds that an agent gives. Whether the run still waits is the
// caller's to check.
func Decide(a core.Approval, d core.Decision, now time.Time) (Result, error) {
	if err := open(a, now); err != nil && !decided(a) {
		return Result{}, err
	}
	if d.ExpectDigest != "" && d.ExpectDigest != a.Digest {
		return Result{}, core.Errorf(core.CodeDigestMismatch,
			"the approval %s is not what was shown: its digest is %s, the decision expects %s; look at it again before deciding",
			a.ID.Short(), a.Digest, d.ExpectDigest).WithRun(a.RunID).WithNext("pml", "approvals", "show", string(a.ID))
	}
	if decided(a) {
		if same(a, d) {
			return Result{Approval: a}, nil
		}
		return Result{}, AlreadyDecided(a)
	}
	if a.Type == core.ApproveInDoubt && d.Approved && (d.Answer == nil || d.Answer.InDoubt == "") {
		return Result{}, core.Errorf(core.CodeInvalidArguments,
			"%s may have run, so a yes must say which: --answer run-again runs it again, --answer skip goes on with --result; nothing was decided",
			core.Visible(a.Tool, 120, false)).WithRun(a.RunID).WithNext("pml", "approvals", "show", string(a.ID))
	}
	if a.Once && d.Approved && d.Answer != nil && d.Answer.Remember != "" {
		return Result{}, core.Errorf(core.CodeInvalidArguments,
			"this call of %s is asked about each time, whatever is remembered of the tool: approve it without remembering; nothing was decided",
			core.Visible(a.Tool, 120, false)).WithRun(a.RunID).WithNext("pml", "approvals", "show", string(a.ID))
	}
	if err := edited(a, d); err != nil {
		return Result{}, err.WithRun(a.RunID).WithNext("pml", "approvals", "show", string(a.ID))
	}
	if err := shaped(a, d, now); err != nil {
		return Result{}, err.WithRun(a.RunID).WithNext("pml", "approvals", "show", string(a.ID))
	}
	if d.Answer != nil {
		if err := core.CheckDepth("the result to assume", d.Answer.Result); err != nil {
			return Result{}, core.AsError(err).WithRun(a.RunID).WithNext("pml", "approvals", "show", string(a.ID))
		}
	}
	at := d.At
	if at.IsZero() {
		at = now
	}
	a.State = core.ApprovalDenied
	if d.Approved {
		a.State = core.ApprovalApproved
	}
	a.DecidedBy = &core.DecidedBy{Actor: d.By, At: at.UTC(), Reason: d.Reason}
	a.Answer = d.Answer
	r := row(a, at, d.By, d.Reason)
	if d.Answer != nil {
		r.Remember, r.SentDigest = d.Answer.Remember, d.Answer.Digest
		if r.Remember == core.RememberRule {
			r.Reason = core.OneLine("allow "+a.Tool+because(d.Reason), maxRowReason)
		}
	}
	if s := a.Shape(); s != nil {
		digest, err := s.Digest()
		if err != nil {
			return Result{}, err
		}
		if r.Shape = digest; len(a.CallIDs) > 0 {
			r.CallID = a.CallIDs[0]
		}
	}
	r.Asked = asked(d)
	return Result{Approval: a, Row: r, Changed: true}, nil
}

// asked says for the audit log how whoever decided was asked. Of a rule, an agent and
// a host that is not trusted with its dialog it says nothing: Via does.
func asked(d core.Decision) core.Presence {
	switch {
	case d.Presence != "":
		return d.Presence
	case d.Proved != "":
		return core.PresencePin
	case d.By.Via == core.ViaPage:
		return core.PresencePage
	case d.By.Via == core.ViaCLI || d.By.Via == core.ViaHTTP:
		return core.PresenceNobody
	}
	return ""
}

// Extend moves the expiry of an approval that is open at now; a zero until
// means that it never expires. Errors as for Decide.
func Extend(a core.Approval, until, now time.Time) (core.Approval, error) {
	if err := open(a, now); err != nil {
		return a, err
	}
	a.ExpiresAt, a.HeldMS = deadline(until), 0
	return a, nil
}

// Renew returns the copy under which an approval that expired is asked again.
// Other states are errors as for Decide, save that an open one is the caller's
// to return as it is (core.CodeInternal here).
func Renew(a core.Approval, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error) {
	switch a.StateAt(now) {
	case core.ApprovalExpired:
	case core.ApprovalOpen:
		return a, core.Errorf(core.CodeInternal, "the approval %s is open; it cannot be renewed", a.ID.Short())
	case core.ApprovalApproved, core.ApprovalDenied, core.ApprovalSuperseded:
		return a, open(a, now)
	}
	c := a
	c.ID, c.State, c.CreatedAt, c.ExpiresAt = fresh, core.ApprovalOpen, now.UTC(), until
	c.RequestedBy, c.DecidedBy, c.Answer, c.Used, c.RenewedBy, c.Renews = by, nil, nil, false, "", a.ID
	return c, nil
}

// NotNeeded is the reason of what is superseded because nobody has to answer it: the run has
// ended, or another answer covers it.
const NotNeeded = "no answer is needed any more"

// Supersede settles an open approval that is not needed any more.
func Supersede(a core.Approval, now time.Time, reason string) Result {
	return settle(a, core.ApprovalSuperseded, now, reason)
}

// Resolved returns the event that tells that an approval was settled.
func Resolved(a core.Approval, at time.Time) core.Event {
	data, err := json.Marshal(struct {
		State     core.ApprovalState `json:"state"`
		DecidedBy *core.DecidedBy    `json:"decided_by,omitempty"`
	}{a.State, a.DecidedBy})
	if err != nil { // a year beyond 9999
		data = core.Null
	}
	return core.Event{
		Type: core.EventApprovalResolved, At: at.UTC(), RunID: a.RunID, RunName: a.RunName,
		ApprovalID: a.ID, Tool: a.Tool, Data: data,
	}
}

// NotFound is the error for an id that no approval has.
func NotFound(id core.ID) *core.Error {
	return core.Errorf(core.CodeNotFound, "there is no approval %s", id).WithNext("pml", "approvals", "ls")
}

// system is who settles an approval when nobody decided.
var system = core.Actor{Who: "pml", Via: core.ViaRule}

func settle(a core.Approval, state core.ApprovalState, at time.Time, reason string) Result {
	a.State = state
	return Result{Approval: a, Row: row(a, at, system, reason), Changed: true}
}

func row(a core.Approval, at time.Time, by core.Actor, reason string) core.AuditRow {
	return core.AuditRow{
		At: at, RunID: a.RunID, RunName: a.RunName, ApprovalID: a.ID, Workspace: a.Workspace, Type: a.Type,
		Tool: a.Tool, Digest: a.Digest, Outcome: a.State, By: by, Reason: reason, Renewed: a.Renews,
	}
}

func decided(a core.Approval) bool {
	return a.State == core.ApprovalApproved || a.State == core.ApprovalDenied
}

// same reports whether a decision says what was decided. An answer that is not
// given asks for nothing beyond yes or no.
func same(a core.Approval, d core.Decision) bool {
	if d.Approved != (a.State == core.ApprovalApproved) {
		return false
	}
	if d.Answer == nil {
		return true
	}
	had := core.Answer{}
	if a.Answer != nil {
		had = *a.Answer
	}
	return had.Remember == d.Answer.Remember && had.InDoubt == d.Answer.InDoubt &&
		had.Scripts == d.Answer.Scripts && equalJSON(had.Result, d.Answer.Result) && equalJSON(had.Arguments, d.Answer.Arguments) &&
		sameShape(had.Shape, d.Answer.Shape)
}

// edited refuses changed arguments where none can be sent: they are of one call of a
// tool, and a permission that lasts longer is about what was asked.
func edited(a core.Approval, d core.Decision) *core.Error {
	an := d.Answer
	if an == nil || len(an.Arguments) == 0 {
		return nil
	}
	switch {
	case !d.Approved || a.Type != core.ApproveTool:
		return core.Errorf(core.CodeInvalidArguments, "arguments are changed with the approval of a tool's call only; nothing was decided")
	case an.Remember != "":
		return core.Errorf(core.CodeInvalidArguments, "changed arguments are approved for this call only, and not remembered; nothing was decided")
	case an.Digest == "" || core.TooDeep(an.Arguments):
		return core.Errorf(core.CodeInvalidArguments, "the changed arguments were not checked; nothing was decided")
	}
	return nil
}

func equalJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	x, err := core.Digest(a)
	y, err2 := core.Digest(b)
	return err == nil && err2 == nil && x == y
}

// open returns nil for an approval that can be decided at now, else why not.
func open(a core.Approval, now time.Time) error {
	switch a.StateAt(now) {
	case core.ApprovalOpen:
		return nil
	case core.ApprovalExpired:
		return core.Errorf(core.CodeApprovalExpired,
			"the approval %s has expired (approvals.ttl); nothing ran and nothing is lost: decide it all the same, which asks again, or continue the run; do not execute again",
			a.ID.Short()).WithRun(a.RunID).WithNext("pml", "continue", string(a.RunID))
	case core.ApprovalApproved, core.ApprovalDenied:
		return AlreadyDecided(a)
	case core.ApprovalSuperseded:
	}
	return NotWaiting(a)
}

// NotWaiting says that nobody waits for an approval any more.
func NotWaiting(a core.Approval) *core.Error {
	return core.Errorf(core.CodeNotWaiting,
		"the approval %s is not needed any more: the run has ended, or another answer covers it", a.ID.Short()).
		WithRun(a.RunID).WithNext("pml", "workflows", "show", string(a.RunID))
}

// AlreadyDecided says who has decided an approval, and how.
func AlreadyDecided(a core.Approval) *core.Error {
	by := core.DecidedBy{}
	if a.DecidedBy != nil {
		by = *a.DecidedBy
	}
	e := core.Errorf(core.CodeAlreadyDecided, "the approval %s was already %s by %s (via %s) at %s",
		a.ID.Short(), a.State, by.Name(), by.Via, by.At.UTC().Format(time.RFC3339)).
		WithRun(a.RunID).WithNext("pml", "workflows", "show", string(a.RunID))
	e.Decided = &by
	return e
}

func deadline(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = Bounded(t).UTC()
	return &t
}

// latest is the end of all deadlines: what stores count in nanoseconds ends in
// the year 2262.
var latest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// Bounded is a deadline that every store can keep: a later one than the year 2200
// is that.
func Bounded(t time.Time) time.Time {
	if t.After(latest) {
		return latest
	}
	return t
}
