package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// maxCode is how long a script may be.
const maxCode = 100 << 10

// unmarshal reads a body. It is called twice, for any value, to be checked,
// and for the type of the body.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return respell(data, v)
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("this is not JSON at byte %d: %w", syntax.Offset, err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s cannot be a %s", kind.Field, kind.Value)
	}
	return fmt.Errorf("this is not JSON: %w", err)
}

// spelling is the other spelling of what a task waits for.
type spelling struct {
	DependsOn []string `json:"dependsOn"`
}

// respell puts dependsOn of tasks where depends_on is.
func respell(data []byte, v any) error {
	if !bytes.Contains(data, []byte(`"dependsOn"`)) {
		return nil
	}
	type workflow struct {
		Tasks []spelling `json:"tasks"`
	}
	var other struct {
		Workflow   workflow `json:"workflow"`
		Acceptance struct {
			Workflow workflow `json:"workflow"`
		} `json:"accept_suggestion"`
		NewTasks []spelling `json:"new_tasks"`
	}
	if err := json.Unmarshal(data, &other); err != nil {
		return errors.New("dependsOn must be a list of the ids of tasks")
	}
	switch body := v.(type) {
	case *api.ExecuteBody:
		if body.Workflow != nil {
			waits(body.Workflow.Tasks, other.Workflow.Tasks)
		}
		if body.AcceptSuggestion != nil && body.AcceptSuggestion.Workflow != nil {
			waits(body.AcceptSuggestion.Workflow.Tasks, other.Acceptance.Workflow.Tasks)
		}
	case *api.ReplanBody:
		waits(body.NewTasks, other.NewTasks)
	}
	return nil
}

func waits(tasks []core.TaskSpec, other []spelling) {
	for i := range min(len(tasks), len(other)) {
		tasks[i].DependsOn = append(tasks[i].DependsOn, other[i].DependsOn...)
	}
}

// maxMS is the longest time that a body may ask for, a year in ms. Anything
// much longer would not fit into a time.Duration.
const maxMS = 365 * 24 * 60 * 60 * 1000

// waitOf is a time of a body in ms; negative means until it ends or pauses, and
// so does one that nobody lives to see.
func waitOf(ms int64) time.Duration {
	if ms < 0 || ms > maxMS {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// executeFaults are what a schema cannot say of the body of an execute.
func executeFaults(b api.ExecuteBody, key string) []error {
	var faults []error
	if b.Workflow != nil && b.Code != "" {
		faults = append(faults, fault("/code", "there is a workflow too; give one of them"))
	}
	if b.Agent != nil && (b.Workflow != nil || b.Code != "") {
		faults = append(faults, fault("/agent", "there is a program too; give one of them"))
	}
	if b.Options != nil && b.Options.IdempotencyKey != "" && key != "" && b.Options.IdempotencyKey != key {
		faults = append(faults, fault("/options/idempotency_key", "the header Idempotency-Key says something else"))
	}
	if b.Options != nil && b.Options.Timeout > maxMS {
		faults = append(faults, fault("/options/timeout", "it must be at most %d, a year", maxMS))
	}
	if a := b.AcceptSuggestion; a != nil && (a.CallName == "") == (a.Workflow == nil) {
		faults = append(faults, fault("/accept_suggestion", "give either callName or workflow"))
	}
	if c := b.ContinueWorkflow; c != nil && c.WorkflowID == "" {
		faults = append(faults, fault("/continue_workflow/workflow_id", "it is empty"))
	}
	return faults
}

// executeRequest is what a body asks for. What takes precedence makes the rest
// labels.
func executeRequest(b api.ExecuteBody, key string, by core.Actor) (api.ExecuteRequest, error) {
	o := api.ExecuteOptions{}
	if b.Options != nil {
		o = *b.Options
	}
	if key == "" {
		key = o.IdempotencyKey
	}
	req := api.ExecuteRequest{
		Intent: b.Intent, Name: b.Name, File: b.File, IdempotencyKey: key, By: by, Wait: waitOf(o.Wait), HoldApprovals: o.HoldApprovals, Detach: o.Detach,
		RunOptions: core.RunOptions{TimeoutMS: o.Timeout, PerLayer: o.PerLayer, HIL: o.HIL, Input: b.Input},
	}
	switch {
	case b.AcceptSuggestion != nil:
		req.Accept = b.AcceptSuggestion
	case b.Agent != nil:
		req.Agent = b.Agent.Spec()
	case b.Workflow != nil:
		if len(b.Workflow.Tasks) == 0 {
			return req, core.Errorf(core.CodeDAGInvalid, "the workflow has no tasks; nothing has run")
		}
		req.Tasks = b.Workflow.Tasks
	case len(b.Code) > maxCode:
		return req, core.Errorf(core.CodeTooLarge, "the code is %d bytes long, at most %d are taken; nothing has run", len(b.Code), maxCode)
	case b.Code == "" && b.Intent == "":
		return req, invalid([]core.Fault{{Message: "give one of intent, code, workflow, agent, accept_suggestion, continue_workflow"}})
	default:
		req.Code = b.Code
	}
	return req, nil
}

// decision is what a body decides about an approval, empty for the first.
func decision(ctx context.Context, d api.DecisionBody, approval core.ID) *api.Decision {
	shown := core.Presence("")
	if d.Presence == core.PresenceTerminal && atTerminal(ctx) {
		shown = core.PresenceTerminal
	}
	return &api.Decision{
		Presence: shown,
		Approve:  *d.Approved, Checkpoint: approval, AllOfType: d.AllOfType, ExpectDigest: d.ExpectDigest, Abort: d.Abort,
		Reason: d.Feedback, Answer: d.Answer, More: d.More, Pin: d.Pin,
	}
}
