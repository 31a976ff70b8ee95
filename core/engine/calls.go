package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// callTable are the calls of a program since it was last started, and where each
// stands. It alone changes the state of a call.
type callTable struct {
	batch   *batch
	journal *journal
	limits  *Limits
	now     func() time.Time

	byID  map[string]*call
	order []*call         // as issued
	in    [callStates]int // calls by state
	on    map[string]int  // calls that run, by server
	// open counts the calls that the program has no outcome of, by layer; highest is
	// the highest layer that it has made a call in.
	open    map[int]int
	highest int

	queue []*call // admitted, not begun
	// cleared is how many of the queue were in it at the last commit: what led to
	// them is kept.
	cleared  int
	pending  []*call // begun: to be made once that is committed
	replayed int     // calls that were answered from the journal
	passed   []*call // those that hook flows have just looked at
	// unanswered are calls that flows have let pass and whose answer they will not see.
	unanswered []*call
	away       int // calls that run, and whose run waits for people
	// halted is who has halted all calls, as far as this run has met with it: what is
	// queued stays so.
	halted *core.Halt
}

// reset forgets the calls: the program starts over.
func (t *callTable) reset() {
	*t = callTable{
		batch: t.batch, journal: t.journal, limits: t.limits, now: t.now, halted: t.halted,
		byID: map[string]*call{}, on: map[string]int{}, open: map[int]int{}, highest: -1,
	}
}

// add takes up a call that the program makes. One whose outcome is journaled has
// settled, in the layer that it was in.
func (t *callTable) add(c *call) (replayed bool, err error) {
	t.byID[c.id] = c
	t.order = append(t.order, c)
	t.in[callIssued]++
	if replayed, err = t.journal.recall(c); err != nil {
		return false, err
	}
	if replayed {
		t.move(c, callSettled)
		t.replayed++
	}
	t.open[c.layer]++
	t.highest = max(t.highest, c.layer)
	return replayed, nil
}

// lowest is the lowest layer with a call that the program waits for, or one
// past the highest.
func (t *callTable) lowest() int {
	if len(t.open) == 0 {
		return t.highest + 1
	}
	low := t.highest
	for n := range t.open {
		low = min(low, n)
	}
	return low
}

// held are the calls of a layer that have not been admitted.
func (t *callTable) held(layer int) []*call {
	var out []*call
	for _, c := range t.order {
		if c.layer <= layer && c.state == callIssued {
			out = append(out, c)
		}
	}
	return out
}

// before is the newest layer before one in which a call was made, -1 when
// there is none: a layer that was foreseen and never came is nothing to pause after.
func (t *callTable) before(layer int) int {
	before := -1
	for _, c := range t.order {
		if c.layer < layer && c.tool != core.SleepTool && c.state == callDelivered && c.outcome != core.OutcomeSkipped {
			before = max(before, c.layer)
		}
	}
	return before
}

// digest is of all calls of a layer that are sent, those that have settled
// as well: it stays the same while the layer is under way, in every process.
func (t *callTable) digest(layer int) string {
	var key []string
	for _, c := range t.order {
		skipped := c.skip || c.reason != nil || c.state >= callSettled && c.outcome == core.OutcomeSkipped
		if c.layer <= layer && c.tool != core.SleepTool && !skipped && c.state != callDelivered {
			key = append(key, c.id+" "+c.tool+" "+c.passed.digest)
		}
	}
	slices.Sort(key)
	digest, err := core.DigestOf(key)
	if err != nil {
		return ""
	}
	return digest
}

// dropped are the calls without an outcome when the run ends: those that the
// program has made, as it made them, and those that are journaled and that it
// has not come to again.
func (t *callTable) dropped() []core.Dropped {
	var out []core.Dropped
	for _, c := range t.order {
		if c.state < callSettled && c.state != callSleeping {
			out = append(out, core.Dropped{TaskID: c.id, Tool: c.tool, MayHaveRun: c.started && !c.ofAgent()})
		}
	}
	first := len(out)
	for id, r := range t.journal.parked {
		if t.lacks(id) {
			out = append(out, core.Dropped{TaskID: id, Tool: r.Tool, MayHaveRun: t.journal.begun[id].Kind == core.RecordStarted && !ofAgent(r.Tool)})
		}
	}
	for id, r := range t.journal.begun {
		if _, parked := t.journal.parked[id]; !parked && r.Kind == core.RecordStarted && !ofAgent(r.Tool) && t.lacks(id) {
			out = append(out, core.Dropped{TaskID: id, Tool: r.Tool, MayHaveRun: true})
		}
	}
	slices.SortFunc(out[first:], func(x, y core.Dropped) int { return strings.Compare(x.TaskID, y.TaskID) })
	return out
}

// abandoned adds to the unanswered calls those that have no outcome when the run ends.
func (t *callTable) abandoned() {
	for _, c := range t.order {
		if c.passage != nil && c.state < callSettled {
			t.unanswered = append(t.unanswered, c)
		}
	}
	for id, r := range t.journal.passed {
		if t.lacks(id) {
			t.unanswered = append(t.unanswered, &call{issued: issued{id: id, tool: r.Tool, args: r.Args}, passage: r.Passage})
		}
	}
}

