package engine

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// questions are what people are asked about a run, and what they have said: its
// approvals, as this process has read or opened them. It alone opens, uses and
// takes back approvals.
type questions struct {
	run     *core.Run
	batch   *batch
	journal *journal // when the run was last retried
	limits  *Limits

	list []*core.Approval // the oldest first: the newest answer to a question counts
	// taken are the calls that have acted upon an approval, as far as this process
	// knows: one for a tool is consumed by each of its calls.
	taken map[string]bool
	// refused are calls that somebody has refused before a retry.
	refused map[string]bool
}

// take takes in the approvals of the run as the store has them, and returns those
// about which something was decided since.
func (q *questions) take(stored []core.Approval, now time.Time) (decided []*core.Approval) {
	known := map[core.ID]*core.Approval{}
	for _, ap := range q.list {
		known[ap.ID] = ap
	}
	q.list = make([]*core.Approval, 0, len(stored))
	for i := range stored {
		ap := &stored[i]
		if q.outdated(ap) {
			for _, id := range ap.CallIDs {
				q.refused[id] = true
			}
		}
		if ap.RenewedBy != "" || q.outdated(ap) {
			continue
		}
		ap.State = ap.StateAt(now)
		old := known[ap.ID]
		if old != nil && len(ap.CallIDs) == 0 {
			ap.CallIDs = old.CallIDs
		}
		if old != nil && ap.Shape() != nil { // those permitted since the last commit too
			for _, id := range old.CallIDs {
				if !slices.Contains(ap.CallIDs, id) {
					ap.CallIDs = append(ap.CallIDs, id)
				}
			}
		}
		ap.Used = ap.Used || old != nil && old.Used
		q.list = append(q.list, ap)
	}
	sortApprovals(q.list)
	for _, ap := range q.list {
		old := known[ap.ID]
		if ap.State != core.ApprovalOpen && (old == nil || old.State != ap.State) {
			decided = append(decided, ap)
		}
	}
	return decided
}

// expire notes which of them have expired.
func (q *questions) expire(now time.Time) {
	for _, ap := range q.list {
		ap.State = ap.StateAt(now)
	}
}

// nextExpiry is how long it takes until one of them expires, at most d.
func (q *questions) nextExpiry(now time.Time, d time.Duration) time.Duration {
	for _, ap := range q.list {
		if ap.State == core.ApprovalOpen && ap.ExpiresAt != nil {
			d = min(d, ap.ExpiresAt.Sub(now))
		}
	}
	return d
}

// pending are the questions that are open.
func (q *questions) pending(now time.Time) (out []core.Approval) {
	for _, ap := range q.list {
		if ap.StateAt(now) == core.ApprovalOpen {
			out = append(out, *ap)
		}
	}
	return out
}

// unanswered reports whether there is a question without an answer.
func (q *questions) unanswered() bool {
	return slices.ContainsFunc(q.list, func(ap *core.Approval) bool {
		return ap.State == core.ApprovalOpen || ap.State == core.ApprovalExpired
	})
}

// dropAll takes back all that are open.
func (q *questions) dropAll() {
	for _, ap := range q.list {
		if ap.State == core.ApprovalOpen {
			q.drop(ap)
		}
	}
}

// remembered returns the permission that was given for all calls of a tool, or nil.
func (q *questions) remembered(tool string) *core.Approval {
	for _, ap := range q.list {
		if remembers(ap) && ap.Tool == tool {
			return ap
		}
	}
	return nil
}

// refusedSince returns the denial of a question about the server or the tool
// of a call that waited for it. The gates may have nothing to ask any more, since
// a server that is started anew can be what was approved; the call that somebody
// refused is refused all the same.
func (q *questions) refusedSince(c *call) *core.Approval {
	if c.parkedAt.IsZero() {
		return nil
	}
	server, _, _ := core.SplitTool(c.tool)
	for _, ap := range q.list {
		if ap.State != core.ApprovalDenied || perCall(ap.Type) || q.outdated(ap) || ap.DecidedBy == nil {
			continue
		}
		if (ap.Subject == c.tool || ap.Subject == server) && !ap.DecidedBy.At.Before(c.parkedAt) {
			return ap
		}
	}
	return nil
}

// own returns the newest question whether this very call may be made, nil if nobody
// was asked: of a request to a model, that about its provider.
func (q *questions) own(c *call) *core.Approval {
	for _, ap := range slices.Backward(q.list) {
		provider := c.tool == core.ModelTool && core.IsProvider(ap.Tool)
		if ap.Type == core.ApproveTool && isOf(ap, c.id) && (provider || ap.Subject == core.CallSubject(c.tool, c.passed.digest)) {
			return ap
		}
	}
	return nil
}

