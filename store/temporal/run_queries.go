package temporal

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// found is a run with what was asked for of it.
type found struct {
	Run       core.Run    `json:"run"`
	Result    value       `json:"result,omitzero"`
	Input     value       `json:"input,omitzero"`
	Approvals []*question `json:"approvals,omitempty"`
}

// listed is a part of a journal, or of the events, of a run: the pages that may hold some of
// what was asked for, then what follows on them, as much as fits into an answer.
type listed struct {
	Pages   []page       `json:"pages,omitempty"`
	Records []record     `json:"records,omitempty"`
	Events  []core.Event `json:"events,omitempty"`
	More    bool         `json:"more,omitempty"`
}

// answerBytes is how much of a journal one answer has.
const answerBytes = 1 << 20

// there is the error of a run that was removed, whose workflow ends soon.
func (r *runHolder) there() error {
	if r.Removed {
		return refusal(store.NoRun(r.Run.ID))
	}
	return nil
}

func (r *runHolder) serveReads(ctx workflow.Context) error {
	for name, f := range map[string]any{
		queryRun:       func() (found, error) { return found{Run: r.Run, Result: r.Result, Input: r.Input}, r.there() },
		queryHeader:    func() (core.Run, error) { return r.Run, r.there() },
		queryProgram:   func() (program, error) { return r.Programs[len(r.Programs)-1], r.there() },
		queryApprovals: func() (found, error) { return found{Run: r.Run, Approvals: r.Approvals}, r.there() },
		queryMarks:     func() ([]core.Checkpoint, error) { return r.Marks, r.there() },
		queryBelow:     func() ([]core.ID, error) { return r.Below, r.there() },
		queryJournal:   func(after int64) (listed, error) { return r.journal(after), r.there() },
		queryEvents:    func(after int64) (listed, error) { return r.events(after), r.there() },
	} {
		if err := workflow.SetQueryHandler(ctx, name, f); err != nil {
			return err
		}
	}
	return nil
}

// journal is what follows a record.
func (st *state) journal(after int64) listed {
	var out listed
	for _, p := range st.Sealed {
		if p.Record > after {
			out.Pages = append(out.Pages, p)
		}
	}
	size := 0
	for _, rec := range st.Records {
		if rec.Seq <= after {
			continue
		}
		if size += len(rec.Record.Here) + 200; size > answerBytes && len(out.Records) > 0 {
			out.More = true
			break
		}
		out.Records = append(out.Records, rec)
	}
	return out
}

// events is what follows an event.
func (st *state) events(after int64) listed {
	var out listed
	for _, p := range st.Sealed {
		if p.Event > after {
			out.Pages = append(out.Pages, p)
		}
	}
	size := 0
	first, _ := slices.BinarySearchFunc(st.Events, after+1, func(e core.Event, seq int64) int { return int(e.Seq - seq) })
	for _, e := range st.Events[first:] {
		if size += len(e.Message) + len(e.Data) + 300; size > answerBytes && len(out.Events) > 0 {
			out.More = true
			break
		}
		out.Events = append(out.Events, e)
	}
	return out
}
