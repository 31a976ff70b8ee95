package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// call is one call of the program. callTable moves it from state to state.
type call struct {
	issued
	digest string // of the arguments as the program passed them
	// passed are the arguments as hook flows left them, which people are asked about,
	// and sent as a person left those; either is what came before it where nobody
	// changed anything.
	passed, sent arguments
	// passage is what flows made of the call, without the arguments; nil: it has met
	// none. unkept is set while no record says so.
	passage *core.Passage
	unkept  bool
	// edits are the approvals with which people have changed its arguments. Replay finds
	// them with the approvals.
	edits []*core.Approval
	state callState
	// attempt counts how often it was begun, by whichever process.
	attempt int
	// back counts how often it was begun, not made, and went back to its gates.
	back int
	// failures counts those of its attempts that have failed and were followed by another.
	failures int
	// share is what the agent that the call has started was given, and has used.
	share *core.AgentShare
	// childWaits is set while the run that the call has started waits for people.
	childWaits bool

	// verdict is what its gates have said last; checked is false as long as there is
	// none that counts: they have not answered, or it is to wait before its next
	// attempt.
	verdict Verdict
	checked bool
	// weighing is set while the condition of its task is being evaluated: its gates
	// are asked after that, if it is true.
	weighing bool
	asks     []Ask // what it is parked on
	// by is the yes to another call of its loop that permits it, until when at most;
	// refusals is how often the store has refused that.
	by       *core.Approval
	until    *time.Time
	refusals int
	over     bool      // it was not made: that time was over
	parkedAt time.Time // when a parked record was journaled; zero: none is

	// started is set while a started record is journaled that nothing has taken back
	// or settled: should pml end now, the call may have run. One that was journaled by
	// an earlier process is from before, and ended with why, which is nil where only
	// that process did; the call is then in doubt until somebody has said what is to
	// become of it.
	started bool
	before  time.Time
	why     *core.Error
	startAt time.Time // of this attempt, or of a sleep

	// The outcome, and the sequence number and time of its record.
	outcome  core.Outcome
	value    json.RawMessage
	err      *core.Error
	seq      int64
	settleAt time.Time

	dropped chan struct{} // of a sleep: closed when the script takes it back
}

// callState is how far a call has got. Each change is a method of callTable, which
// also puts into the next commit what must be known of it:
//
//	from               to         method   record    when
//	                   issued     add                the program makes it; its gates are asked, its layer holds it
//	                   settled    add                the program makes it anew, and its outcome is journaled
//	issued, parked     queued     admit              its gates and its layer admit it: nothing is left to be asked
//	issued             parked     park     parked    somebody is asked; the record is written once for all questions
//	queued             running    begin    started   there is a place for it; no record where a repetition is harmless
//	running            queued     requeue   void      its beginning was refused: all calls are halted
//	running            issued     retake   void      it was not made: its gates are asked again
//	running            issued     retry    void      the attempt failed, and its task wants another
//	running            issued     leave              the process ends first: who takes the run up asks what became of it
//	issued             sleeping   sleep              it is a sleep that is not due
//	all before         settled    settle   settled   it has its outcome
//	settled            delivered  deliver            the program has it
//	sleeping           delivered  drop               the script has taken the sleep back
//
// A started record is committed before the call is made, and the settled one before
// the program, or anybody else, sees the outcome.
type callState int

const (
	callIssued callState = iota
	callParked
	callQueued
	callRunning
	callSleeping
	callSettled
	callDelivered
	callStates // how many states there are
)

// arguments are those of a call, with their digest.
type arguments struct {
	raw    json.RawMessage
	digest string
}

// newCall is a call that the program makes.
func newCall(is issued, digest string) *call {
	c := &call{issued: is, digest: digest, passed: arguments{is.args, digest}}
	c.sent = c.passed
	return c
}

// pass takes up what hook flows made of the call. Flows that meet it only as a person
// has edited it may look at that, and change nothing of it.
func (c *call) pass(p core.Passage) error {
	if len(c.edits) > 0 && c.passage == nil {
		if len(p.Args) > 0 {
			return core.Errorf(core.CodeHookFailed, "a hook flow would change the arguments of %s that a person has put in place of the program's; nothing was called", c.tool)
		}
		c.passage = &p
		return nil
	}
	if len(p.Args) > 0 {
		digest, err := core.Digest(p.Args)
		if err != nil {
			return core.Errorf(core.CodeHookFailed, "what hook flows made of the arguments of %s cannot be read: %w", c.tool, err)
		}
		c.passed = arguments{p.Args, digest}
	}
	p.Args = nil
	c.sent, c.passage = c.passed, &p
	return nil
}

// recall takes up what a record of the call says of the flows that it met, if it is
// about the same arguments.
func (c *call) recall(r core.Record) error {
	if r.Passage == nil || r.ArgsDigest != c.digest {
		return nil
	}
	p := *r.Passage
	if len(p.Args) == 0 {
		p.Args = r.Sent
	}
	return c.pass(p)
}

// tookEdit reports whether a call has the arguments of an approval, or had them.
func (c *call) tookEdit(ap *core.Approval) bool {
	return slices.ContainsFunc(c.edits, func(e *core.Approval) bool { return e.ID == ap.ID })
}

// approvedAs reports whether the question is about what a person has made of the
// arguments, and said yes to.
func (c *call) approvedAs(ask Ask) bool {
	n := len(c.edits)
	return n > 0 && ask.Type == core.ApproveTool && ask.Digest == c.edits[n-1].Answer.Digest
}

// server is where the call goes.
func (c *call) server() string {
	server, _, _ := strings.Cut(c.tool, ":")
	return server
}

// repeatable reports whether a call that may have run can simply run again.
func (c *call) repeatable() bool {
	if c.ofAgent() {
		return true
	}
	if c.spec != nil && c.spec.SideEffects != nil {
		return !*c.spec.SideEffects
	}
	return c.verdict.Repeatable
}

// readOnly reports whether a call changes nothing.
func (c *call) readOnly() bool {
	if c.spec != nil && c.spec.SideEffects != nil {
		return !*c.spec.SideEffects
	}
	return c.verdict.ReadOnly
}

// ofAgent reports whether the call is a request to the model of an agent, or starts a run:
// a script of an agent's, or an agent. Making it again harms nobody: a model only answers, and a
// run that is there is gone on with. Its beginning is journaled all the same, for who
// looks for the run, or counts the requests.
func (c *call) ofAgent() bool { return ofAgent(c.tool) }

func ofAgent(tool string) bool { return tool == core.ModelTool || startsRun(tool) }

func startsRun(tool string) bool { return tool == core.RunTool || core.StartsAgent(tool) }

// callRecord is a record about a call.
func callRecord(kind core.RecordKind, c *call) core.Record {
	r := core.Record{
		Kind: kind, CallID: c.id, Tool: c.tool, Layer: c.layer, Attempt: c.attempt,
		ArgsDigest: c.digest, Args: c.args, Passage: c.passage, StartedAt: c.startAt, Agent: c.share,
		AllowedBy: c.verdict.AllowedBy,
	}
	if c.sent.digest != c.digest {
		r.Sent = c.sent.raw
	}
	if c.passage != nil && c.sent.digest != c.passed.digest {
		p := *c.passage
		p.Args = c.passed.raw
		r.Passage = &p
	}
	c.unkept = false
	return r
}