// permitted reports whether somebody was asked whether this very call may be made, by itself or
// ahead, and has said yes.
func (q *questions) permitted(c *call) bool {
	subject := core.CallSubject(c.tool, c.passed.digest)
	return slices.ContainsFunc(q.list, func(ap *core.Approval) bool {
		return ap.Type == core.ApproveTool && ap.State == core.ApprovalApproved && ap.Subject == subject && (len(ap.CallIDs) == 0 || isOf(ap, c.id))
	})
}

// withdraw takes a question back that nobody needs to answer any more, provided that
// nobody has: the store refuses the step otherwise.
func (q *questions) withdraw(ap *core.Approval) {
	q.drop(ap)
	if slices.Contains(q.batch.step.Supersede, ap.ID) {
		q.batch.step.Undecided = append(q.batch.step.Undecided, ap.ID)
	}
}

// callsOf are the calls that some questions are about.
func (q *questions) callsOf(ids []core.ID) (calls []string) {
	for _, ap := range q.list {
		if slices.Contains(ids, ap.ID) {
			calls = append(calls, ap.CallIDs...)
		}
	}
	return calls
}

// dropRemembered takes back the questions that a remembered permission answers.
func (q *questions) dropRemembered() {
	for _, ap := range q.list {
		if !remembers(ap) {
			continue
		}
		for _, other := range q.list {
			if other.Type == core.ApproveTool && other.Tool == ap.Tool && other.State == core.ApprovalOpen && !other.Once {
				q.drop(other)
			}
		}
	}
}

// find returns the newest approval that answers a question of a call. A
// question about a server is one for all calls; one about a call is its own,
// or the first asked ahead that no call has used.
func (q *questions) find(c *call, ask Ask) *core.Approval {
	var ahead *core.Approval
	for _, ap := range slices.Backward(q.list) {
		if ap.Type != ask.Type || ap.Subject != ask.Subject || ap.State == core.ApprovalSuperseded {
			continue
		}
		if !perCall(ask.Type) || c == nil || isOf(ap, c.id) {
			return ap
		}
		if len(ap.CallIDs) == 0 {
			ahead = ap
		}
	}
	if ahead != nil {
		ahead.CallIDs = []string{c.id} // from here on it is this call's
	}
	return ahead
}

// edited returns the approval of a call with which somebody has changed its arguments,
// nil where nobody has: the call's own, or the first that was asked ahead about the same
// call and that no other has used.
func (q *questions) edited(c *call) *core.Approval {
	if len(q.list) == 0 {
		return nil
	}
	subject := core.CallSubject(c.tool, c.passed.digest)
	var ahead *core.Approval
	for _, ap := range slices.Backward(q.list) {
		if ap.Type != core.ApproveTool || ap.Subject != subject || ap.State == core.ApprovalSuperseded {
			continue
		}
		if isOf(ap, c.id) {
			return ap.IfEdited()
		}
		if len(ap.CallIDs) == 0 {
			ahead = ap
		}
	}
	if ahead == nil {
		return nil
	}
	ahead.CallIDs = []string{c.id} // from here on it is this call's
	return ahead.IfEdited()
}

// open asks a person, about a call that was made or about all. The approval becomes
// visible with the next commit.
func (q *questions) open(c *call, ask Ask) {
	if c != nil && !perCall(ask.Type) {
		c = nil
	}
	q.ask(ask, c, "")
}

// ask asks about a call, or ahead about a planned one, or about all where it is neither.
func (q *questions) ask(ask Ask, c *call, plannedFor string) {
	raw, err := json.Marshal(ask.Context)
	if err != nil {
		raw = json.RawMessage("{}")
	}
	now := q.batch.now()
	ap := &core.Approval{
		ID: q.batch.newID(), RunID: q.run.ID, RunName: q.run.Name, Agent: q.run.AgentOfChildren(), Workspace: q.run.Workspace, Side: q.run.Side,
		Type: ask.Type, Subject: ask.Subject, Tool: ask.Tool, Risk: ask.Risk,
		Description: ask.Description, Context: raw, Digest: ask.Digest, Once: ask.Once,
		RequestedBy: q.run.RequestedBy, State: core.ApprovalOpen, CreatedAt: now, PlannedFor: plannedFor,
	}
	if c != nil {
		ap.CallIDs = []string{c.id}
		if ask.Type == core.ApproveTool {
			ap.Place, ap.Computed = c.at, c.computed
		}
	}
	ap.Human = q.limits.Human && !approval.IsPause(q.run.Options, *ap) || approval.TypeOf(ask.Type).Person
	ap.Unchosen = q.limits.Unchosen && !ap.Human && ask.Type != core.ApproveLayer && ap.NotForAgents() == ""
	ttl := q.limits.ApprovalTTL
	if ask.Within > 0 && (ttl <= 0 || ask.Within < ttl) {
		ttl = ask.Within
	}
	if ttl > 0 && ask.Type != core.ApproveLayer {
		t := approval.Bounded(now.Add(ttl))
		ap.ExpiresAt = &t
	} else if ask.Type == core.ApproveLayer {
		ap.ExpiresAt = q.limits.resumeUntil(now)
	}
	q.list = append(q.list, ap)
	q.batch.step.Open = append(q.batch.step.Open, *ap)
	e := q.batch.event(core.EventApprovalRequested)
	e.ApprovalID, e.Tool, e.Message = ap.ID, ap.Tool, ap.Description
	q.batch.emit(e)
	if q.run.Kind == core.KindDAG {
		e.Type = core.EventDecisionRequired
		q.batch.emit(e)
	}
}