// lacks reports whether a journaled call has no outcome and the program has not
// made it again.
func (t *callTable) lacks(id string) bool {
	_, settled := t.journal.byCall[id]
	return !settled && t.byID[id] == nil
}

// admit queues a call that may run.
func (t *callTable) admit(c *call) {
	t.move(c, callQueued)
	c.asks = nil
	t.queue = append(t.queue, c)
}

// dequeue prepares queued calls to start with the next commit, as many as may
// run at the same time. One whose repetition could hurt is journaled first.
func (t *callTable) dequeue() {
	if t.halted != nil {
		return
	}
	rest := t.queue[:0]
	for i, c := range t.queue {
		if t.in[callRunning] >= t.limits.Concurrency {
			rest = append(rest, t.queue[i:]...)
			break
		}
		switch {
		case c.state != callQueued:
		case t.full(c):
			rest = append(rest, c)
		default:
			t.begin(c)
			t.pending = append(t.pending, c)
		}
	}
	clear(t.queue[len(rest):])
	t.queue = rest
}

// refill begins a queued call in the place of one that has just ended; nil when none
// may. It does not wait for the commit of the outcomes: what led to the call is
// committed, and it needs no record. So it runs while the program is given them.
func (t *callTable) refill() *call {
	for t.halted == nil && t.cleared > 0 && len(t.queue) > 0 && t.in[callRunning] < t.limits.Concurrency {
		c := t.queue[0]
		if c.state == callQueued && (!c.repeatable() || c.ofAgent() || t.full(c)) {
			return nil
		}
		t.queue = t.queue[1:]
		t.cleared--
		if c.state == callQueued {
			t.begin(c)
			return c
		}
	}
	return nil
}

// committed returns the calls that are to be made now that what was done so far is
// committed.
func (t *callTable) committed() []*call {
	list := t.pending
	t.pending, t.cleared = nil, len(t.queue)
	return list
}

// pass takes up what hook flows made of a call.
func (t *callTable) pass(c *call, p core.Passage) error {
	c.unkept = true
	t.passed = append(t.passed, c)
	return c.pass(p)
}

// keepPassages journals what flows made of calls that have to wait before they begin:
// whoever goes on with the run asks about the same calls. One that may be repeated
// has no record before its outcome.
func (t *callTable) keepPassages() {
	for _, c := range t.passed {
		if c.unkept && c.state < callRunning && !c.repeatable() {
			c.parkedAt = t.now()
			t.batch.record(callRecord(core.RecordParked, c))
		}
	}
	t.passed = nil
}

// childState says whether the run that a call has started waits for people.
type childState struct {
	call  string
	waits bool
}

// childWaits takes up whether the run of a call waits.
func (t *callTable) childWaits(s childState) {
	c := t.byID[s.call]
	if c == nil || c.state != callRunning || c.childWaits == s.waits {
		return
	}
	c.childWaits = s.waits
	if s.waits {
		t.away++
	} else {
		t.away--
	}
}

// full reports whether the server of a call has as many calls of the run as it may.
// A call that waits for its place is not begun: what it waits is no part of its
// time limit, and nobody is in doubt about it when the run is stopped.
func (t *callTable) full(c *call) bool {
	return t.limits.PerServer > 0 && t.on[c.server()] >= t.limits.PerServer
}

// begin makes a queued call a running one.
func (t *callTable) begin(c *call) {
	t.move(c, callRunning)
	c.attempt++
	c.startAt = t.now()
	if startsRun(c.tool) {
		t.batch.run.Starts = true
	}
	if core.StartsAgent(c.tool) && c.share == nil {
		c.share = &core.AgentShare{Granted: t.grant(c)}
	}
	if !c.repeatable() || c.ofAgent() {
		c.started = true
		t.batch.record(callRecord(core.RecordStarted, c))
	}
	layer := c.layer
	e := t.batch.event(core.EventTaskStart)
	e.TaskID, e.Tool, e.Layer, e.At = c.id, c.tool, &layer, c.startAt
	t.batch.emit(e)
}

// settleFailed is settle for a call that has failed, which its task may not mind.
func (t *callTable) settleFailed(c *call, outcome core.Outcome, err *core.Error) {
	if c.spec != nil && c.spec.SafeToFail {
		outcome = core.OutcomeFailedSafe
	}
	t.settle(c, outcome, c.value, err)
}

// unstart takes back that a call was started, which was not made.
func (t *callTable) unstart(c *call) {
	if c.started {
		c.started = false
		t.batch.record(callRecord(core.RecordVoid, c))
	}
}

