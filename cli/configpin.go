package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// pinNote says what a PIN is good for, and what not.
const pinNote = `A PIN is asked for whenever something is approved, trusted or updated on this
machine. It holds against other programs of your own user that would decide in
your place: one that types into a terminal, that sends requests to pml, or that
answers the agent's dialogs. It does not hold against a program that reads what
you type, or that changes pml or its database; and it encrypts nothing. A hash of
it is kept in the database, and what decides asks there, whatever config.json of
this or another home says. To change or remove it you need it: who forgets it
loses what waits (docs/approvals.md of pml's repository says how to go on).
`

func configPinCmd(a *app.App) *cobra.Command {
	var remove bool
	var f changes.Flags
	cmd := &cobra.Command{
		Use:     "pin",
		Short:   "Set the PIN that approvals ask for",
		Long:    "Sets, changes or removes the PIN of approvals, at a terminal and without echo. A\nPIN has at least 6 characters.\n\n" + pinNote,
		Example: "  pml config pin\n  pml config pin --remove",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !a.Human() {
				return app.Usagef("a PIN is typed by a person; this does not go with -o %s: output for programs never asks", a.Format())
			}
			return configPin(cmd.Context(), a, remove, f)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "ask for no PIN any more")
	changes.AddFlags(cmd, &f, false)
	return cmd
}

func configPin(ctx context.Context, a *app.App, remove bool, f changes.Flags) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	set, old, err := newPin(ctx, a, b, remove)
	if err != nil {
		return err
	}
	ask := "set this PIN?"
	if remove {
		ask = "remove the PIN?"
	}
	p := &changes.Proposal{ChangeSet: set, Ask: ask, Again: []string{"pml", "config", "pin"}}
	if err = changes.Propose(ctx, a, b, p, f); err == nil {
		err = b.AdoptPin(ctx, old, true)
	}
	return changes.Conclude(a, p, err)
}

// newPin asks for the old PIN, where there is one, and for the new one twice. What
// it returns changes the configuration; the store adopts that with the old PIN.
func newPin(ctx context.Context, a *app.App, b app.Backend, remove bool) (change api.ChangeSet, old string, err error) {
	var none api.ChangeSet
	set, err := b.NeedsPin(ctx)
	if err != nil {
		return none, "", err
	}
	if remove && !set {
		return none, "", app.Usagef("there is no PIN to remove")
	}
	if a.CanAsk() && !remove {
		io.WriteString(a.Stderr, pinNote)
	}
	pin := ""
	if set {
		if old, err = a.AskSecret(ctx, "the PIN of now: "); err != nil {
			return none, "", err
		}
	}
	if !remove {
		if pin, err = a.AskSecret(ctx, fmt.Sprintf("the new PIN (at least %d characters): ", api.MinPinLetters)); err != nil {
			return none, "", err
		}
		if err := api.CheckPin(pin); err != nil {
			return none, "", core.AsError(err).WithNext("pml", "config", "pin")
		}
		again, err := a.AskSecret(ctx, "the new PIN once more: ")
		if err != nil {
			return none, "", err
		}
		if again != pin {
			return none, "", core.Errorf(core.CodeUsage, "the two are not the same: no PIN was set").WithNext("pml", "config", "pin")
		}
	}
	change, err = b.PinChange(ctx, old, pin)
	return change, old, err
}
