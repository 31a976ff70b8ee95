package cli

import (
	"errors"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The exit codes. They are an interface: scripts rely on them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitAuth        = 4
	exitUnreachable = 5
	exitPending     = 8
	exitDenied      = 9
	exitAborted     = 10
	exitExpired     = 11
	exitConflict    = 12
	exitInvalid     = 13
	exitTimeout     = 124
)

// exitCodes maps every error code. CodeTimeout is a run that used up its own
// time, which is a failure; 124 is for a command that stopped waiting for a
// run that goes on.
var exitCodes = map[core.Code]int{
	core.CodeInvalidArguments:  exitUsage,
	core.CodeInvalidConfig:     exitInvalid,
	core.CodeEmptyCode:         exitUsage,
	core.CodeTooLarge:          exitUsage,
	core.CodeSyntax:            exitFailed,
	core.CodeScript:            exitFailed,
	core.CodeNoSuchTool:        exitNotFound,
	core.CodeDAGInvalid:        exitInvalid,
	core.CodeNotFound:          exitNotFound,
	core.CodeWorkflowExpired:   exitExpired,
	core.CodeApprovalExpired:   exitExpired,
	core.CodeNotTrusted:        exitPending, // a person's yes is missing: pml trust
	core.CodeAlreadyDecided:    exitConflict,
	core.CodeDigestMismatch:    exitConflict,
	core.CodeNotWaiting:        exitConflict,
	core.CodeDuplicate:         exitConflict,
	core.CodeAwaitingHuman:     exitPending,
	core.CodePermissionDenied:  exitDenied,
	core.CodeDenied:            exitDenied,
	core.CodeHookFailed:        exitDenied, // a gate that fails denies
	core.CodeIntegrityFailed:   exitFailed,
	core.CodeInstallFailed:     exitFailed,
	core.CodeServerUnreachable: exitUnreachable,
	core.CodeToolFailed:        exitFailed,
	core.CodeToolTimeout:       exitFailed,
	core.CodeTimeout:           exitFailed,
	core.CodeSandboxMemory:     exitFailed,
	core.CodeSandboxTimeout:    exitFailed,
	core.CodeSandboxCrashed:    exitFailed,
	core.CodeReplay:            exitFailed,
	core.CodeCallLimit:         exitFailed,
	core.CodeDepthLimit:        exitFailed,
	core.CodeResultTooLarge:    exitFailed,
	core.CodeBudget:            exitFailed,
	core.CodeAborted:           exitAborted,
	core.CodeCancelled:         exitFailed,
	core.CodeStoreBusy:         exitFailed,
	core.CodeStoreNewer:        exitFailed,
	core.CodeStoreFailed:       exitFailed,
	core.CodeFenced:            exitConflict,
	core.CodeUsage:             exitUsage,
	core.CodeAuth:              exitAuth,
	core.CodeRateLimited:       exitFailed,
	core.CodeInternal:          exitFailed,
}

// statusCodes maps the status of a result; StatusError goes by its error code.
var statusCodes = map[api.Status]int{
	api.StatusSuccess:          exitOK,
	api.StatusComplete:         exitOK,
	api.StatusReplanned:        exitOK,
	api.StatusSuggestions:      exitOK,
	api.StatusLayerComplete:    exitPending,
	api.StatusApprovalRequired: exitPending,
	api.StatusAwaitingHuman:    exitPending,
	api.StatusExecuteLocally:   exitPending,
	api.StatusRunning:          exitTimeout,
	api.StatusRejected:         exitDenied,
	api.StatusAborted:          exitAborted,
	api.StatusError:            exitFailed,
}

// exitOf returns the exit code of an error's code. One that this build does
// not know is a failure.
func exitOf(code core.Code) int {
	if n, ok := exitCodes[code]; ok {
		return n
	}
	return exitFailed
}

// exitStatus ends a command with a code when everything was said already.
type exitStatus int

// Error implements error; it is never shown.
func (exitStatus) Error() string { return "exit" }

// timedOut is the error of a command whose --timeout ran out.
type timedOut struct{ err *core.Error }

// Error says what was waited for.
func (t timedOut) Error() string { return t.err.Error() }

// Unwrap returns what was waited for.
func (t timedOut) Unwrap() error { return t.err }

// failedRun is the error of a run that was made and failed.
type failedRun struct{ err *core.Error }

// Error says why it failed.
func (f failedRun) Error() string { return f.err.Error() }

// Unwrap returns why it failed.
func (f failedRun) Unwrap() error { return f.err }

// exitOfError returns the exit code of an error. The codes that say that
// nothing was run are not those of a run that failed: it may have made calls.
func exitOfError(err error, code core.Code) int {
	n := exitOf(code)
	if errors.As(err, &failedRun{}) && (n == exitUsage || n == exitNotFound || n == exitInvalid) {
		return exitFailed
	}
	return n
}

// resultExit returns the exit code of a result other than an error.
func resultExit(r api.Result) int {
	if n, ok := statusCodes[r.Status]; ok {
		return n
	}
	return exitFailed
}

// resultError returns the error that a result reports, nil for any other
// status than error.
func resultError(r api.Result) error {
	if r.Status != api.StatusError {
		return nil
	}
	e := &core.Error{
		Code: r.ErrorCode, Message: r.Error, Next: r.Next, Location: r.Location, RunID: r.WorkflowID,
		Faults: r.Faults, Failures: r.Failures, Decided: r.Decided, Stack: r.Stack,
	}
	if e.Code == "" {
		e.Code = core.CodeInternal
	}
	if e.Message == "" {
		e.Message = "the workflow failed without saying why"
	}
	if r.WorkflowID != "" {
		return failedRun{e}
	}
	return e
}