// use marks an approval as acted upon, for a call or for none.
func (q *questions) use(ap *core.Approval, callID string) {
	key := string(ap.ID) + " " + callID
	if ap.Used && (callID == "" || q.taken[key]) {
		return
	}
	ap.Used, q.taken[key] = true, true
	q.batch.step.Used = append(q.batch.step.Used, store.Use{Approval: ap.ID, CallID: callID})
}

// newest returns an approval as it was last read.
func (q *questions) newest(ap *core.Approval) *core.Approval {
	for _, other := range q.list {
		if other.ID == ap.ID {
			return other
		}
	}
	return ap
}

// drop takes a question back: nothing waits for its answer any more. One that
// nobody can have seen yet was never asked.
func (q *questions) drop(ap *core.Approval) {
	ap.State = core.ApprovalSuperseded
	unseen := func(o core.Approval) bool { return o.ID == ap.ID }
	if slices.ContainsFunc(q.batch.step.Open, unseen) {
		q.batch.step.Open = slices.DeleteFunc(q.batch.step.Open, unseen)
		q.batch.step.Events = slices.DeleteFunc(q.batch.step.Events, func(e core.Event) bool { return e.ApprovalID == ap.ID })
		return
	}
	q.batch.step.Supersede = append(q.batch.step.Supersede, ap.ID)
	r := q.batch.event(core.EventApprovalResolved)
	r.ApprovalID, r.Tool, r.Message = ap.ID, ap.Tool, string(core.ApprovalSuperseded)
	q.batch.emit(r)
}

// outdated reports whether a denial belongs to calls that a retry runs again:
// who retries wants to be asked again.
func (q *questions) outdated(ap *core.Approval) bool {
	return ap.State == core.ApprovalDenied && ap.DecidedBy != nil && !ap.DecidedBy.At.After(q.journal.retried)
}

// remembers reports whether a permission was given for all calls of its tool, at
// least for the rest of the run.
func remembers(ap *core.Approval) bool {
	return ap.Type == core.ApproveTool && !ap.Once && ap.State == core.ApprovalApproved && ap.Answer != nil && ap.Answer.Remember != ""
}

// remembersLonger reports whether the host is to remember a permission.
func remembersLonger(ap *core.Approval) bool {
	return remembers(ap) && ap.Answer.Remember != core.RememberRun
}

func perCall(t core.ApprovalType) bool {
	return approval.TypeOf(t).PerCall
}

func denied(ap *core.Approval) *core.Error {
	who, reason := "a person", ""
	if d := ap.DecidedBy; d != nil {
		who = d.Name()
		if d.Reason != "" {
			reason = ": " + d.Reason
		}
	}
	if ap.Type == core.ApproveKeys {
		reason += "; " + strings.TrimSuffix(ap.Description, ".") + ": set it in the environment or in .env, then retry the run"
	}
	what := strings.ReplaceAll(string(ap.Type), "_", " ")
	e := core.Errorf(core.CodeDenied, "%s denied %s for %s%s", who, what, ap.Tool, reason)
	e.Decided, e.Provider = ap.DecidedBy, core.IsProvider(ap.Tool)
	return e
}

// answeredBy reports whether a decision answers a question: it is the same one,
// or about the same tool whose permission is remembered.
func answeredBy(ap *core.Approval) func(Ask) bool {
	return func(ask Ask) bool {
		return ask.Type == ap.Type && (ask.Subject == ap.Subject || remembers(ap) && ask.Tool == ap.Tool && !ask.Once)
	}
}

// sortApprovals puts the oldest first; the newest answer to a question counts.
func sortApprovals(list []*core.Approval) {
	sort.SliceStable(list, func(i, j int) bool {
		if !list[i].CreatedAt.Equal(list[j].CreatedAt) {
			return list[i].CreatedAt.Before(list[j].CreatedAt)
		}
		return list[i].ID < list[j].ID
	})
}