// settle gives a call its outcome and journals it.
func (t *callTable) settle(c *call, outcome core.Outcome, value []byte, err *core.Error) {
	if c.passage != nil && (c.state != callRunning || err != nil) {
		t.unanswered = append(t.unanswered, c)
	}
	c.outcome, c.value, c.err = outcome, value, err
	c.settleAt = t.now()
	t.move(c, callSettled)
	c.started = false
	r := callRecord(core.RecordSettled, c)
	r.Outcome, r.Result, r.Error, r.At = outcome, value, err, c.settleAt
	c.seq = t.batch.record(r)
	r.Seq = c.seq
	t.journal.settle(r)
	t.batch.settled(c, r)
}

// deliver hands the outcome of a call to the program, which sees it as of a time.
func (t *callTable) deliver(c *call, at time.Time) delivery {
	t.delivered(c)
	return delivery{seq: c.seq, call: c, outcome: c.outcome, value: c.value, err: c.err, at: at}
}

func (t *callTable) delivered(c *call) {
	t.move(c, callDelivered)
	if t.open[c.layer]--; t.open[c.layer] == 0 {
		delete(t.open, c.layer)
	}
}

// drop forgets a sleep that the script took back: nothing waits for it any more. A
// replay takes it back at the same place.
func (t *callTable) drop(c *call) {
	if c == nil || c.state != callSleeping {
		return
	}
	close(c.dropped)
	c.outcome = core.OutcomeSkipped
	t.delivered(c)
}

// sleep makes a call one that settles when it is due; one that was due before a
// restart is due at once.
func (t *callTable) sleep(c *call) {
	t.move(c, callSleeping)
	c.startAt = t.now()
	c.dropped = make(chan struct{})
}

// takeBack takes a call that is queued, or begun and not made, back to where its gates
// are asked; nil if it is neither.
func (t *callTable) takeBack(id string) *call {
	c := t.byID[id]
	pending := slices.Contains(t.pending, c)
	switch {
	case c == nil || c.state != callQueued && !pending:
		return nil
	case pending:
		t.pending = slices.DeleteFunc(t.pending, func(p *call) bool { return p == c })
		c.attempt--
	}
	t.retake(c)
	return c
}

// retake takes a call that was not made back to where its gates are asked.
func (t *callTable) retake(c *call) {
	t.unstart(c)
	c.checked, c.parkedAt = false, time.Time{}
	t.move(c, callIssued)
}

// retry takes a call back to where its gates are asked, once its next attempt is
// due. That an attempt has failed is journaled: whoever goes on knows that it
// answered, and how many are left.
func (t *callTable) retry(c *call, err *core.Error) {
	c.started = false
	r := callRecord(core.RecordVoid, c)
	r.Error = err
	t.batch.record(r)
	c.failures++
	c.checked = false // nothing lets it on before the wait is over
	t.move(c, callIssued)
}

// leave takes a call back that the end of this process has cut off. Where it is
// certain that it was not made, that is journaled.
func (t *callTable) leave(c *call, notMade bool) {
	if notMade {
		t.unstart(c)
	}
	t.move(c, callIssued)
}

// move changes a call's state.
func (t *callTable) move(c *call, s callState) {
	t.in[c.state]--
	t.in[s]++
	if c.state == callRunning {
		t.on[c.server()]--
		t.childWaits(childState{c.id, false})
	}
	if s == callRunning {
		t.on[c.server()]++
	}
	c.state = s
}

// park stops a call until its questions are answered.
func (t *callTable) park(c *call) {
	if c.state != callParked {
		t.move(c, callParked)
	}
	if c.parkedAt.IsZero() {
		c.parkedAt = t.now()
		t.batch.record(callRecord(core.RecordParked, c))
	}
}

// undelivered counts calls that are under way: neither known to the program
// nor parked. A parked call that may have run counts: what became of it must be
// asked, even if the script has failed.
func (t *callTable) undelivered() int {
	n := len(t.order) - t.in[callDelivered] - t.in[callParked]
	if t.in[callParked] == 0 {
		return n
	}
	for _, c := range t.order {
		if c.state == callParked && c.started {
			n++
		}
	}
	return n
}

// located adds the failed calls of a script to its error.
func (t *callTable) located(err *core.Error) *core.Error {
	if len(err.Failures) > 0 {
		return err
	}
	c := *err
	for _, k := range t.order {
		switch k.outcome {
		case core.OutcomeError, core.OutcomeDenied, core.OutcomeCancelled:
			c.Failures = append(c.Failures, failure(k.id, k.tool, k.err))
		case core.OutcomeSuccess, core.OutcomeFailedSafe, core.OutcomeSkipped:
		}
	}
	return &c
}

// addUnseen counts what is journaled of calls that the program has not made again:
// the run ended before it got there.
func (t *callTable) addUnseen(s *Summary) {
	for _, r := range t.journal.settled {
		if t.byID[r.CallID] == nil {
			s.add(r.Tool, r.Outcome.State())
		}
	}
	for id, r := range t.journal.begun {
		if r.Kind == core.RecordStarted && t.byID[id] == nil {
			s.add(r.Tool, core.TaskError)
		}
	}
}
