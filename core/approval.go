package core

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// ApprovalType is what a person is asked for.
type ApprovalType string

// The types of approval.
const (
	ApproveDependency ApprovalType = "dependency"
	ApproveKeys       ApprovalType = "api_key_required"
	ApproveIntegrity  ApprovalType = "integrity"
	ApproveTool       ApprovalType = "tool_permission"
	ApproveOAuth      ApprovalType = "oauth_connect"
	ApproveLayer      ApprovalType = "layer"
	ApproveInDoubt    ApprovalType = "in_doubt"
	ApproveHook       ApprovalType = "hook"
	ApproveBudget     ApprovalType = "budget"
	// ApproveHost is a call that an agent's host makes by itself, of a tool of its own.
	ApproveHost ApprovalType = "host_permission"
)

// ApprovalState is the state of an approval.
type ApprovalState string

// The states of an approval. Only an open one can be decided.
const (
	ApprovalOpen       ApprovalState = "open"
	ApprovalApproved   ApprovalState = "approved"
	ApprovalDenied     ApprovalState = "denied"
	ApprovalExpired    ApprovalState = "expired"
	ApprovalSuperseded ApprovalState = "superseded"
)

// Risk is how much harm an approval can do.
type Risk string

// The levels of risk.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Below reports whether a risk is less than another; one that is not known is high.
func (r Risk) Below(other Risk) bool {
	known := []Risk{RiskLow, RiskMedium}
	i, j := slices.Index(known, r), slices.Index(known, other)
	return i >= 0 && (j < 0 || i < j)
}

// Approval is a question to a person and, later, its answer.
type Approval struct {
	ID    ID `json:"checkpoint_id"`
	RunID ID `json:"workflow_id"`
	// RunName is the name of the run; an older pml has kept none.
	RunName string `json:"workflow_name,omitempty"`
	// Agent is the agent in whose tree of runs the run is; empty: in none.
	Agent     ID     `json:"agent_id,omitempty"`
	Workspace string `json:"workspace"`
	Side      Side   `json:"side"`
	Owner     string `json:"owner,omitempty"` // of the run, filled in by the store
	// CallIDs are the calls that wait for it.
	CallIDs []string `json:"call_ids,omitempty"`
	// PlannedFor names the planned call that it was asked for ahead of time: see Planned.
	PlannedFor string `json:"planned_for,omitempty"`
	// Place is where the script makes the call that it is about, in the user's source;
	// zero where no script does, and for what is asked ahead. Computed names the arguments
	// that the script computes there, as far as analysis knows.
	Place    Position     `json:"place,omitzero"`
	Computed []string     `json:"computed,omitempty"`
	Type     ApprovalType `json:"approval_type"`
	// Subject is what makes two questions the same within a run: the server
	// of a dependency, the call of a permission.
	Subject     string          `json:"subject"`
	Tool        string          `json:"tool,omitempty"`
	Risk        Risk            `json:"risk"`
	Description string          `json:"description"`
	Context     json.RawMessage `json:"context"`
	// Digest binds the decision to what was shown.
	Digest string `json:"digest"`
	// Human is set when the question was asked where people decide
	// (approvals.decider): then every decision needs a Presence, whatever the
	// configuration of the process that makes it.
	Human bool `json:"human,omitempty"`
	// Unchosen is set where an agent may approve it because nobody had chosen who
	// decides when it was asked.
	Unchosen    bool          `json:"unchosen,omitempty"`
	RequestedBy Actor         `json:"requested_by"`
	State       ApprovalState `json:"state"`
	CreatedAt   time.Time     `json:"created_at"`
	ExpiresAt   *time.Time    `json:"expires_at,omitempty"` // nil: never
	// HeldMS is how much of its time was left when calls were halted: ExpiresAt is nil
	// until they go on. It means nothing beside an ExpiresAt.
	HeldMS    int64      `json:"held_ms,omitempty"`
	DecidedBy *DecidedBy `json:"decided_by,omitempty"`
	// Answer carries what a decision says beyond yes or no: for in_doubt the
	// way on, and the result to assume.
	Answer *Answer `json:"answer,omitempty"`
	// RenewedBy is the approval that asks the same again after this one expired.
	RenewedBy ID `json:"renewed_by,omitempty"`
	// Renews is the approval that expired and that this one asks again.
	Renews ID `json:"renews,omitempty"`
	// Once: a yes counts for this call alone and is never remembered.
	Once bool `json:"once,omitempty"`
	// Used is set once the runner has acted on the decision.
	Used bool `json:"used,omitempty"`
	// Path leads from an agent to the run that asks: the agent, its iteration, the run
	// that it has started there. Filled in where an open approval is shown.
	Path []string `json:"path,omitempty"`
}

