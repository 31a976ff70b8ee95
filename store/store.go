// Package store is the contract between the engine and whatever keeps runs:
// their journals, approvals, events and the audit log. store/bolt implements
// it, store/storetest is the suite that every implementation passes.
//
// Rules that every implementation keeps:
//
//   - A Step is one transaction: all of it is kept or nothing.
//   - Nothing is published (Watch) before it is committed.
//   - A commit of a run by a runner that no longer has it is refused
//     (core.CodeFenced) and changes nothing.
//   - A decision is a compare-and-set on an open approval; exactly one of any
//     number of deciders wins.
//   - Expiry is read from the clock; the next writer records it.
//   - Errors are *core.Error. Full disks, read-only files and damaged files are
//     core.CodeStoreFailed with words that say what to do; a format from a
//     newer pml is core.CodeStoreNewer; a lock that cannot be had in time is
//     core.CodeStoreBusy naming the holder.
package store

import (
	"context"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// Store keeps runs. It is a union of small contracts, so that each user can
// ask for the part it needs.
type Store interface {
	Writer
	Reader
	Decider
	Runners
	Flows
	Notices
	Halts
	Watcher
	// Close releases the store; it waits for commits under way.
	Close() error
}

// Watcher tells of commits.
type Watcher interface {
	// Watch returns a channel that receives (without blocking, coalescing)
	// after every commit by any process; of a Claim other processes need not hear, which
	// changes nothing that is shown of a run. It is closed with the context.
	Watch(ctx context.Context) (<-chan struct{}, error)
	// WatchOthers is Watch without the Commits and Claims of this Store: for a runner,
	// which knows what it has committed and taken over itself. Whatever else changes
	// the store in this process (decisions, requests) does wake it.
	WatchOthers(ctx context.Context) (<-chan struct{}, error)
}

// Writer commits steps of runs.
type Writer interface {
	// Commit writes a step as one transaction. Concurrent commits of one
	// process may share a transaction of the underlying file; each still
	// succeeds or fails by itself.
	Commit(ctx context.Context, step Step) error
	// Remove deletes runs with all that belongs to them (audit rows stay).
	// A run that has not ended is core.CodeNotWaiting and nothing is removed.
	Remove(ctx context.Context, ids ...core.ID) error
}

// Step is what one transaction changes for one run. Approvals and events get
// the Owner of the run.
type Step struct {
	// Run is the header to write. With Create it must be new; otherwise its
	// Runner and Epoch must be those that are stored (else core.CodeFenced).
	// Implementations keep the stored Abort, DAGVersion and Options.Input, and
	// TotalLayers until the runner has seen a replan: others write them; and what
	// a run was created as (Owner, Workspace, CreatedAt, IdempotencyKey). They
	// count JournalSeq themselves. A used idempotency key (24 h, per workspace)
	// is core.CodeDuplicate, or core.CodeDigestMismatch when it was used with
	// another IdempotencyDigest; both name the earlier run. A run without a
	// digest counts as the same. A step that ends the run supersedes its
	// approvals that are still open; one that completes or fails it without
	// having seen a replan (DAGVersion) is core.CodeNotWaiting: there is more to
	// do. ExpiresAt of a run that stays waiting is kept too: deciders move it. A
	// step that Begins a call of a run whose abort was requested is core.CodeAborted.
	Run    core.Run
	Create bool
	// Program is written with Create, or as a further DAG version.
	Program *core.Program
	// Records are appended to the journal; their Seq must follow on.
	Records []core.Record
	// Open are new approvals. Close are approvals of this run that the runner
	// settles without a decision, by id: superseded, or marked used.
	Open      []core.Approval
	Supersede []core.ID
	Used      []Use
	// Undecided are approvals of this run that nobody may have decided by now; else the
	// step is core.CodeAlreadyDecided, and nothing of it is kept.
	Undecided []core.ID
	// Relies are permissions of other runs that let calls of this one on (Rely); else nothing
	// of the step is kept.
	Relies []Reliance
	// Given is the decision with which somebody gives an agent that has ended more; else
	// nil. It needs what an approval needs that is one for people where Human is set
	// (approval.Permits); else nothing of the step is kept.
	Given *Given
	// Checkpoint is added; the 5 newest of a run are kept.
	Checkpoint *core.Checkpoint
	// Past makes a new run the copy of one of another store (core.Imported): it has
	// ended, and nobody can claim it.
	Past *Past
	// Events get their Seq from the store, in the order given.
	Events []core.Event
	// Audit rows get their Seq and hashes from the store.
	Audit []core.AuditRow
}

// Given is a decision that answers no approval.
type Given struct {
	core.Decision
	Human bool
}

// Begins reports whether the step begins a call, which it does not take back again, for
// a runner that knows of no request to abort the run: there must be none. One that knows
// keeps what it had begun, and does not make the call.
func (s *Step) Begins() bool {
	if s.Run.Abort != nil {
		return false
	}
	for i, r := range s.Records {
		back := func(v core.Record) bool { return v.Kind == core.RecordVoid && v.CallID == r.CallID }
		if r.Kind == core.RecordStarted && !slices.ContainsFunc(s.Records[i+1:], back) {
			return true
		}
	}
	return false
}

// Aborted is the error of a step that begins a call of a run whose abort was
// requested.
func Aborted(run core.ID) error {
	return core.Errorf(core.CodeAborted, "somebody has asked to abort the run %s; it begins no further call", run.Short()).
		WithRun(run).WithNext("pml", "workflows", "show", string(run))
}

// Decided is the error of a step that wants an approval to be undecided.
func Decided(a core.Approval) error {
	return core.Errorf(core.CodeAlreadyDecided, "somebody has decided the approval %s meanwhile", a.ID.Short()).WithRun(a.RunID)
}

// IsDecided reports whether an approval was decided, itself or when it was asked again.
func IsDecided(a core.Approval) bool {
	return a.State == core.ApprovalApproved || a.State == core.ApprovalDenied || a.RenewedBy != ""
}

// Past is what a copy of a run brings along that a run of this store gets step by
// step: approvals as they were settled, none of them open, and its checkpoints.
type Past struct {
	Approvals   []core.Approval
	Checkpoints []core.Checkpoint
}

// Use marks an approval as acted upon, for a call when it was asked before the
// call was made.
type Use struct {
	Approval core.ID
	CallID   string
	// Shape is the digest of the bounds within which the approval lets the call on: one
	// that was asked about another call. Empty: it is about this call.
	Shape string
}

// Reader reads. What is read is consistent within one call.
type Reader interface {
	RunReader
	// Approvals lists approvals, soonest expiry first, then those without. An
	// open one of a run that has expired is expired.
	Approvals(ctx context.Context, f ApprovalFilter) ([]core.Approval, error)
	// Events lists events in order of Seq.
	Events(ctx context.Context, f EventFilter) ([]core.Event, error)
	// Audit lists rows of the audit log in order of Seq, or newest first.
	Audit(ctx context.Context, f AuditFilter) ([]core.AuditRow, error)
	// Guard is what decisions need.
	Guard(ctx context.Context) (core.Guard, error)
}

// RunReader reads runs.
type RunReader interface {
	// Run returns a header. Unknown: core.CodeNotFound.
	Run(ctx context.Context, id core.ID) (core.Run, error)
	// Program returns what a run executes: the newest version.
	Program(ctx context.Context, id core.ID) (core.Program, error)
	// Find returns the ids of runs (or of approvals) that begin with a prefix,
	// at most limit.
	Find(ctx context.Context, prefix string, limit int) (Found, error)
	// Runs lists headers, newest first (created_at, id), without results and
	// inputs.
	Runs(ctx context.Context, f RunFilter) ([]core.Run, error)
	// Journal returns the records after a sequence number, in order.
	Journal(ctx context.Context, id core.ID, after int64) ([]core.Record, error)
	Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error)
}

