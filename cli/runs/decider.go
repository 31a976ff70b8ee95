package runs

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// meetPerson shows on the terminal what a decision of the command line is about,
// where people decide, and has it answered there: high risk with its four
// characters, anything else with yes. Without a terminal, or where a PIN shows the
// person, it does nothing; the backend refuses what lacks either.
func meetPerson(ctx context.Context, a *app.App, b app.Backend, run core.ID, d *api.Decision) error {
	if !a.CanAsk() || a.PinFD >= 0 {
		return nil
	}
	about, err := openOf(ctx, a, b, run, d)
	if err != nil || !slices.ContainsFunc(about, func(p core.Approval) bool { return p.Human }) {
		return err
	}
	if len(about) == 1 {
		d.Checkpoint = about[0].ID
		if d.ExpectDigest == "" {
			d.ExpectDigest = about[0].Digest
		}
	}
	for i, p := range about {
		io.WriteString(a.Stderr, view.Approval(p, i+1, len(about), a.Now()))
		if !d.Approve {
			continue
		}
		ok := false
		if p.Risk == core.RiskHigh {
			ok, err = a.TypeDigits(ctx, p.Digest, p.ID)
		} else {
			ok, err = a.TypeOut(ctx, "people decide here: approve this? type yes: ", "yes")
		}
		if err != nil {
			return core.AsError(err).WithRun(run)
		}
		if !ok {
			return core.Errorf(core.CodeDenied, "nothing was decided").WithRun(run)
		}
	}
	d.Presence = core.PresenceTerminal
	return nil
}

// openOf are the open approvals that a decision is about.
func openOf(ctx context.Context, a *app.App, b api.Approvals, run core.ID, d *api.Decision) ([]core.Approval, error) {
	list, err := b.Approvals(ctx, false)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(p core.Approval) bool {
		return p.RunID != run || p.StateAt(a.Now()) != core.ApprovalOpen || d.Checkpoint != "" && p.ID != d.Checkpoint ||
			d.AllOfType != "" && p.Type != d.AllOfType
	})
	slices.SortStableFunc(list, soonest)
	if d.AllOfType == "" && len(list) > 1 {
		list = list[:1]
	}
	return list, nil
}

// approvalFlag lets --checkpoint, its older name, stand for --approval.
func approvalFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "checkpoint" {
		name = "approval"
	}
	return pflag.NormalizedName(name)
}