// StateAt returns the approval's state at a time: an open one past its expiry
// is expired although no writer has recorded it yet.
func (a Approval) StateAt(now time.Time) ApprovalState {
	if a.State == ApprovalOpen && a.ExpiresAt != nil && !now.Before(*a.ExpiresAt) {
		return ApprovalExpired
	}
	return a.State
}

// CallSubject is the subject of the permission of one call of a tool; digest is of the
// arguments that the program has passed.
func CallSubject(tool, digest string) string { return tool + "#" + digest }

// plannedPrefix is before a call's id where an approval was asked for ahead of time.
const plannedPrefix = "plan:"

// PlannedFor is what an approval that is asked for ahead of a call has kept of it.
func PlannedFor(call string) string { return plannedPrefix + call }

// Planned is the id of the planned call that the approval was asked for ahead of time;
// empty for one that was not.
func (a Approval) Planned() string { return strings.TrimPrefix(a.PlannedFor, plannedPrefix) }

// IfEdited returns the approval if it is a yes to arguments that somebody has changed,
// else nil.
func (a *Approval) IfEdited() *Approval {
	if a.State != ApprovalApproved || a.Answer == nil || len(a.Answer.Arguments) == 0 {
		return nil
	}
	return a
}

// Permits reports whether a yes lets all calls of its tool on, or by its bounds the very call
// of another question of the same run: nobody has to answer that one any more.
func (a Approval) Permits(other Approval) bool {
	if a.Type != ApproveTool || a.State != ApprovalApproved || a.Answer == nil ||
		a.ID == other.ID || a.RunID != other.RunID || a.Tool != other.Tool || other.Type != ApproveTool || other.Once {
		return false
	}
	within := a.Answer.Shape != nil && slices.ContainsFunc(other.CallIDs, func(id string) bool { return slices.Contains(a.CallIDs, id) })
	return a.Answer.Remember != "" && !a.Once || within
}

// NotForAgents says why an agent may not approve it unless its configuration says
// otherwise (approvals.agent_may): it is of high risk, or reaches beyond this
// machine, or is about a tool of which nothing is known yet. Empty: it may.
func (a Approval) NotForAgents() string {
	var what struct {
		Leaves  bool `json:"leaves_workspace"`
		Unknown bool `json:"needs_installation"`
	}
	if len(a.Context) > 0 && json.Unmarshal(a.Context, &what) != nil {
		return "what cannot be read"
	}
	switch {
	case a.Type == ApproveBudget:
		return "what spends more than a person has given"
	case a.Risk != RiskLow && a.Risk != RiskMedium:
		return "what is of high risk"
	case what.Leaves:
		return "what leaves the workspace"
	case what.Unknown:
		return "a tool that is not known before its server runs"
	}
	return ""
}

// Shape is the bounds within which it lets further calls on, nil where it lets none on.
func (a *Approval) Shape() *Shape {
	if a.Type != ApproveTool || a.State != ApprovalApproved || a.Answer == nil {
		return nil
	}
	return a.Answer.Shape
}

// RiskWhy says in a few words why its risk is what it is; empty where the question
// does not say.
func (a Approval) RiskWhy() string {
	var what struct {
		Why string `json:"risk_why"`
	}
	if json.Unmarshal(a.Context, &what) != nil {
		return ""
	}
	return what.Why
}

// Decides says who may decide it, where nobody has chosen that; empty otherwise.
func (a Approval) Decides() string {
	if !a.Unchosen {
		return ""
	}
	return "you, or the agent: nobody has chosen who decides in this workspace (pml init asks)"
}

// BySoonest orders approvals by expiry, those without one last, then by age and id.
func BySoonest(a, b Approval) int {
	switch {
	case a.ExpiresAt == nil && b.ExpiresAt == nil:
	case a.ExpiresAt == nil:
		return 1
	case b.ExpiresAt == nil:
		return -1
	default:
		if n := a.ExpiresAt.Compare(*b.ExpiresAt); n != 0 {
			return n
		}
	}
	if n := a.CreatedAt.Compare(b.CreatedAt); n != 0 {
		return n
	}
	return strings.Compare(string(a.ID), string(b.ID))
}