// Found are the ids that a prefix matches.
type Found struct {
	Runs      []core.ID
	Approvals []core.ID
}

// RunFilter selects runs. Zero fields do not restrict.
type RunFilter struct {
	States         []core.RunState
	Workspace      string
	Owner          string
	IdempotencyKey string
	// Before returns runs older than this one (the cursor of the page before).
	Before core.ID
	Limit  int
}

// ApprovalFilter selects approvals. Zero fields do not restrict. States are
// compared with core.Approval.StateAt(Now).
type ApprovalFilter struct {
	ID        core.ID
	RunID     core.ID
	Workspace string
	Owner     string
	// Agent leaves those of runs that are below an agent (core.Approval.Agent). They are
	// found among the runs that were created since the agent was, so that what was decided
	// before it costs nothing.
	Agent  core.ID
	Digest string
	States []core.ApprovalState
	// Decidable leaves those that a decision can be about (core/approval.Decidable): open,
	// or expired and not asked again, of a run that has not ended. It is read from
	// indexes, so that what was decided in the past costs nothing.
	Decidable bool
	Now       time.Time
	Limit     int
	// Into receives the header of the run RunID, as of Reader.Run and without
	// result and input, for who needs both and asks once. One that is not there, or
	// not of this Owner and Workspace, is core.CodeNotFound.
	Into *core.Run
}

// Unended are the states of runs that have not ended.
var Unended = slices.DeleteFunc(slices.Clone(core.RunStates), core.RunState.Final)

