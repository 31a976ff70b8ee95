package demo

import (
	"context"
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// errUnplayed is the answer to what no screen asks for: the script does not play it.
var errUnplayed = core.Errorf(core.CodeUsage, "the demo does not do that")

// Execute implements api.Runs.
func (*Backend) Execute(context.Context, api.ExecuteRequest) (api.Result, error) {
	return api.Result{}, errUnplayed
}

// ReplanFor implements api.Runs.
func (*Backend) ReplanFor(context.Context, core.ID, string, json.RawMessage, core.Actor, string) (api.Result, error) {
	return api.Result{}, errUnplayed
}

// Resolve implements api.Workflows.
func (*Backend) Resolve(context.Context, string) (id, approval core.ID, err error) {
	return "", "", errUnplayed
}

// Said implements api.Workflows: no agent of the demonstration writes.
func (*Backend) Said(context.Context, core.ID, func(core.Event) error) error { return nil }

// RemoveWorkflows implements api.Workflows.
func (*Backend) RemoveWorkflows(context.Context, ...core.ID) error { return errUnplayed }

// ExportRun implements api.Workflows.
func (*Backend) ExportRun(context.Context, core.ID) (api.RunFile, error) {
	return api.RunFile{}, errUnplayed
}

// Approval implements api.Approvals.
func (*Backend) Approval(context.Context, core.ID) (core.Approval, error) {
	return core.Approval{}, errUnplayed
}

// VerifyAudit implements api.Audit.
func (*Backend) VerifyAudit(context.Context) (api.AuditReport, error) {
	return api.AuditReport{}, errUnplayed
}
