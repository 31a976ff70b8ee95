package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// withFlow is a backend with one hook flow.
type withFlow struct{ *fake }

func (withFlow) Flows(context.Context) ([]api.Flow, error) {
	return []api.Flow{{ID: "docs", State: "on", Nodes: []api.FlowNode{{ID: "h"}}}}, nil
}

func (withFlow) Flow(_ context.Context, name string) (api.Flow, error) {
	if name != "docs" {
		return api.Flow{}, core.Errorf(core.CodeNotFound, "there is no flow %s", name)
	}
	return api.Flow{ID: "docs", State: "on", Nodes: []api.FlowNode{{ID: "h"}}, Text: "the text", Files: map[string]string{"m": "the text"}}, nil
}

func (withFlow) FlowHistory(_ context.Context, _ string, limit int) (api.FlowHistory, error) {
	return api.FlowHistory{Runs: make([]core.FlowRun, limit), Nodes: []api.FlowNodeStats{{Node: "h", Count: 7}}}, nil
}

// An agent sees which flows its calls meet, and what one of them did, without the text of
// its files.
func TestFlowStatus(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, withFlow{&fake{t: t}}, nil))
	for args, want := range map[string]string{
		`{}`:                        `{"items":[{"id":"docs",`,
		`{"flow":"docs"}`:           `"stats":[{"node":"h",`,
		`{"flow":"docs","limit":2}`: `"nodes":[{"id":"h",`,
		`{"flow":"other"}`:          `"error_code":"workflow_not_found"`,
		`{"limit":0}`:               "",
	} {
		w.send(callLine("1", "flow_status", args, ""))
		m := w.next()
		if want == "" {
			if m.Error == nil {
				t.Errorf("%s: %s", args, m.Result)
			}
			continue
		}
		tr, _ := m.result(t)
		var got struct {
			Runs  []core.FlowRun `json:"runs"`
			Items []api.Flow     `json:"items"`
		}
		if err := json.Unmarshal(tr.Structured, &got); err != nil {
			t.Fatal(err)
		}
		runs := map[string]int{`{"flow":"docs"}`: 5, `{"flow":"docs","limit":2}`: 2}[args]
		if text := string(tr.Structured); !strings.Contains(text, want) || strings.Contains(text, "the text") || len(got.Runs) != runs || len(got.Items) > 0 && len(got.Items[0].Nodes) > 0 {
			t.Errorf("%s: %s", args, text)
		}
	}
}