// EventFilter selects events after a sequence number.
type EventFilter struct {
	After int64
	RunID core.ID
	Owner string
	Types []core.EventType
	Limit int
}

// AuditFilter selects rows of the audit log. Zero fields do not restrict.
type AuditFilter struct {
	core.AuditFilter
	After  int64 // rows with a higher sequence number
	Before int64 // rows with a lower one
	Newest bool  // newest first
	Limit  int
}

// Decider changes what is not the runner's to change: decisions, requests to
// abort, replans. All of them are compare-and-set.
type Decider interface {
	// Decide settles an open approval, appends the audit row and the event,
	// renews the run's expiry (RenewTo of Renewal), and with d.Abort also sets
	// the run's abort request. The same decision again returns the approval as
	// it is, without error. Errors: core.CodeNotFound, core.CodeApprovalExpired
	// (unless it is renewed with it: Renewal.Fresh), core.CodeAlreadyDecided (with Decided), core.CodeDigestMismatch,
	// core.CodeNotWaiting (superseded, or the run has ended),
	// core.CodeWorkflowExpired (the run expired, it cannot be asked again),
	// core.CodeAuth and core.CodeAwaitingHuman for one that the guard of the store,
	// as it is in the transaction that decides, does not let through
	// (approval.Permits).
	Decide(ctx context.Context, d core.Decision, renew Renewal) (core.Approval, error)
	// Extend moves an open approval's expiry; its run, when it waits, expires no
	// sooner. Errors as for Decide.
	Extend(ctx context.Context, id core.ID, until time.Time) (core.Approval, error)
	// Renew asks again for an approval that expired: it opens a copy under the
	// id fresh, created at now, and appends the event; its run, when it waits,
	// expires no sooner. A still open one, or one that was renewed already, is
	// returned as it is. Other states: as for Decide.
	Renew(ctx context.Context, id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error)
	RunChanger
	// ChangeGuard changes what decisions need and writes the rows for that, as one
	// transaction: change is given what is stored and may be called more than once. Its
	// error changes nothing.
	ChangeGuard(ctx context.Context, change func(*core.Guard) error, rows ...core.AuditRow) error
	// Record appends rows to the audit log for what was decided outside of a run
	// (trust, an update, a wrong PIN): all of them or none, chained to the rows
	// before them. Seq and hashes come from the store, and At where it is zero.
	Record(ctx context.Context, rows ...core.AuditRow) error
	// Expire records the expiry of approvals and runs that are due at a time
	// and returns how many.
	Expire(ctx context.Context, now time.Time) (int, error)
}

// RunChanger changes runs that somebody else may be running.
type RunChanger interface {
	// RequestAbort sets the abort request of a run that has not ended; the
	// first one stays. The audit row of who asked is kept with it.
	RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error)
	// Replan adds a DAG version to a run that is waiting or interrupted and
	// sets DAGVersion and TotalLayers. A running one whose runner is dead has
	// been interrupted. Open approvals of type layer are superseded: they were
	// about other calls. program.Version must be the stored version + 1 (else
	// core.CodeNotWaiting: somebody was faster).
	Replan(ctx context.Context, id core.ID, program core.Program, by core.Actor, event core.Event) (core.Run, error)
}

// Renewal is the new expiry of a run after a decision; nil in RunUntil leaves
// the run without one.
type Renewal struct {
	RunUntil *time.Time
	// Fresh, if set, is the id under which an approval that has expired is asked
	// again, as by Renew, and decided in the same transaction; Until is when that
	// one would expire. A decision about one that was asked again already is about
	// the newest, as long as it asks the same.
	Fresh core.ID
	Until *time.Time
}

// Halts stops all calls of the runs of a store, and lets them go on. While they are
// halted:
//
//   - a step that Begins a call is core.CodeHalted, and nothing of it is kept;
//   - the time of open approvals and of runs that can expire stands still (HeldMS).
//
// A step whose run waits for a halt that is over (core.Run.Halted) leaves it interrupted:
// there is something to do.
type Halts interface {
	// Halted returns who has halted calls, nil while they may begin.
	Halted(ctx context.Context) (*core.Halt, error)
	// Halt halts calls, with a row in the audit log, and returns the halt that holds:
	// an earlier one stays.
	Halt(ctx context.Context, h core.Halt) (core.Halt, error)
	// LetGo ends a halt, with a row in the audit log, and returns it; nil when there was
	// none. Only a person may: approval.MayResume.
	LetGo(ctx context.Context, r core.Resumption) (*core.Halt, error)
}

