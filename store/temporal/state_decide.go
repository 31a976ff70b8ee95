package temporal

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// decision is a core.Decision with what its own JSON leaves out, and what the rule of
// approvals needs that is outside of the run: the time, the guard, and the context of the
// question where that lies in the blobs.
type decision struct {
	Decision core.Decision `json:"decision"`
	Presence core.Presence `json:"presence,omitempty"`
	Proved   string        `json:"proved,omitempty"`
	Guard    core.Guard    `json:"guard"`
	RunUntil *time.Time    `json:"run_until,omitempty"`
	// Fresh and Until ask again for what has expired, with the decision.
	Fresh   core.ID    `json:"fresh,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Context value      `json:"context,omitzero"`
	At      time.Time  `json:"at"`
}

func (d decision) whole() core.Decision {
	d.Decision.Presence, d.Decision.Proved = d.Presence, d.Proved
	return d.Decision
}

// extension moves the expiry of an approval.
type extension struct {
	Approval core.ID   `json:"approval"`
	Until    time.Time `json:"until,omitzero"`
	At       time.Time `json:"at"`
}

// renewal asks again for an approval that has expired.
type renewal struct {
	Approval core.ID    `json:"approval"`
	Fresh    core.ID    `json:"fresh"`
	Until    *time.Time `json:"until,omitempty"`
	By       core.Actor `json:"by"`
	// Asked is when the new question is asked, At when this is done.
	Asked time.Time `json:"asked"`
	At    time.Time `json:"at"`
}

// replan adds a version of what the run executes.
type replan struct {
	Version int        `json:"version"`
	Layers  *int       `json:"layers,omitempty"` // nil: of a program without a plan
	Program value      `json:"program"`
	Event   core.Event `json:"event"`
	// Dead is a runner that was found dead; it never lives again.
	Dead string    `json:"dead,omitempty"`
	At   time.Time `json:"at"`
}

// undecided is an approval of the run. Unless it was decided, the run must not have ended.
func (st *state) undecided(id core.ID, now time.Time) (*question, error) {
	q := st.question(id)
	if q == nil {
		return nil, approval.NotFound(id)
	}
	return q, approval.Undecided(q.Approval, st.Run, now)
}

// decide settles an approval as approval.Rule says.
func (st *state) decide(in decision) (*question, error) {
	st.At = in.At
	q, err := st.undecided(in.Decision.ApprovalID, in.At)
	if err == nil && in.Fresh != "" {
		q, err = st.renew(renewal{Approval: q.ID, Fresh: in.Fresh, Until: in.Until, By: in.Decision.By, Asked: in.At, At: in.At}, true)
	}
	if err != nil {
		return nil, err
	}
	asked := q.Approval
	asked.Context = in.Context.Here
	res, write, err := approval.Rule(in.Guard, asked, &st.Run, in.whole(), in.RunUntil, in.At)
	if err == nil && write && res.Changed {
		st.settle(q, res)
	}
	return q, err
}

// settle keeps what the rule of approvals has made of a question.
func (st *state) settle(q *question, res approval.Result) {
	q.Approval = res.Approval
	q.Approval.Context = nil
	if q.State != core.ApprovalOpen {
		q.HeldMS = 0
	}
	st.audit(res.Row)
	st.announce(approval.Resolved(res.Approval, res.Row.At))
}

// extend moves an approval's expiry; the run, when it waits, expires no sooner.
func (st *state) extend(in extension) (*question, error) {
	st.At = in.At
	q, err := st.undecided(in.Approval, in.At)
	if err != nil {
		return nil, err
	}
	if q.Approval, err = approval.Extend(q.Approval, in.Until, in.At); err != nil {
		return nil, err
	}
	approval.Outlast(&st.Run, q.ExpiresAt, in.At)
	return q, nil
}

// renew follows an approval to the newest that asks the same, and asks that again if it has
// expired. To decide means any state of that one.
func (st *state) renew(in renewal, decides bool) (*question, error) {
	st.At = in.At
	q, err := st.undecided(in.Approval, in.At)
	if err != nil {
		return nil, err
	}
	renewed := false
	for q.RenewedBy != "" {
		if q, err = st.undecided(q.RenewedBy, in.At); err != nil {
			return nil, err
		}
		renewed = true
	}
	state := q.StateAt(in.Asked)
	if state == core.ApprovalOpen || (renewed || decides) && state != core.ApprovalExpired {
		return q, nil
	}
	again, err := approval.Renew(q.Approval, in.Fresh, in.Asked, core.UTC(in.Until), in.By)
	if err != nil {
		return nil, err
	}
	if st.Run.State.Final() {
		return nil, core.Errorf(core.CodeNotWaiting, "the run %s has ended", st.Run.ID.Short()).WithRun(st.Run.ID)
	}
	if st.question(in.Fresh) != nil {
		return nil, core.Errorf(core.CodeInternal, "the approval %s exists already", in.Fresh)
	}
	if q.State == core.ApprovalOpen { // nobody has recorded the expiry yet
		st.settle(q, approval.Expire(q.Approval, in.Asked))
	}
	q.RenewedBy = in.Fresh
	next := &question{Approval: again, Context: q.Context}
	st.Approvals = append(st.Approvals, next)
	st.announce(approval.Requested(again))
	approval.Outlast(&st.Run, again.ExpiresAt, in.At)
	return next, nil
}

// replan makes a program the newest version. Open questions whether a layer may start were
// about another list of calls: the runner asks anew.
func (st *state) replan(in replan) error {
	if err := approval.NotEnded(st.Run, in.At); err != nil {
		return err
	}
	stands := st.Run.State
	if stands == core.RunRunning && in.Dead != "" && in.Dead == st.Run.Runner {
		stands = core.RunInterrupted
	}
	planned := core.Program{Version: in.Version}
	if in.Layers != nil {
		planned.Plan = &core.Plan{Layers: make([][]string, *in.Layers)}
	}
	if err := approval.Replan(&st.Run, stands, planned, in.At); err != nil {
		return err
	}
	st.Programs, st.Replanned = append(st.Programs, program{Version: in.Version, Program: in.Program}), true
	st.announce(in.Event)
	for _, q := range st.Approvals {
		if q.Type == core.ApproveLayer && q.State == core.ApprovalOpen {
			st.settle(q, approval.Supersede(q.Approval, in.At, "the run was planned anew"))
		}
	}
	return nil
}

// abort sets the run's request to abort; the first one stays.
func (st *state) abort(req core.AbortRequest, now time.Time) error {
	if err := approval.NotEnded(st.Run, now); err != nil {
		return err
	}
	if st.Run.Abort == nil {
		st.Run.Abort, st.Run.UpdatedAt = &req, now
		st.audit(approval.AbortRows(st.Run, req)...)
	}
	return nil
}

// expire records what has expired by a time: the run with all that it still asks, or single
// approvals. It reports whether there was anything.
func (st *state) expire(now time.Time) bool {
	gone := approval.RunAt(st.Run, now).State == core.RunExpired && st.Run.State != core.RunExpired
	changed := gone
	for _, q := range st.Approvals {
		if q.State == core.ApprovalOpen && (gone || q.StateAt(now) == core.ApprovalExpired) {
			st.settle(q, approval.Expire(q.Approval, now))
			changed = true
		}
	}
	if gone {
		st.announce(approval.ExpireRun(&st.Run, now))
	}
	return changed
}

// due is when the next thing of the run expires; zero for nothing.
func (st *state) due() time.Time {
	var next time.Time
	sooner := func(t *time.Time) {
		if t != nil && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	if approval.MayExpire(st.Run.State) {
		sooner(st.Run.ExpiresAt)
	}
	for _, q := range st.Approvals {
		if q.State == core.ApprovalOpen {
			sooner(q.ExpiresAt)
		}
	}
	return next
}
