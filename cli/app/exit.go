package app

import (
	"errors"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The exit codes. They are an interface: scripts rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitAuth        = 4
	ExitUnreachable = 5
	ExitPending     = 8
	exitDenied      = 9
	ExitAborted     = 10
	ExitExpired     = 11
	exitConflict    = 12
	exitInvalid     = 13
	exitTimeout     = 124
)

// ExitMeanings says what the exit codes mean, for help.
var ExitMeanings = []struct {
	Code int
	Text string
}{
	{ExitOK, "it is done"},
	{ExitFailed, "it failed: the run, a call, or a check that did not hold"},
	{exitUsage, "the command line is wrong; nothing was opened"},
	{exitNotFound, "there is no such run, approval, tool or server"},
	{exitAuth, "a key or a PIN is missing or wrong"},
	{ExitUnreachable, "a server does not answer"},
	{ExitPending, "somebody must decide first: pml approvals ls, pml trust"},
	{exitDenied, "it was denied, by a person or a rule"},
	{ExitAborted, "the run was aborted"},
	{ExitExpired, "the approval or the run has expired"},
	{exitConflict, "somebody was faster, or it is not what was shown"},
	{exitInvalid, "a file is not valid: .pml.json, a DAG"},
	{exitTimeout, "--timeout ran out; the run is kept"},
	{130, "interrupted; 129 and 143 after SIGHUP and SIGTERM"},
}

// ExitCodes maps every error code. CodeTimeout is a run that used up its own
// time, which is a failure; 124 is for a command that stopped waiting for a
// run that goes on.
var ExitCodes = map[core.Code]int{
	core.CodeInvalidArguments:  exitUsage,
	core.CodeInvalidConfig:     exitInvalid,
	core.CodeEmptyCode:         exitUsage,
	core.CodeTooLarge:          exitUsage,
	core.CodeSyntax:            ExitFailed,
	core.CodeScript:            ExitFailed,
	core.CodeNoSuchTool:        exitNotFound,
	core.CodeDAGInvalid:        exitInvalid,
	core.CodeNotFound:          exitNotFound,
	core.CodeWorkflowExpired:   ExitExpired,
	core.CodeApprovalExpired:   ExitExpired,
	core.CodeNotTrusted:        ExitPending, // a person's yes is missing: pml trust
	core.CodeAlreadyDecided:    exitConflict,
	core.CodeDigestMismatch:    exitConflict,
	core.CodeNotWaiting:        exitConflict,
	core.CodeDuplicate:         exitConflict,
	core.CodeAwaitingHuman:     ExitPending,
	core.CodePermissionDenied:  exitDenied,
	core.CodeDenied:            exitDenied,
	core.CodeHalted:            ExitPending, // a person lets calls go on: pml resume
	core.CodeHookFailed:        exitDenied,  // a gate that fails denies
	core.CodeIntegrityFailed:   ExitFailed,
	core.CodeInstallFailed:     ExitFailed,
	core.CodeServerUnreachable: ExitUnreachable,
	core.CodeToolFailed:        ExitFailed,
	core.CodeToolTimeout:       ExitFailed,
	core.CodeTimeout:           ExitFailed,
	core.CodeSandboxMemory:     ExitFailed,
	core.CodeSandboxTimeout:    ExitFailed,
	core.CodeSandboxCrashed:    ExitFailed,
	core.CodeReplay:            ExitFailed,
	core.CodeCallLimit:         ExitFailed,
	core.CodeRunLimit:          ExitFailed,
	core.CodeDepthLimit:        ExitFailed,
	core.CodeResultTooLarge:    ExitFailed,
	core.CodeBudget:            ExitFailed,
	core.CodeAborted:           ExitAborted,
	core.CodeCancelled:         ExitFailed,
	core.CodeStoreBusy:         ExitFailed,
	core.CodeStoreNewer:        ExitFailed,
	core.CodeStoreFailed:       ExitFailed,
	core.CodeStoreKey:          ExitFailed,
	core.CodeFenced:            exitConflict,
	core.CodeUsage:             exitUsage,
	core.CodeAuth:              exitAuth,
	core.CodeRateLimited:       ExitFailed,
	core.CodeInternal:          ExitFailed,

	core.CodeModelNoKey:       exitAuth,
	core.CodeModelKeyRefused:  exitAuth,
	core.CodeModelQuota:       ExitFailed,
	core.CodeModelUnavailable: ExitUnreachable,
	core.CodeModelContext:     ExitFailed,
	core.CodeModelInvalid:     ExitFailed,
	core.CodeModelRefused:     exitDenied,
	core.CodeModelStream:      ExitFailed,
	core.CodeModelOutput:      ExitFailed,
	core.CodeModelTimeout:     ExitFailed,
}