// Flows keeps what hook flows did, and what they keep.
type Flows interface {
	// SaveFlowRuns writes flow runs, all or none; one whose ID and StartedAt are known
	// is replaced. Of each flow the newest core.KeptFlowRuns stay.
	SaveFlowRuns(ctx context.Context, runs ...core.FlowRun) error
	// FlowRuns lists flow runs, newest first (started_at, id).
	FlowRuns(ctx context.Context, f FlowRunFilter) ([]core.FlowRun, error)
	// FlowVariables returns what a flow keeps: the zero value for nothing.
	FlowVariables(ctx context.Context, key core.FlowKey) (core.FlowVariables, error)
	// SetFlowVariables is a compare-and-set: v.Version must follow the stored one (else
	// core.CodeNotWaiting: somebody was faster). To set again what is stored under that
	// version is no error, so it is safe to repeat.
	SetFlowVariables(ctx context.Context, key core.FlowKey, v core.FlowVariables) error
}

// FlowRunFilter selects flow runs. Zero fields do not restrict.
type FlowRunFilter struct {
	Key   core.FlowKey // without Flow: of all flows
	RunID core.ID      // of the run that made the call
	Owner string
	Limit int
}

// Match reports whether the filter selects a flow run.
func (f FlowRunFilter) Match(r core.FlowRun) bool {
	return (f.Key.Flow == "" || f.Key == r.Key()) && (f.RunID == "" || f.RunID == r.RunID) && (f.Owner == "" || f.Owner == r.Owner)
}

// Notices keeps what is to be sent to people about approvals (core/notify): one document,
// which belongs to no run and which several processes change.
type Notices interface {
	// Notices returns the document and its version: nil and 0 before the first.
	Notices(ctx context.Context) (doc []byte, version int64, err error)
	// SetNotices is a compare-and-set: version must follow the stored one (else
	// core.CodeNotWaiting: somebody was faster). To set again what is stored under that
	// version is no error, so it is safe to repeat.
	SetNotices(ctx context.Context, doc []byte, version int64) error
}

// Follows decides a compare-and-set by a version, the same in every store: whether there is
// something to write, or faster where somebody else was. same is whether what is to be set
// is what is stored: under its version that is a write of which the answer was lost.
func Follows(stored, version int64, same bool, faster error) (write bool, err error) {
	switch {
	case version == stored && same:
		return false, nil
	case version != stored+1:
		return false, faster
	}
	return true, nil
}

// FasterNotices is the error of a document that somebody else has set meanwhile.
func FasterNotices() error {
	return core.Errorf(core.CodeNotWaiting, "another process has changed what is to be sent; read it and try again")
}

// FasterFlow is the error of variables that somebody else has set meanwhile.
func FasterFlow(key core.FlowKey) error {
	return core.Errorf(core.CodeNotWaiting, "the variables of the flow %s were changed meanwhile; read them and try again", core.Visible(key.Flow, 120, false))
}

// Runners says which process runs a run.
type Runners interface {
	// Register makes this process a runner. It holds it until Close.
	Register(ctx context.Context) (Runner, error)
	// Claim makes runner the runner of a run that has not ended and whose
	// runner is dead or itself; the epoch grows. A live one: core.CodeFenced,
	// with the run as it is. A failed run can be claimed too, for a retry, whoever
	// ran it; one that ended otherwise, and the copy of a run of another store, is
	// core.CodeNotWaiting, or core.CodeWorkflowExpired (approval.Claimable).
	Claim(ctx context.Context, id core.ID, runner string) (core.Run, error)
	// Alive reports whether a runner lives.
	Alive(ctx context.Context, runner string) (bool, error)
	// Orphans returns runs that have something to do and nobody who does it,
	// oldest first, at most limit (0: all): running or interrupted ones, and waiting ones
	// with something that nobody has acted upon: a decision (its approval is not
	// Used), an abort request, a replan (no commit with its DAGVersion); whose
	// runner is dead or is self. (Of self's own the caller knows which it runs,
	// and asks for more than these.) Runs with Remote are never among them. What
	// it costs depends on the runs that have something to do, not on how many are
	// kept.
	Orphans(ctx context.Context, self string, limit int) ([]core.ID, error)
}

// Runner is this process's standing as a runner.
type Runner interface {
	ID() string
	// Lost is closed when this process is no runner any more although it has not
	// closed: others may take its runs. It registers anew.
	Lost() <-chan struct{}
	// Gone receives (without blocking, coalescing) when another runner is known to have
	// died: its runs are orphans now. nil where nobody learns of that without asking.
	Gone() <-chan struct{}
	// Holds returns nil as soon as it is certain that nobody can have taken this
	// process for dead, by a clock that also goes while the process is stopped or the
	// machine sleeps. While that is in doubt it waits; once Lost it is core.CodeFenced.
	Holds(ctx context.Context) error
	Close() error
}
