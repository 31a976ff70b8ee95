package runs

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// resultOf is the result of a complete run as commands print it: of one that pml tools call
// has begun, what the call returned; of any other what its program did.
func resultOf(w core.Workflow) json.RawMessage {
	if w.Kind != core.KindDAG || w.RequestedBy.Via != core.ViaCLI || len(w.Layers) != 1 || len(w.Layers[0].Tasks) != 1 {
		return w.Result
	}
	t := w.Layers[0].Tasks[0]
	value, ok := calledAlone(w.Result)[t.ID]
	if !ok || !strings.HasPrefix(w.Name, core.CallName(t.Tool, nil)) { // it is named after a file
		return w.Result
	}
	return value
}

// calledAlone is a result of one task whose id is that of pml tools call, or nil.
func calledAlone(result json.RawMessage) map[string]json.RawMessage {
	if !strings.HasPrefix(string(result), `{"`+core.CalledTask) {
		return nil
	}
	var out map[string]json.RawMessage
	if json.Unmarshal(result, &out) != nil || len(out) != 1 {
		return nil
	}
	for id := range out {
		if strings.TrimRight(id, "_") != core.CalledTask {
			return nil
		}
	}
	return out
}

// bare gives a run that pml tools call has begun the result that it has when nobody was asked.
func bare(ctx context.Context, b app.Backend, r api.Result) api.Result {
	if calledAlone(r.Result) == nil || r.WorkflowID == "" {
		return r
	}
	if w, err := b.Workflow(ctx, r.WorkflowID); err == nil && w.State == core.RunComplete {
		r.Result = resultOf(w)
	}
	return r
}
