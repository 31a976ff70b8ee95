package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// pinNote says what a PIN is good for, and what not.
const pinNote = `A PIN is asked for whenever something is approved, trusted or updated on this
machine. It holds against other programs of your own user that would decide in
your place: one that types into a terminal, that sends requests to pml, or that
answers the agent's dialogs. It does not hold against a program that reads what
you type, or that changes pml or the files in its home; and it encrypts nothing.
Only a hash of it is kept. Who forgets it removes approvals.pin from config.json.
`

func (a *app) configPinCmd() *cobra.Command {
	var remove bool
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "pin",
		Short:   "Set the PIN that approvals ask for",
		Long:    "Sets, changes or removes the PIN of approvals, at a terminal and without echo.\n\n" + pinNote,
		Example: "  pml config pin\n  pml config pin --remove",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !a.human() {
				return usagef("a PIN is typed by a person; this does not go with -o %s: output for programs never asks", a.format())
			}
			return a.configPin(cmd.Context(), remove, f)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "ask for no PIN any more")
	addChangeFlags(cmd, &f, false)
	return cmd
}

func (a *app) configPin(ctx context.Context, remove bool, f changeFlags) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	set, err := a.newPin(ctx, b, remove)
	if err != nil {
		return err
	}
	ask := "set this PIN?"
	if remove {
		ask = "remove the PIN?"
	}
	p := &proposal{ChangeSet: set, ask: ask, again: []string{"pml", "config", "pin"}}
	err = a.propose(ctx, b, p, f)
	return a.concluded(p, err)
}

// newPin asks for the old PIN, where there is one, and for the new one twice.
func (a *app) newPin(ctx context.Context, b Changes, remove bool) (api.ChangeSet, error) {
	var none api.ChangeSet
	set, err := b.NeedsPin(ctx)
	if err != nil {
		return none, err
	}
	if remove && !set {
		return none, usagef("there is no PIN to remove")
	}
	if a.asks() && !remove {
		io.WriteString(a.Stderr, pinNote)
	}
	old, pin := "", ""
	if set {
		if old, err = a.readSecret(ctx, "the PIN of now: "); err != nil {
			return none, err
		}
	}
	if !remove {
		if pin, err = a.readSecret(ctx, "the new PIN: "); err != nil {
			return none, err
		}
		again, err := a.readSecret(ctx, "the new PIN once more: ")
		if err != nil {
			return none, err
		}
		if again != pin {
			return none, core.Errorf(core.CodeUsage, "the two are not the same: no PIN was set").WithNext("pml", "config", "pin")
		}
	}
	return b.PinChange(ctx, old, pin)
}
