package temporal

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// haltID is the workflow of who has halted calls.
const haltID = "pml-halt"

const (
	updateHalt   = "halt"
	updateLetGo  = "let-go"
	updateJoin   = "join"
	queryHalted  = "halted"
	queryRunners = "runners"
)

// haltState is what belongs to no run: whether calls are halted, and which runners live. These
// hear when a halt is over, and when one of them has died.
type haltState struct {
	Halt    *core.Halt `json:"halt,omitempty"`
	Runners []string   `json:"runners,omitempty"`

	telling int // runners that are being told
}

// resumption is a core.Resumption with what its own JSON leaves out, the guard, and when the halt was that it ends: who has no key could
// send it once more otherwise, for the next halt.
type resumption struct {
	Of         time.Time       `json:"of,omitzero"`
	Resumption core.Resumption `json:"resumption"`
	Presence   core.Presence   `json:"presence,omitempty"`
	Proved     string          `json:"proved,omitempty"`
	Guard      core.Guard      `json:"guard"`
}

func (r resumption) whole() core.Resumption {
	r.Resumption.Presence, r.Resumption.Proved = r.Presence, r.Proved
	return r.Resumption
}

// halted is who has halted calls, nil for nobody: an answer that can say nothing.
type halted struct {
	Halt *core.Halt `json:"halt,omitempty"`
}

func haltWorkflow(ctx workflow.Context, d *haltState) error {
	if d == nil {
		d = &haltState{}
	}
	if err := d.serve(ctx); err != nil {
		return err
	}
	err := workflow.Await(ctx, func() bool {
		return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && d.telling == 0
	})
	if err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, haltType, d)
}

func (d *haltState) serve(ctx workflow.Context) error {
	// In order: updates that came before the first task are served as their handlers are set.
	if err := workflow.SetUpdateHandler(ctx, updateHalt, func(ctx workflow.Context, h core.Halt) (halted, error) {
		if d.Halt == nil {
			d.Halt = &h
			d.audit(ctx, approval.HaltedRow(h))
			return halted{&h}, nil
		}
		return halted{d.Halt}, nil
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, updateJoin, func(_ workflow.Context, runner string) error {
		if !slices.Contains(d.Runners, runner) {
			d.Runners = append(d.Runners, runner)
		}
		return nil
	}); err != nil {
		return err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		for left := workflow.GetSignalChannel(ctx, signalLeft); ; {
			var runner string
			left.Receive(ctx, &runner)
			d.left(ctx, runner)
		}
	})
	if err := workflow.SetQueryHandler(ctx, queryRunners, func() ([]string, error) { return d.Runners, nil }); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, queryHalted, func() (halted, error) { return halted{d.Halt}, nil }); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, updateLetGo, d.letGo, workflow.UpdateHandlerOptions{
		Validator: func(_ workflow.Context, r resumption) error {
			return refusal(approval.MayResume(r.Guard, r.whole()))
		},
	})
}

// left strikes off a runner that has ended, and tells the others: its runs are orphans.
func (d *haltState) left(ctx workflow.Context, runner string) {
	i := slices.Index(d.Runners, runner)
	if i < 0 {
		return
	}
	d.Runners = slices.Delete(d.Runners, i, i+1)
	for _, other := range d.Runners {
		tellOf(ctx, &d.telling, other, activityGone, runner)
	}
}

// letGo ends a halt and wakes all runners: each looks at its runs.
func (d *haltState) letGo(ctx workflow.Context, r resumption) (halted, error) {
	was := d.Halt
	if was == nil || !was.At.Equal(r.Of) {
		return halted{}, nil
	}
	d.Halt = nil
	for _, runner := range d.Runners {
		tell(ctx, &d.telling, runner, "")
	}
	d.audit(ctx, approval.ResumedRow(*was, r.whole()))
	return halted{was}, nil
}

// audit brings a row to the shared workflow. What has happened stays so, should somebody have ended that.
func (d *haltState) audit(ctx workflow.Context, row core.AuditRow) {
	shared := workflow.GetInfo(ctx).TaskQueueName + "/" + sharedID
	_ = workflow.SignalExternalWorkflow(ctx, shared, "", signalAudit, []core.AuditRow{row}).Get(ctx, nil)
}
