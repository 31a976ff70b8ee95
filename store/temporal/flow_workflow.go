package temporal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

const (
	flowType = "pml-flow-1"

	updateFlow      = "flow"
	updateFlowRuns  = "flow-runs"
	updateVariables = "variables"
	updateForget    = "forget"
	queryFlows      = "flows"
	queryFlowRuns   = "flow-runs"
	queryVariables  = "variables"

	activityDrop = "pml-drop"
)

// flowState is what the workflow of a flow keeps: which of its runs there are, and its variables.
// What the runs did lies in blobs, so that no history has it and a removed run takes it along.
type flowState struct {
	ID        core.ID            `json:"id"` // of its blobs
	Variables core.FlowVariables `json:"variables"`
	Runs      []flowRow          `json:"runs,omitempty"` // oldest first
	// Idle are blobs that none of Runs is in any more.
	Idle []string `json:"idle,omitempty"`

	urgent bool // somebody waits until they are gone
}

// flowRow is a run of a flow, without what it did.
type flowRow struct {
	ID    core.ID   `json:"id"`
	At    time.Time `json:"at"`
	Run   core.ID   `json:"run"`
	Owner string    `json:"owner,omitempty"`
	Blob  string    `json:"blob"`
}

func byStart(a, b flowRow) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) }

// flowAsk selects runs of a flow, the newest ones where Limit is not 0.
type flowAsk struct {
	Run   core.ID `json:"run,omitempty"`
	Owner string  `json:"owner,omitempty"`
	Limit int     `json:"limit,omitempty"`
}

// idleBlobs is how many blobs that nobody needs are removed at once.
const idleBlobs = 200

// flowWorkflow keeps what belongs to one flow, in one history after the other.
func flowWorkflow(ctx workflow.Context, d *flowState) error {
	if err := d.serve(ctx); err != nil {
		return err
	}
	full := func() bool {
		return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx)
	}
	due := func() bool { return d.urgent || len(d.Idle) >= idleBlobs }
	for {
		if err := workflow.Await(ctx, func() bool { return due() || full() }); err != nil {
			return err
		}
		if !due() {
			return workflow.NewContinueAsNewError(ctx, flowType, d)
		}
		if err := d.drop(ctx); err != nil {
			return err
		}
	}
}

// drop removes the blobs that nobody needs.
func (d *flowState) drop(ctx workflow.Context) error {
	idle := d.Idle
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(ctx, activityDrop, d.ID, idle).Get(ctx, nil); err != nil {
		return err
	}
	d.Idle = slices.Clone(d.Idle[len(idle):])
	d.urgent = d.urgent && len(d.Idle) > 0
	return nil
}

func (d *flowState) serve(ctx workflow.Context) error {
	if err := workflow.SetUpdateHandler(ctx, updateFlowRuns, func(_ workflow.Context, rows []flowRow) (none, error) {
		d.save(rows)
		return none{}, nil
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, updateForget, func(ctx workflow.Context, run core.ID) (none, error) {
		d.become(slices.DeleteFunc(slices.Clone(d.Runs), func(r flowRow) bool { return r.Run == run }))
		d.urgent = len(d.Idle) > 0
		return none{}, workflow.Await(ctx, func() bool { return !d.urgent })
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, updateVariables, func(_ workflow.Context, c flowChange) (none, error) {
		write, err := d.follows(c)
		if write {
			d.Variables = c.To
		}
		return none{}, refusal(err)
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, c flowChange) error {
		_, err := d.follows(c)
		return refusal(err)
	}}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, queryVariables, func() (core.FlowVariables, error) { return d.Variables, nil }); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, queryFlowRuns, func(ask flowAsk) ([]flowRow, error) { return d.newest(ask), nil })
}

// flowChange sets the variables of a flow.
type flowChange struct {
	Flow core.FlowKey       `json:"flow"`
	To   core.FlowVariables `json:"to"`
}

func (d *flowState) follows(c flowChange) (bool, error) {
	same := maps.EqualFunc(d.Variables.Values, c.To.Values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	return store.Follows(d.Variables.Version, c.To.Version, same, store.FasterFlow(c.Flow))
}

// save keeps rows, in the place of those that are known, and of all rows the newest.
func (d *flowState) save(rows []flowRow) {
	runs := slices.Clone(d.Runs)
	for _, row := range rows {
		i, known := slices.BinarySearchFunc(runs, row, byStart)
		if known {
			runs[i] = row
		} else {
			runs = slices.Insert(runs, i, row)
		}
	}
	d.become(runs[max(0, len(runs)-core.KeptFlowRuns):], rows...)
}

// become makes these rows those that are kept, and notes which blobs of the earlier ones, and of
// those that came, none of them is in.
func (d *flowState) become(runs []flowRow, came ...flowRow) {
	noted := map[string]bool{}
	for _, row := range runs {
		noted[row.Blob] = true
	}
	for _, row := range slices.Concat(d.Runs, came) {
		if !noted[row.Blob] {
			noted[row.Blob] = true
			d.Idle = append(d.Idle, row.Blob)
		}
	}
	d.Runs = runs
}

// newest are the rows that are asked for, newest first.
func (d *flowState) newest(ask flowAsk) []flowRow {
	var rows []flowRow
	for _, row := range slices.Backward(d.Runs) {
		if ask.Limit > 0 && len(rows) == ask.Limit {
			break
		}
		if (ask.Run == "" || row.Run == ask.Run) && (ask.Owner == "" || row.Owner == ask.Owner) {
			rows = append(rows, row)
		}
	}
	return rows
}

// serveFlows keeps which flows have a workflow. One may be said to have it that has none, because a process
// died before it began that.
func (d *sharedState) serveFlows(ctx workflow.Context) error {
	if err := workflow.SetUpdateHandler(ctx, updateFlow, func(_ workflow.Context, key core.FlowKey) (none, error) {
		if !slices.Contains(d.Flows, key) {
			d.Flows = append(d.Flows, key)
		}
		return none{}, nil
	}); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, queryFlows, func() ([]core.FlowKey, error) { return d.Flows, nil })
}
