package engine

import (
	"fmt"

	"github.com/casys-ai/pml/core"
)

// doubts are the calls of a run of which nobody knows whether they have had
// their effect, as its journal says: they were started, and nothing that came
// later says that their tool answered, or that they never got to it. A failure
// alone says neither, and a retry takes it back: the doubt stays.
type doubts map[string]doubt

type doubt struct {
	started core.Record // its Error is how the call ended, as far as that is known
	settled bool        // an outcome stands behind it, that no retry has taken back
}

// add takes in the next record.
func (d doubts) add(r core.Record) {
	if ofAgent(r.Tool) {
		return
	}
	old, ok := d[r.CallID]
	switch r.Kind {
	case core.RecordStarted:
		d[r.CallID] = doubt{started: r}
	case core.RecordSettled:
		if !ok {
			return
		}
		made := !r.StartedAt.IsZero() // otherwise it is about the question, or a gate's
		if r.Outcome == core.OutcomeSuccess || made && r.Error != nil && !mayHaveRun(r.Error) {
			delete(d, r.CallID)
			return
		}
		if made {
			old.started.Error = r.Error
		}
		old.settled = true
		d[r.CallID] = old
	case core.RecordVoid:
		if r.Error != nil { // an attempt that failed
			old.started.Error = r.Error
			old.settled = mayHaveRun(r.Error)
		}
		if !ok || !old.settled { // it was not made
			delete(d, r.CallID)
			return
		}
		old.settled = false
		d[r.CallID] = old
	case core.RecordParked, core.RecordLayer:
	}
}

// open returns the started record of a call in doubt that has no outcome.
func (d doubts) open(callID string) (core.Record, bool) {
	old, ok := d[callID]
	return old.started, ok && !old.settled
}

// mayHaveRun reports whether a call that was started can have had its effect
// although it ended with this error. Of a code that is not known here it is
// assumed, unless whoever was to make the call knows that it was not made. A
// result that cannot be kept is one of a call that has run.
func mayHaveRun(err *core.Error) bool {
	if err.NotMade || err.Made {
		return err.Made
	}
	switch err.Code { //nolint:exhaustive // all others are in doubt
	case core.CodeToolFailed, core.CodeScript, core.CodeSyntax, core.CodeSandboxMemory, core.CodeSandboxTimeout:
		return false // it answered
	case core.CodeInvalidArguments, core.CodeNoSuchTool, core.CodeInvalidConfig, core.CodeNotTrusted, core.CodePermissionDenied,
		core.CodeDenied, core.CodeHookFailed, core.CodeIntegrityFailed, core.CodeInstallFailed, core.CodeAuth,
		core.CodeRateLimited, core.CodeCallLimit, core.CodeRunLimit, core.CodeDepthLimit, core.CodeBudget:
		return false // it was refused
	}
	return true
}

// doubtful says of the failure of a call that it may have run, when that is so.
func (c *call) doubtful(err *core.Error) *core.Error {
	if !c.started || c.ofAgent() || err.Made || !mayHaveRun(err) || err.Code == core.CodeResultTooLarge {
		return err
	}
	out := *err
	out.Message = fmt.Sprintf("%s may have run: %s", c.tool, err.Message)
	return &out
}

// endedHow says how a call in doubt has ended; err is nil when its process did.
func endedHow(err *core.Error) string {
	if err == nil {
		return "pml ended before it answered"
	}
	if err.Made {
		return "its answer was not let through"
	}
	switch err.Code { //nolint:exhaustive // the others say nothing about the call
	case core.CodeToolTimeout:
		return "it did not answer in time"
	case core.CodeServerUnreachable:
		return "its server was lost before it answered"
	case core.CodeCancelled:
		return "it was cancelled before it answered"
	case core.CodeResultTooLarge:
		return "its result could not be kept"
	}
	return "it is not known how it ended"
}

// may says how certain it is that a call in doubt has run.
func may(err *core.Error) string {
	if err != nil && err.Made {
		return "has"
	}
	return "may have"
}
