package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// statuses is the one table from the code of an error to the status of an HTTP
// answer.
var statuses = map[core.Code]int{
	core.CodeInvalidArguments:  http.StatusBadRequest,
	core.CodeUsage:             http.StatusBadRequest,
	core.CodeEmptyCode:         http.StatusBadRequest,
	core.CodeTooLarge:          http.StatusRequestEntityTooLarge,
	core.CodeInvalidConfig:     http.StatusUnprocessableEntity,
	core.CodeSyntax:            http.StatusUnprocessableEntity,
	core.CodeScript:            http.StatusUnprocessableEntity,
	core.CodeNoSuchTool:        http.StatusUnprocessableEntity,
	core.CodeDAGInvalid:        http.StatusUnprocessableEntity,
	core.CodeReplay:            http.StatusUnprocessableEntity,
	core.CodeSandboxMemory:     http.StatusUnprocessableEntity,
	core.CodeSandboxTimeout:    http.StatusUnprocessableEntity,
	core.CodeSandboxCrashed:    http.StatusUnprocessableEntity,
	core.CodeCallLimit:         http.StatusUnprocessableEntity,
	core.CodeRunLimit:          http.StatusTooManyRequests,
	core.CodeDepthLimit:        http.StatusUnprocessableEntity,
	core.CodeResultTooLarge:    http.StatusUnprocessableEntity,
	core.CodeBudget:            http.StatusUnprocessableEntity,
	core.CodeAuth:              http.StatusUnauthorized,
	core.CodeNotTrusted:        http.StatusForbidden,
	core.CodePermissionDenied:  http.StatusForbidden,
	core.CodeDenied:            http.StatusForbidden,
	core.CodeAwaitingHuman:     http.StatusForbidden,
	core.CodeHalted:            http.StatusServiceUnavailable,
	core.CodeHookFailed:        http.StatusForbidden,
	core.CodeNotFound:          http.StatusNotFound,
	core.CodeAlreadyDecided:    http.StatusConflict,
	core.CodeDigestMismatch:    http.StatusConflict,
	core.CodeNotWaiting:        http.StatusConflict,
	core.CodeDuplicate:         http.StatusConflict,
	core.CodeFenced:            http.StatusConflict,
	core.CodeAborted:           http.StatusConflict,
	core.CodeIntegrityFailed:   http.StatusConflict,
	core.CodeWorkflowExpired:   http.StatusGone,
	core.CodeApprovalExpired:   http.StatusGone,
	core.CodeRateLimited:       http.StatusTooManyRequests,
	core.CodeInstallFailed:     http.StatusBadGateway,
	core.CodeServerUnreachable: http.StatusBadGateway,
	core.CodeToolFailed:        http.StatusBadGateway,
	core.CodeToolTimeout:       http.StatusGatewayTimeout,
	core.CodeTimeout:           http.StatusGatewayTimeout,
	core.CodeCancelled:         http.StatusServiceUnavailable,
	core.CodeStoreBusy:         http.StatusServiceUnavailable,
	core.CodeStoreNewer:        http.StatusServiceUnavailable,
	core.CodeStoreFailed:       http.StatusServiceUnavailable,
	core.CodeStoreKey:          http.StatusServiceUnavailable,
	core.CodeInternal:          http.StatusInternalServerError,

	core.CodeModelNoKey:       http.StatusUnprocessableEntity,
	core.CodeModelKeyRefused:  http.StatusUnprocessableEntity,
	core.CodeModelQuota:       http.StatusBadGateway,
	core.CodeModelUnavailable: http.StatusBadGateway,
	core.CodeModelContext:     http.StatusUnprocessableEntity,
	core.CodeModelInvalid:     http.StatusUnprocessableEntity,
	core.CodeModelRefused:     http.StatusForbidden,
	core.CodeModelStream:      http.StatusBadGateway,
	core.CodeModelOutput:      http.StatusBadGateway,
	core.CodeModelTimeout:     http.StatusGatewayTimeout,
}

// StatusCode returns the HTTP status of an error's code.
func StatusCode(code core.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// problem is an api.Problem as huma wants errors to be.
type problem struct {
	api.Problem
	headers http.Header
}

// Error implements error.
func (p *problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header { return p.headers }

// ContentType implements huma.ContentTypeFilter.
func (*problem) ContentType(_ string) string { return problemType }

const problemType = "application/problem+json"

// problemOf makes the answer for an error, with the status of its code.
func problemOf(e *core.Error) *problem { return problemWith(StatusCode(e.Code), e) }

// problemWith is problemOf for what HTTP has a status of its own for.
func problemWith(status int, e *core.Error) *problem {
	p := &problem{Problem: api.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code, Error: e,
	}}
	switch status {
	case http.StatusUnauthorized:
		p.headers = http.Header{"Www-Authenticate": {`Bearer realm="pml"`}}
	case http.StatusServiceUnavailable:
		p.headers = retryAfter(time.Second)
	}
	return p
}

// limited is a 429 that says when to come again.
func limited(wait time.Duration, format string, args ...any) *problem {
	p := problemOf(core.Errorf(core.CodeRateLimited, format, args...))
	p.headers = retryAfter(wait)
	return p
}

func retryAfter(wait time.Duration) http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))}}
}

// ofStopping are the codes of what fails because the parts of a server end one
// after the other. Asked again, the next server knows the real answer.
var ofStopping = []core.Code{
	core.CodeCancelled, core.CodeStoreFailed, core.CodeStoreBusy, core.CodeFenced, core.CodeSandboxCrashed, core.CodeInternal,
}

// failure makes the answer for what a backend returned. What is not an error of
// pml is logged and not shown: nobody has checked what it says.
func (s *Server) failure(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*core.Error](err); ok {
		if slices.Contains(ofStopping, e.Code) && s.leaving(ctx) {
			return problemOf(core.Errorf(core.CodeCancelled, "the server is about to stop; ask again, and the next one answers").WithRun(e.RunID))
		}
		if e.Code == core.CodeInternal {
			s.log.ErrorContext(ctx, "a request failed", "error", e.Message)
		}
		return problemOf(e)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problemOf(core.Errorf(core.CodeCancelled, "the request was cut off before its answer; what it started goes on"))
	}
	s.log.ErrorContext(ctx, "a request failed", "error", err.Error())
	return problemOf(core.Errorf(core.CodeInternal, "something went wrong inside pml; the log of the server says what"))
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		p.Status = http.StatusInternalServerError
		body = fmt.Appendf(nil, `{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"the error could not be written","code":%q}`, core.CodeInternal)
	}
	maps.Copy(w.Header(), p.headers)
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // who does not listen any more needs no answer
}