// StatusCodes maps the status of a result; StatusError goes by its error code.
var StatusCodes = map[api.Status]int{
	api.StatusSuccess:          ExitOK,
	api.StatusComplete:         ExitOK,
	api.StatusReplanned:        ExitOK,
	api.StatusSuggestions:      ExitOK,
	api.StatusLayerComplete:    ExitPending,
	api.StatusApprovalRequired: ExitPending,
	api.StatusAwaitingHuman:    ExitPending,
	api.StatusHalted:           ExitPending,
	api.StatusExecuteLocally:   ExitPending,
	api.StatusRunning:          exitTimeout,
	api.StatusAborted:          ExitAborted,
	api.StatusError:            ExitFailed,
}

// ExitCode returns the exit code of an error's code. One that this build does
// not know is a failure.
func ExitCode(code core.Code) int {
	if n, ok := ExitCodes[code]; ok {
		return n
	}
	return ExitFailed
}

// ExitStatus ends a command with a code when everything was said already.
type ExitStatus int

// Error implements error; it is never shown.
func (ExitStatus) Error() string { return "exit" }

// TimedOut is the error of a command whose --timeout ran out.
type TimedOut struct{ Err *core.Error }

// Error says what was waited for.
func (t TimedOut) Error() string { return t.Err.Error() }

// Unwrap returns what was waited for.
func (t TimedOut) Unwrap() error { return t.Err }

// FailedRun is the error of a run that was made and failed.
type FailedRun struct{ Err *core.Error }

// Error says why it failed.
func (f FailedRun) Error() string { return f.Err.Error() }

// Unwrap returns why it failed.
func (f FailedRun) Unwrap() error { return f.Err }

// exitOfError returns the exit code of an error. The codes that say that
// nothing was run are not those of a run that failed: it may have made calls.
func exitOfError(err error, code core.Code) int {
	n := ExitCode(code)
	if errors.As(err, &FailedRun{}) && (n == exitUsage || n == exitNotFound || n == exitInvalid) {
		return ExitFailed
	}
	return n
}

// StatusExit returns the exit code of a result other than an error.
func StatusExit(status api.Status) int {
	if n, ok := StatusCodes[status]; ok {
		return n
	}
	return ExitFailed
}

// retryable are the errors of runs that may go better once what was wrong outside of
// the program is mended.
var retryable = map[core.Code]bool{
	core.CodeToolFailed: true, core.CodeToolTimeout: true, core.CodeServerUnreachable: true, core.CodeInstallFailed: true, core.CodeRateLimited: true,
}

// AfterFailure is the command that helps with a run that failed on something outside of its
// program: to look at the server that does not start, as long as it does not, else to run
// again what failed.
func AfterFailure(run core.ID, e *core.Error) []string {
	if e != nil {
		for _, f := range e.Failures {
			server, _, ok := core.SplitTool(f.Tool)
			if ok && (f.Code == core.CodeServerUnreachable && f.Retryable || f.Code == core.CodeInstallFailed) {
				return []string{"pml", "servers", "check", server}
			}
		}
	}
	return []string{"pml", "retry", run.Short()}
}

// ResultError returns the error that a result reports, nil for any other
// status than error.
func ResultError(r api.Result) error {
	if r.Status != api.StatusError {
		return nil
	}
	e := &core.Error{
		Code: r.ErrorCode, Message: r.Error, Next: r.Next, Location: r.Location, RunID: r.WorkflowID,
		Faults: r.Faults, Failures: r.Failures, Decided: r.Decided, Stack: r.Stack, Retryable: r.Retryable,
	}
	if e.Code == "" {
		e.Code = core.CodeInternal
	}
	if e.Message == "" {
		e.Message = "the run failed without saying why"
	}
	if len(e.Next) == 0 && r.WorkflowID != "" && retryable[e.Code] {
		e.Next = AfterFailure(r.WorkflowID, e)
	}
	if r.WorkflowID != "" {
		return FailedRun{Err: e}
	}
	return e
}
