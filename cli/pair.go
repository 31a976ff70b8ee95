package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"rsc.io/qr"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func pairCmd(a *app.App) *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "pair NAME",
		Short: "Make a device of a phone's browser, for the pages of pml serve",
		Long: `Prints an address, and on a terminal a QR code of it, that makes a device of the
browser in which it is opened: it sees all runs of the server of this machine, and
decides in your name, short of the PIN. The address is good once, for 10 minutes.

The server has to run with --listen, at an address that the phone can reach, over TLS.
--url says how the phone addresses it, where that is another name than the server has.`,
		Example: "  pml pair phone --url https://home.example.org:7465\n  pml pair ls\n  pml pair rm phone",
		Args:    app.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := devices(a)
			if err != nil {
				return err
			}
			return pair(cmd.Context(), a, d, args[0], url)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "how the phone addresses the server: https://NAME[:PORT]")
	_ = cmd.RegisterFlagCompletionFunc("url", cobra.NoFileCompletions)
	cmd.AddCommand(pairLsCmd(a), pairRmCmd(a))
	return cmd
}

func devices(a *app.App) (app.Devices, error) {
	if a.Devices == nil {
		return nil, app.Usagef("this build of pml has no server")
	}
	return a.Devices(app.OpenOptions{Home: a.Flags.Home})
}

func pair(ctx context.Context, a *app.App, d app.Devices, name, url string) error {
	p, err := d.Pair(ctx, name, url)
	if err != nil {
		return err
	}
	if err := noted(ctx, a, "began the pairing of the device "+name); err != nil {
		return errors.Join(err, d.RemoveDevice(context.WithoutCancel(ctx), name)) // what cannot be in the log is none
	}
	return a.Print(p, func(w *strings.Builder) {
		if a.StdoutTTY {
			w.WriteString(qrCode(p.URL, a.Colour()))
		}
		w.WriteString(core.Visible(p.URL, 0, false) + "\n")
		w.WriteString("open it on the device within " + layout.Left(a.Now(), &p.Until) + "; it is good once\n")
		if p.Here {
			w.WriteString("only this machine can open it: serve on an address that the device reaches, over TLS, and name it with --url\n")
		}
	})
}

// noted puts into the audit log of this machine what was done with its devices.
func noted(ctx context.Context, a *app.App, what string) error {
	b, err := a.Backend(ctx)
	if visits, ok := b.(api.Visits); ok && err == nil {
		err = visits.Visited(ctx, core.Actor{}, "", what)
	}
	return err
}

// qrCode draws a text as a code that a phone's camera reads, two rows of it in a line.
// It is drawn light on dark: with colours, whatever those of the terminal are.
func qrCode(text string, colour bool) string {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "" // too long to be a code; the address is there
	}
	const margin = 2
	light := func(x, y int) bool {
		inside := x >= 0 && y >= 0 && x < code.Size && y < code.Size
		return !inside || !code.Black(x, y)
	}
	var b strings.Builder
	for y := -margin; y < code.Size+margin; y += 2 {
		if colour {
			b.WriteString("\x1b[97;40m")
		}
		for x := -margin; x < code.Size+margin; x++ {
			switch up, down := light(x, y), light(x, y+1); {
			case up && down:
				b.WriteString("█")
			case up:
				b.WriteString("▀")
			case down:
				b.WriteString("▄")
			default:
				b.WriteString(" ")
			}
		}
		if colour {
			b.WriteString("\x1b[0m")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func pairLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the devices",
		Long:    "Lists the browsers that were paired, when, and until when they are good.",
		Example: "  pml pair ls --json",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := devices(a)
			if err != nil {
				return err
			}
			list, err := d.Devices(cmd.Context())
			if err != nil {
				return err
			}
			return app.PrintList(a, api.Page[app.Device]{Items: list}, "no device is paired", []app.Column[app.Device]{
				{Title: "NAME", Get: func(d app.Device) string { return d.Name }},
				{Title: "PAIRED", Get: func(d app.Device) string { return layout.Stamp(d.PairedAt) }},
				{Title: "UNTIL", Get: func(d app.Device) string { return layout.Stamp(d.Until) }},
			})
		},
	}
}

func pairRmCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Forget a device",
		Long:    "Forgets a device: its browser is refused from the next request on, and a pairing of that name that has not ended is taken back.",
		Example: "  pml pair rm phone",
		Args:    app.ExactArgs("NAME"),
		ValidArgsFunction: app.CompleteFirst(func(ctx context.Context) ([]string, error) {
			d, err := devices(a)
			if err != nil {
				return nil, err
			}
			list, err := d.Devices(ctx)
			var out []string
			for _, one := range list {
				out = append(out, one.Name)
			}
			return out, err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := devices(a)
			if err != nil {
				return err
			}
			if err := d.RemoveDevice(cmd.Context(), args[0]); err != nil {
				return err
			}
			if err := noted(cmd.Context(), a, "removed the device "+args[0]); err != nil {
				return core.Errorf(core.CodeOf(err), "%s is removed, but that is not in the audit log: %w", args[0], err)
			}
			return a.Print(map[string]string{"removed": args[0]}, app.Line("removed %s", args[0]))
		},
	}
}
