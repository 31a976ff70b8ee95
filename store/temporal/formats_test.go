package temporal

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/casys-ai/pml/core"
)

// RegisterWorkflows says which function is which workflow.
func RegisterWorkflows(to worker.WorkflowRegistry) { registerWorkflows(to) }

// ReplayOptions are those of a replay with some keys.
func ReplayOptions(t *testing.T, keys Keys) worker.WorkflowReplayerOptions {
	t.Helper()
	conv := convertersOf(t, keys)
	return worker.WorkflowReplayerOptions{DataConverter: conv.data, FailureConverter: conv.failures}
}

func convertersOf(t *testing.T, keys Keys) converters {
	t.Helper()
	s, err := newService(Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return s.conv
}

// kept are the types of what workflows are started with, are told and asked, by the kind of workflow and the name.
var kept = map[string]func() []any{
	runType: of[begin], haltType: of[haltState], sharedType: of[sharedState], flowType: of[flowState], runnerType: func() []any { return []any{new(string), new(time.Duration)} },
	runType + " commit": of[step], runType + " claim": of[claim], runType + " decide": of[decision], runType + " extend": of[extension], runType + " renew": of[renewal],
	runType + " replan": of[replan], runType + " abort": of[abortion], runType + " below": of[core.ID], runType + " remove": of[removal],
	haltType + " halt": of[core.Halt], haltType + " let-go": of[resumption], haltType + " join": of[string], haltType + " left": of[string],
	sharedType + " guard": of[guarded], sharedType + " record": of[[]core.AuditRow], sharedType + " notices": of[notices], sharedType + " flow": of[core.FlowKey], sharedType + " audit": of[[]core.AuditRow],
	flowType + " flow-runs": of[[]flowRow], flowType + " variables": of[flowChange], flowType + " forget": of[core.ID],
}

func of[T any]() []any { return []any{new(T)} }

// Lost are the fields of a history that today's types do not keep: a workflow that goes on in a new history would leave them
// behind. Fields that are new are none of them.
func Lost(t *testing.T, h *historypb.History, keys Keys) (lost []string) {
	t.Helper()
	first := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	kind, data := first.GetWorkflowType().GetName(), convertersOf(t, keys).of("", first.GetWorkflowId())
	look := func(name string, in *commonpb.Payloads) {
		into, known := kept[name]
		if !known {
			t.Errorf("no type is known of %s", name)
			return
		}
		for i, v := range into() {
			lost = append(lost, lostOf(t, data, name, in.GetPayloads()[i], v)...)
		}
	}
	look(kind, first.GetInput())
	for _, e := range h.GetEvents() {
		if in := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput(); in != nil {
			look(kind+" "+in.GetName(), in.GetArgs())
		}
		if in := e.GetWorkflowExecutionSignaledEventAttributes(); in != nil {
			look(kind+" "+in.GetSignalName(), in.GetInput())
		}
		if next := e.GetWorkflowExecutionContinuedAsNewEventAttributes(); next != nil {
			look(kind, next.GetInput())
		}
	}
	return lost
}

func lostOf(t *testing.T, data converter.DataConverter, name string, p *commonpb.Payload, v any) []string {
	t.Helper()
	var was, is any
	if err := data.FromPayload(p, &was); err != nil {
		t.Fatal(name, err)
	}
	if err := data.FromPayload(p, v); err != nil {
		t.Fatal(name, err)
	}
	again, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(again, &is)
	}
	if err != nil {
		t.Fatal(name, err)
	}
	return missing(name, was, is)
}

// missing are the places of one JSON value that another one does not have, or has otherwise.
func missing(at string, was, is any) (all []string) {
	switch was := was.(type) {
	case nil:
	case map[string]any:
		is, _ := is.(map[string]any)
		for name, v := range was {
			all = append(all, missing(at+"."+name, v, is[name])...)
		}
	case []any:
		is, _ := is.([]any)
		if len(was) != len(is) {
			return []string{at}
		}
		for i, v := range was {
			all = append(all, missing(fmt.Sprint(at, "[", i, "]"), v, is[i])...)
		}
	default:
		if was != is && was != "" && was != false && was != 0.0 {
			all = []string{at}
		}
	}
	return all
}
