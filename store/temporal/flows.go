package temporal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.temporal.io/api/serviceerror"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// flowPage is a blob of a flow: what it did for the calls of one run, as far as that was kept at
// once. Nonce makes each another one, so that one that is removed is never one that was just kept.
type flowPage struct {
	Nonce core.ID        `json:"nonce"`
	Runs  []core.FlowRun `json:"runs"`
}

// flowKeeper is what a Store has of flows.
type flowKeeper struct {
	*service
	tell func(own bool) // who watches this process

	mu   sync.Mutex
	open map[core.FlowKey]bool // the flows that have their workflow for certain
}

// flowOf is the id of the workflow of a flow and of its blobs.
func flowOf(key core.FlowKey) core.ID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", key.Workspace, key.Flow))
	return core.ID("flow-" + hex.EncodeToString(sum[:20]))
}

func (s *service) flowWorkflowOf(key core.FlowKey) string { return s.name(string(flowOf(key))) }

// enterFlow has the shared workflow know that a flow has a workflow.
func (s *service) enterFlow(ctx context.Context, key core.FlowKey) error {
	flows, err := s.flows(ctx)
	if err != nil || slices.Contains(flows, key) {
		return err
	}
	return s.update(ctx, s.name(sharedID), updateFlow, "", key, nil)
}

// flows are those that have something in Temporal.
func (s *service) flows(ctx context.Context) (keys []core.FlowKey, err error) {
	err = s.query(ctx, s.name(sharedID), queryFlows, "", &keys)
	return keys, err
}

// openFlow makes sure that a flow has its workflow, and that this is found: the latter first, so
// that no process that dies in between leaves behind what nobody finds.
func (s *flowKeeper) openFlow(ctx context.Context, key core.FlowKey) error {
	s.mu.Lock()
	open := s.open[key]
	s.mu.Unlock()
	if open {
		return nil
	}
	if err := s.enterFlow(ctx, key); err != nil {
		return err
	}
	err := s.standing(ctx, string(flowOf(key)), flowType, &flowState{ID: flowOf(key)}, "what the flow "+core.Visible(key.Flow, 120, false)+" did and its variables", nil)
	if err == nil {
		s.mu.Lock()
		s.open[key] = true
		s.mu.Unlock()
	}
	return err
}

// changeFlow changes a flow that is open. Where somebody has ended its workflow, the error says how that
// is reset.
func (s *flowKeeper) changeFlow(ctx context.Context, key core.FlowKey, update string, arg any) error {
	err := s.update(ctx, s.flowWorkflowOf(key), update, "", arg, nil)
	if noWorkflow(err) {
		s.mu.Lock()
		delete(s.open, key)
		s.mu.Unlock()
		if ended := s.openFlow(ctx, key); ended != nil {
			return ended
		}
	}
	return err
}

// SaveFlowRuns implements store.Flows, save that the runs of one flow are kept all or none, and not
// those of several: each flow has a workflow of its own. To save them again is safe.
func (s *flowKeeper) SaveFlowRuns(ctx context.Context, runs ...core.FlowRun) error {
	if len(runs) == 0 {
		return nil
	}
	of := map[core.FlowKey][]core.FlowRun{}
	for _, r := range runs {
		of[r.Key()] = append(of[r.Key()], r)
	}
	keys := slices.Collect(maps.Keys(of))
	err := each(len(keys), func(i int) error {
		rows, err := s.putFlowRuns(ctx, keys[i], of[keys[i]])
		if err != nil {
			return err
		}
		return s.changeFlow(ctx, keys[i], updateFlowRuns, rows)
	})
	s.tell(true) // a runner acts upon none of it
	return err
}

// putFlowRuns puts what a flow did into its blobs, and returns the rows that say where. If pml dies before these
// are kept, the blobs belong to nobody.
func (s *flowKeeper) putFlowRuns(ctx context.Context, key core.FlowKey, runs []core.FlowRun) ([]flowRow, error) {
	if err := s.openFlow(ctx, key); err != nil {
		return nil, err
	}
	slices.Reverse(runs) // of those that are the same one the last one counts, and is the first now
	slices.SortStableFunc(runs, newestFlowRun)
	runs = slices.CompactFunc(runs, func(a, b core.FlowRun) bool { return newestFlowRun(a, b) == 0 })
	runs = runs[:min(len(runs), core.KeptFlowRuns)]
	of := map[core.ID][]core.FlowRun{}
	for _, r := range runs {
		of[r.RunID] = append(of[r.RunID], r)
	}
	callers := slices.Collect(maps.Keys(of))
	pages := make([][]flowRow, len(callers))
	err := each(len(callers), func(i int) (err error) {
		pages[i], err = s.putFlowPage(flowOf(key), of[callers[i]])
		return err
	})
	return slices.Concat(pages...), err
}

func (s *service) putFlowPage(flow core.ID, runs []core.FlowRun) ([]flowRow, error) {
	raw, err := store.Encode(flowPage{Nonce: s.opts.NewID(), Runs: runs})
	if err != nil {
		return nil, err
	}
	blob, err := s.opts.Blobs.Put(string(flow), raw)
	if err != nil {
		return nil, err
	}
	rows := make([]flowRow, len(runs))
	for i, r := range runs {
		rows[i] = flowRow{ID: r.ID, At: r.StartedAt, Run: r.RunID, Owner: r.Owner, Blob: blob}
	}
	return rows, nil
}