// DecidedBy is who decided, and when.
type DecidedBy struct {
	Actor
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Remember is how long a permission is remembered. The empty value is once.
type Remember string

// The ways to remember.
const (
	RememberRun     Remember = "run"
	RememberSession Remember = "session"
	RememberRule    Remember = "rule"
)

// InDoubtAnswer is the way on for a call that may have run.
type InDoubtAnswer string

// The ways on.
const (
	RunAgain   InDoubtAnswer = "run_again"
	SkipResult InDoubtAnswer = "skip"
)

// Answer is what a decision says beyond yes or no.
type Answer struct {
	Remember Remember        `json:"remember,omitempty"`
	InDoubt  InDoubtAnswer   `json:"in_doubt,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`  // with SkipResult
	Scripts  bool            `json:"scripts,omitempty"` // dependency: install scripts may run
	// Arguments, of a tool's permission, are sent instead of those that were asked
	// about: somebody has changed them before the yes. Digest is what the question
	// about them would have; the decision is checked against it.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Digest    string          `json:"digest,omitempty"`
	// Shape, of a tool's permission, lets further calls on: those within it.
	Shape *Shape `json:"shape,omitempty"`
}

// Decision is a person's (or a rule's) answer to one approval.
type Decision struct {
	ApprovalID ID        `json:"checkpoint_id"`
	Approved   bool      `json:"approved"`
	By         Actor     `json:"by"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason,omitempty"`
	// ExpectDigest, when set, must equal the approval's digest.
	ExpectDigest string  `json:"expect_digest,omitempty"`
	Answer       *Answer `json:"answer,omitempty"`
	// Abort also aborts the run.
	Abort bool `json:"abort,omitempty"`
	// Presence says how the decider has shown to be a person, and Proved is the
	// hash of the PIN that was given right, as Guard.Pin has it.
	Presence Presence `json:"-"`
	Proved   string   `json:"-"`
}

// OutcomeRefused is the outcome of an attempt that decided nothing: by one who
// may not decide, about something else than was asked, or too late. It is no
// state of an approval, and so not of that type.
const OutcomeRefused = "refused"

// AuditRow is one line of the append-only audit log. Hash covers the row and
// the hash of the row before it.
type AuditRow struct {
	// Side is whose log the row is in, said where those of both are listed. The
	// hash does not cover it.
	Side       Side          `json:"side,omitempty"`
	Seq        int64         `json:"seq"`
	At         time.Time     `json:"at"`
	RunID      ID            `json:"workflow_id,omitempty"`
	RunName    string        `json:"workflow_name,omitempty"`
	ApprovalID ID            `json:"checkpoint_id,omitempty"`
	Workspace  string        `json:"workspace,omitempty"`
	Type       ApprovalType  `json:"approval_type,omitempty"`
	Tool       string        `json:"tool,omitempty"`
	Digest     string        `json:"digest,omitempty"`
	Outcome    ApprovalState `json:"outcome"`
	// Shown is the outcome as people read it and as filters take it (ShownOutcome), filled in
	// for readers. The hash does not cover it.
	Shown string `json:"shown,omitempty"`
	// Aborted says that who decided has aborted the run as well.
	Aborted bool   `json:"aborted,omitempty"`
	By      Actor  `json:"by"`
	Reason  string `json:"reason,omitempty"`
	// Remember is for how long the decision was to count; with RememberRule a rule
	// that allows the tool was to be written.
	Remember Remember `json:"remember,omitempty"`
	// Arguments are what the call would have been sent, filled in where somebody asks
	// for them and the approval is still kept. The hash does not cover them.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// SentDigest is of the question about what was sent instead, where somebody has
	// changed the arguments before the yes. Sent are those arguments, filled in as
	// Arguments are.
	SentDigest string          `json:"sent_digest,omitempty"`
	Sent       json.RawMessage `json:"sent,omitempty"`
	// Asked is how whoever decided was asked: on a terminal, with the PIN, in the
	// host's dialog, or not at all. Rows of an older pml do not say it.
	Asked Presence `json:"asked,omitempty"`
	// Renewed is the expired approval that the decided one has asked again.
	Renewed ID `json:"renewed,omitempty"`
	// Shape is the digest of the bounds (Shape) that the decision has given, or by which
	// the call CallID was permitted: each such call has one row.
	Shape  string `json:"shape,omitempty"`
	CallID string `json:"call_id,omitempty"`
	// Count is how many refused attempts the row stands for, if more than one.
	Count    int    `json:"count,omitempty"`
	PrevHash string `json:"prev_hash"`
	Hash     string `json:"hash"`
}

// ForTree reports whether a permission was given for the run of an agent, so that it counts
// for the calls of the same tool in another run: one of the same tree, workspace and owner.
// It ends with the agent, which no run of its tree outlives. What an agent has decided counts
// for the run that it was asked about.
func (a Approval) ForTree(run Run, tool string) bool {
	return a.Type == ApproveTool && a.State == ApprovalApproved && !a.Once && a.Answer != nil && a.Answer.Remember == RememberRun &&
		a.DecidedBy != nil && a.DecidedBy.Via != ViaMCP &&
		a.Tool == tool && a.RunID != run.ID && a.Agent != "" && a.Agent == run.AgentOfChildren() && a.Workspace == run.Workspace && a.Owner == run.Owner
}
