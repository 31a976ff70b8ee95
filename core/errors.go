package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Code is the stable code of an error.
type Code string

// The codes. Each edge (exit status, HTTP, MCP) maps them in one table.
const (
	CodeInvalidArguments  Code = "invalid_arguments"
	CodeInvalidConfig     Code = "invalid_config"
	CodeEmptyCode         Code = "empty_code"
	CodeTooLarge          Code = "code_too_large"
	CodeSyntax            Code = "syntax_error"
	CodeScript            Code = "script_error" // an exception that the script did not catch
	CodeNoSuchTool        Code = "no_such_tool"
	CodeDAGInvalid        Code = "dag_invalid"
	CodeNotFound          Code = "workflow_not_found"
	CodeWorkflowExpired   Code = "workflow_expired"
	CodeApprovalExpired   Code = "approval_expired"
	CodeNotTrusted        Code = "not_trusted"
	CodeAlreadyDecided    Code = "already_decided"
	CodeDigestMismatch    Code = "digest_mismatch"
	CodeNotWaiting        Code = "not_waiting"
	CodeDuplicate         Code = "duplicate" // an idempotency key was used before; RunID names the run
	CodeAwaitingHuman     Code = "awaiting_human"
	CodePermissionDenied  Code = "permission_denied"
	CodeDenied            Code = "denied"
	CodeHalted            Code = "halted" // a person has halted all calls; none was made
	CodeHookFailed        Code = "hook_failed"
	CodeIntegrityFailed   Code = "integrity_failed"
	CodeInstallFailed     Code = "install_failed"
	CodeServerUnreachable Code = "server_unreachable"
	CodeToolFailed        Code = "tool_failed"
	CodeToolTimeout       Code = "tool_timeout"
	CodeTimeout           Code = "timeout"
	CodeSandboxMemory     Code = "sandbox_memory"
	CodeSandboxTimeout    Code = "sandbox_timeout"
	CodeSandboxCrashed    Code = "sandbox_crashed"
	CodeReplay            Code = "nondeterministic_replay"
	CodeCallLimit         Code = "call_limit"
	CodeRunLimit          Code = "run_limit" // an owner has as many runs as it may; nothing was run
	CodeDepthLimit        Code = "depth_limit"
	CodeResultTooLarge    Code = "result_too_large"
	CodeBudget            Code = "budget_exhausted"
	CodeAborted           Code = "aborted"
	CodeCancelled         Code = "cancelled"
	CodeStoreBusy         Code = "store_busy"
	CodeStoreNewer        Code = "store_newer"
	CodeStoreFailed       Code = "store_failed" // disk full, read-only, damaged
	CodeStoreKey          Code = "store_key"    // it is encrypted with a key that is not here
	CodeFenced            Code = "fenced"       // another process has taken the run over
	CodeUsage             Code = "usage"
	CodeAuth              Code = "auth_required"
	CodeRateLimited       Code = "rate_limited" // ask again later; the HTTP answer says when
	CodeInternal          Code = "internal"

	CodeModelNoKey       Code = "model_no_key"         // no model is configured, or the key of one is not set
	CodeModelKeyRefused  Code = "model_key_refused"    // by the provider
	CodeModelQuota       Code = "model_quota"          // the account with the provider is used up
	CodeModelUnavailable Code = "model_unavailable"    // the provider fails or is overloaded; again later
	CodeModelContext     Code = "model_context"        // the conversation is longer than the model takes
	CodeModelInvalid     Code = "model_invalid"        // the provider does not understand the request, or has no such model
	CodeModelRefused     Code = "model_refused"        // by a policy of the provider
	CodeModelStream      Code = "model_stream_broken"  // the answer broke off, or is not what the protocol says
	CodeModelOutput      Code = "model_output_invalid" // what it said is not what was asked for
	CodeModelTimeout     Code = "model_timeout"        // the provider sent nothing for too long
)