// newestFlowRun orders runs of flows as lists have them.
func newestFlowRun(a, b core.FlowRun) int {
	return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID, a.ID))
}

// FlowRuns implements store.Flows, as of all that was kept before. Where blobs were removed since their
// rows were read, these are read again.
func (s *flowKeeper) FlowRuns(ctx context.Context, f store.FlowRunFilter) ([]core.FlowRun, error) {
	for try := 1; ; try++ {
		rows, err := s.flowRows(ctx, f)
		if err != nil {
			return nil, err
		}
		runs, err := s.flowRuns(rows)
		if err == nil || try == flowTries {
			return runs, err
		}
	}
}

// flowTries is how often runs of flows are read that are being removed.
const flowTries = 3

// placedRow is a row with the flow that it is of.
type placedRow struct {
	flowRow
	flow core.ID
}

// flowRows are the rows that a filter selects, newest first.
func (s *service) flowRows(ctx context.Context, f store.FlowRunFilter) ([]placedRow, error) {
	keys := []core.FlowKey{f.Key}
	if f.Key.Flow == "" {
		var err error
		if keys, err = s.flows(ctx); err != nil {
			return nil, err
		}
	}
	lists := make([][]placedRow, len(keys))
	err := each(len(keys), func(i int) error {
		rows, err := s.rowsOf(ctx, keys[i], flowAsk{Run: f.RunID, Owner: f.Owner, Limit: f.Limit})
		for _, row := range rows {
			lists[i] = append(lists[i], placedRow{row, flowOf(keys[i])})
		}
		return err
	})
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b placedRow) int { return byStart(b.flowRow, a.flowRow) })
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return all, err
}

// rowsOf are rows of one flow; none where it has no workflow.
func (s *service) rowsOf(ctx context.Context, key core.FlowKey, ask flowAsk) (rows []flowRow, err error) {
	err = s.query(ctx, s.flowWorkflowOf(key), queryFlowRuns, "", &rows, ask)
	if noWorkflow(err) {
		err = nil
	}
	return rows, err
}

// noWorkflow reports whether a request has failed because its workflow is not there, or has ended.
func noWorkflow(err error) bool {
	_, missing := errors.AsType[*serviceerror.NotFound](err)
	return missing
}

// flowRuns reads what the flows did that rows are about. Each blob is read once.
func (s *service) flowRuns(rows []placedRow) ([]core.FlowRun, error) {
	type place struct {
		flow core.ID
		blob string
	}
	numbers, places := map[place]int{}, []place{}
	for _, row := range rows {
		at := place{row.flow, row.Blob}
		if _, known := numbers[at]; !known {
			numbers[at] = len(places)
			places = append(places, at)
		}
	}
	pages := make([]flowPage, len(places))
	err := each(len(places), func(i int) (err error) {
		pages[i], err = loadJSON[flowPage](s.blobsOf(places[i].flow), value{Blob: places[i].blob})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]core.FlowRun, 0, len(rows))
	for _, row := range rows {
		for _, r := range pages[numbers[place{row.flow, row.Blob}]].Runs {
			if r.ID == row.ID && r.StartedAt.Equal(row.At) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// FlowVariables implements store.Flows.
func (s *flowKeeper) FlowVariables(ctx context.Context, key core.FlowKey) (v core.FlowVariables, err error) {
	err = s.query(ctx, s.flowWorkflowOf(key), queryVariables, "", &v)
	if noWorkflow(err) {
		err = nil
	}
	return v, err
}

// SetFlowVariables implements store.Flows.
func (s *flowKeeper) SetFlowVariables(ctx context.Context, key core.FlowKey, v core.FlowVariables) error {
	for name, value := range v.Values {
		if !json.Valid(value) {
			return core.Errorf(core.CodeInvalidArguments, "the variable %s is no JSON", core.Visible(name, 80, false))
		}
	}
	if err := s.openFlow(ctx, key); err != nil {
		return err
	}
	err := s.changeFlow(ctx, key, updateVariables, flowChange{Flow: key, To: v})
	if err == nil {
		s.tell(true)
	}
	return err
}

// forgetFlowRuns removes what flows did for the calls of a run. A flow whose workflow somebody has ended
// cannot be changed any more.
func (s *service) forgetFlowRuns(ctx context.Context, run core.ID) error {
	keys, err := s.flows(ctx)
	if err != nil {
		return err
	}
	return each(len(keys), func(i int) error {
		rows, err := s.rowsOf(ctx, keys[i], flowAsk{Run: run, Limit: 1})
		if err == nil && len(rows) > 0 {
			err = s.update(ctx, s.flowWorkflowOf(keys[i]), updateForget, "", run, nil)
		}
		if noWorkflow(err) {
			err = nil
		}
		return err
	})
}

// dropBlobs is the activity that removes blobs of a flow.
func (s *service) dropBlobs(_ context.Context, flow core.ID, blobs []string) error {
	return s.opts.Blobs.Drop(string(flow), blobs...)
}
