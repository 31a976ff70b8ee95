package runs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// HaltCmd is pml halt.
func HaltCmd(a *app.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "halt",
		Short: "Halt all calls at once: an emergency stop",
		Long: `Halts all calls: once the command has returned, no run begins another one, not
on this machine, and not on the server (--server URL, or the one of this machine)
or on any other server that shares its database. Calls that are under way may
end. A run that would make a call waits, with all that it has; no approval and no
waiting run expires meanwhile. A halt outlives every process: only a person ends
it, with pml resume. Who has halted calls, and why, is in the audit log.

Anybody may halt, an agent, too: it does no harm. An agent never resumes.`,
		Example: "  pml halt\n  pml halt --reason \"it deletes the wrong files\"",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			list, err := b.HaltCalls(ctx, a.Actor(), reason)
			if len(list) > 0 || err == nil {
				if perr := a.Print(halts(list), func(w *strings.Builder) { writeHalts(w, list, "") }); perr != nil && err == nil {
					err = perr
				}
			}
			if err == nil {
				a.SayNext("pml", "resume")
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; shown to everybody who waits, and kept in the audit log")
	return cmd
}

// ResumeCmd is pml resume.
func ResumeCmd(a *app.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Let calls go on after pml halt; a person's to do",
		Long: `Lets calls go on that pml halt has stopped. It asks, on a terminal; where a PIN is
set it needs the PIN, which --pin-fd hands over without a terminal. An agent
cannot do it. The time of approvals and of waiting runs goes on where it stood.

Runs whose process still lives, and those of a server, go on by themselves; the
others are listed, and pml continue ID goes on with them.`,
		Example: "  pml resume\n  pml resume --pin-fd 3 3<pin.txt",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			return resume(ctx, a, b, reason)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the audit log")
	a.AddPinFD(cmd)
	return cmd
}

// halts is a list for programs, never null.
func halts(list []core.Halt) []core.Halt { return append([]core.Halt{}, list...) }

// writeHalts writes a line for each half.
func writeHalts(w *strings.Builder, list []core.Halt, before string) {
	for _, h := range list {
		fmt.Fprintf(w, "%s%s: %s\n", before, whose(h.Side), h.Text())
	}
}

func whose(s core.Side) string {
	if s == core.SideServer {
		return "the server"
	}
	return "this machine"
}

func resume(ctx context.Context, a *app.App, b app.Backend, reason string) error {
	list, err := b.Halts(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return a.Print(halts(nil), app.Line("nothing is halted"))
	}
	req := api.ResumeRequest{By: a.Actor(), Reason: reason}
	if a.CanAsk() && a.PinFD < 0 {
		var w strings.Builder
		writeHalts(&w, list, "")
		io.WriteString(a.Stderr, w.String())
		ok, err := a.AskYes(ctx, "let calls go on?")
		if err != nil {
			return err
		}
		if !ok {
			return core.Errorf(core.CodeDenied, "calls stay halted").WithNext("pml", "resume")
		}
		req.Presence = core.PresenceTerminal
	}
	if req.Presence != "" || a.PinFD >= 0 {
		if req.Pin, err = a.PinFor(ctx, b, false); err != nil {
			return err
		}
	}
	ended, err := b.ResumeCalls(ctx, req)
	if len(ended) > 0 {
		if perr := a.Print(halts(ended), func(w *strings.Builder) {
			for _, h := range ended {
				fmt.Fprintf(w, "calls of %s go on\n", whose(h.Side))
			}
		}); perr != nil && err == nil {
			err = perr
		}
	}
	if err == nil && a.Human() {
		err = nameInterrupted(ctx, a, b)
	}
	return err
}

// nameInterrupted names the runs that no process goes on with.
func nameInterrupted(ctx context.Context, a *app.App, b app.Backend) error {
	page, err := b.Workflows(ctx, []core.RunState{core.RunInterrupted}, statusRows, "")
	if err != nil || len(page.Items) == 0 {
		return err
	}
	is := " is"
	if len(page.Items) > 1 {
		is = " are"
	}
	a.Note("%s interrupted: where its command still runs it goes on by itself, else with pml continue ID", layout.Plural(len(page.Items), "run")+is)
	for _, r := range page.Items {
		a.Note("  %s  %s", r.ID.Short(), core.OneLine(r.Title(), 60))
	}
	return nil
}

// halted is the word for a run that waits for nothing but the end of a halt.
const halted = "halted"

// stateOf is the state of a run for people: one that a halt has stopped waits for nobody else.
func stateOf(r core.Run) string {
	if r.Halted != nil && r.State == core.RunWaiting {
		return halted
	}
	return string(r.State)
}

// haltLook is how often a command that holds its run looks whether calls are halted.
const haltLook = time.Second

// holding begins to wait for decisions that are made elsewhere: the command says how to make them,
// and says once that calls are halted, of which no event tells. The function that it returns
// ends the look, and waits until nobody uses the backend any more.
func holding(ctx context.Context, a *app.App, b app.Backend, f WaitFlags) (stop func()) {
	if !f.hold() {
		return func() {}
	}
	a.Progress.Wait()
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		again := time.NewTicker(haltLook)
		defer again.Stop()
		for !saidHalted(ctx, a, b) {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// saidHalted says that calls of the run are halted, and reports whether it has. What cannot be
// read now is looked at again.
func saidHalted(ctx context.Context, a *app.App, b app.Backend) bool {
	list, err := b.Halts(ctx)
	id := a.Progress.Run()
	if err != nil || len(list) == 0 || id == "" {
		return false
	}
	run, err := b.Workflow(ctx, id)
	i := slices.IndexFunc(list, func(h core.Halt) bool { return h.Side == "" || run.Side == "" || h.Side == run.Side })
	if err != nil || i < 0 {
		return false
	}
	a.Progress.Event(core.Event{Type: core.EventTaskWarning, RunID: id, Message: "calls are " + list[i].Text() + "; pml resume lets them go on"})
	return true
}