// Error is the one error type of pml. Message says what happened and to what;
// Next is a command that can be run. It round-trips through JSON, so that it
// can be journaled.
type Error struct {
	Code    Code   `json:"error_code"`
	Message string `json:"error"`
	// Next is the argument vector of a command that helps, e.g. ["pml", "continue", "7f3a…"].
	Next     []string  `json:"next,omitempty"`
	Location *Position `json:"location,omitempty"`
	RunID    ID        `json:"workflow_id,omitempty"`
	Faults   []Fault   `json:"faults,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	// Warnings are, of a program that is not valid, what is probably wrong with it besides.
	Warnings []PlanNote `json:"warnings,omitempty"`
	Decided  *DecidedBy `json:"decided_by,omitempty"` // with CodeAlreadyDecided and CodeDenied
	// Ambiguous are the ids that a prefix could mean, with CodeNotFound.
	Ambiguous []ID `json:"ambiguous,omitempty"`
	// Stack is the script's own stack, in positions of the user's source.
	Stack string `json:"stack,omitempty"`
	// NotMade says of the failure of a call that nothing of it has got to its
	// server, which is certain: it cannot have had an effect.
	NotMade bool `json:"not_made,omitempty"`
	// Retryable says that the same call, made again later, may go well: nothing of it has got to its
	// server, and what was in the way passes, as with a server that is slow or restarts.
	Retryable bool `json:"retryable,omitempty"`
	// Provider says of a denial that it is about the provider of a model.
	Provider bool `json:"provider,omitempty"`
	// Made says of the failure of a call that its server has answered it, so that it
	// has had its effect: the answer was not let through. It is never repeated by itself.
	Made bool `json:"made,omitempty"`
	// RetryAfter is how many seconds a provider of models wants to be left alone, with
	// CodeRateLimited and CodeModelUnavailable; 0: it has not said.
	RetryAfter int `json:"retry_after,omitempty"`

	cause error
}

// Fault is one of several things that are wrong with an input.
type Fault struct {
	File    string    `json:"file,omitempty"`
	Path    string    `json:"path,omitempty"` // JSON pointer
	At      *Position `json:"location,omitempty"`
	Message string    `json:"message"`
}

// String gives the fault on one line: where, then what.
func (f Fault) String() string {
	var where []string
	if f.File != "" {
		where = append(where, f.File)
	}
	if f.At != nil {
		where = append(where, fmt.Sprintf("%d:%d", f.At.Line, f.At.Column))
	}
	if f.Path != "" {
		where = append(where, f.Path)
	}
	if len(where) == 0 {
		return f.Message
	}
	return strings.Join(where, ":") + ": " + f.Message
}

// Failure is a task that failed in a run.
type Failure struct {
	TaskID string `json:"task_id"`
	Tool   string `json:"tool"`
	Code   Code   `json:"error_code,omitempty"`
	Error  string `json:"error"`
	// Retryable is that of the task's error.
	Retryable bool `json:"retryable,omitempty"`
}

// Errorf makes an error with a code; %w keeps the cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Error returns the message, with one line for each fault.
func (e *Error) Error() string {
	if len(e.Faults) == 0 {
		return e.Message
	}
	var b strings.Builder
	b.WriteString(e.Message)
	for _, f := range e.Faults {
		b.WriteString("\n  ")
		b.WriteString(f.String())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an Error of the same code, so that
// errors.Is(err, &core.Error{Code: …}) works.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code && t.Message == ""
}

// WithNext returns a copy of the error with the command that helps.
func (e *Error) WithNext(argv ...string) *Error {
	c := *e
	c.Next = argv
	return &c
}

// WithRun returns a copy of the error that names a run.
func (e *Error) WithRun(id ID) *Error {
	c := *e
	c.RunID = id
	return &c
}

// WithNotMade returns a copy of the error that says that the call was not made, and
// whether it may go well later.
func (e *Error) WithNotMade() *Error {
	c := *e
	c.NotMade = true
	c.Retryable = c.Retryable || c.Code == CodeServerUnreachable || c.Code == CodeRateLimited
	return &c
}

// WithMade returns a copy of the error that says that the call was made.
func (e *Error) WithMade() *Error {
	c := *e
	c.Made = true
	return &c
}

// OfProgram reports whether the error that a run has ended with is a fault of the program
// itself: an exception of its own, arguments or a DAG that cannot be, too many calls. The same
// program fails again in the same way until somebody mends it.
func (e *Error) OfProgram() bool {
	faulty := func(c Code) bool {
		return c == CodeScript || c == CodeSyntax || c == CodeInvalidArguments || c == CodeDAGInvalid || c == CodeCallLimit
	}
	return faulty(e.Code) && !slices.ContainsFunc(e.Failures, func(f Failure) bool { return !faulty(f.Code) })
}

// DeniedBy is whoever has refused a call, as the audit log names it: the flow that did,
// or the rules of the workspace.
func (e *Error) DeniedBy() Actor {
	if e.Decided != nil {
		return e.Decided.Actor
	}
	return Actor{Who: "policy", Via: ViaRule}
}

// CodeOf returns the code of an error: empty for nil, CodeInternal for one
// that is not an Error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// AsError returns err as an Error, wrapping a foreign one as CodeInternal.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error(), cause: err}
}
