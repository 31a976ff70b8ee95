package runs

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// after is a command that comes next after a result.
type after struct {
	argv []string
	// person is set of what pml does only for a person at a terminal, or with the PIN.
	person bool
}

// sayCommands names on stderr the commands that come next after a result. Where nobody can
// be asked, it says of those that would be refused where they are run.
func sayCommands(a *app.App, r api.Result) {
	for _, c := range commandsAfter(r) {
		if c.person && !a.CanAsk() {
			a.Say("next, for a person at a terminal: %s", a.PaintErr(layout.Ident, layout.ShellJoin(c.argv)))
			continue
		}
		a.SayNext(c.argv...)
	}
}

// encodeResult writes a result for a program, with the commands that a person would read:
// apart those that are refused to a program.
func encodeResult(a *app.App, r api.Result) error {
	out := struct {
		api.Result
		Commands   [][]string `json:"commands,omitempty"`
		AtTerminal [][]string `json:"at_terminal,omitempty"`
	}{Result: r}
	for _, c := range commandsAfter(r) {
		if c.person {
			out.AtTerminal = append(out.AtTerminal, c.argv)
		} else {
			out.Commands = append(out.Commands, c.argv)
		}
	}
	if len(out.AtTerminal) > 0 && r.Status != api.StatusHalted { // what a program can do about it is to wait for a person
		out.Commands = slices.Insert(out.Commands, 0, []string{"pml", "continue", r.WorkflowID.Short(), "--on-approval", onWait})
	}
	if e := core.AsError(app.ResultError(r)); e != nil && len(e.Next) > 0 {
		out.Commands = [][]string{e.Next}
	}
	if len(out.Next) == 0 && len(out.Commands) > 0 {
		out.Next = out.Commands[0]
	}
	return a.Encode(out, a.Format())
}

// commandsAfter are the commands that come next after a result that is no success and no
// error.
func commandsAfter(r api.Result) []after {
	id := r.WorkflowID.Short()
	goOn := after{argv: []string{"pml", "continue", id}}
	switch r.Status {
	case api.StatusApprovalRequired, api.StatusAwaitingHuman, api.StatusLayerComplete:
		return commandsToDecide(r, view.PendingOf(r))
	case api.StatusHalted:
		return []after{{argv: []string{"pml", "resume"}, person: true}, goOn}
	case api.StatusRunning:
		return []after{goOn}
	case api.StatusReplanned:
		// Not to approve yet: what waited was asked about the plan as it was.
		return []after{goOn}
	case api.StatusAborted:
		return []after{{argv: []string{"pml", "workflows", "show", id}}}
	case api.StatusSuccess, api.StatusComplete, api.StatusSuggestions, api.StatusError, api.StatusExecuteLocally:
	}
	return nil
}

// manyPending is of how many approvals of a run each has commands of its own.
const manyPending = 2

// commandsToDecide are the commands that decide what waits.
func commandsToDecide(r api.Result, pending []core.Approval) []after {
	id := r.WorkflowID.Short()
	person := slices.ContainsFunc(pending, func(p core.Approval) bool { return p.Human })
	goOn, abort := after{argv: []string{"pml", "continue", id}}, after{argv: []string{"pml", "abort", id}}
	switch {
	case len(pending) == 0:
		return []after{goOn}
	case r.Pause && len(pending) == 1:
		return []after{goOn, abort}
	case r.Status == api.StatusLayerComplete:
		return []after{{append(goOn.argv, "--approve"), person}, abort}
	case len(pending) == 1:
		return decisionCommands(pending[0], id)
	case len(pending) > manyPending:
		return []after{{[]string{"pml", "approve", id}, person}, {[]string{"pml", "deny", id}, person}}
	}
	var list []after
	for _, p := range pending {
		list = append(list, decisionCommands(p, id, "--approval", p.ID.Short())...)
	}
	return list
}

// decisionCommands are the commands that decide one approval.
func decisionCommands(p core.Approval, id string, which ...string) (list []after) {
	add := func(flags ...string) {
		list = append(list, after{append(append([]string{"pml", "continue", id}, flags...), which...), p.Human})
	}
	if p.Type == core.ApproveInDoubt {
		add("--answer", "run-again")
		add("--answer", "skip", "--result", "null")
		return list
	}
	if server, _, _ := strings.Cut(p.Tool, ":"); p.Type == core.ApproveOAuth && server != "" {
		list = append(list, after{argv: []string{"pml", "servers", "connect", server}})
	}
	add("--approve")
	if approval.InLoop(p) {
		list = append(list, after{[]string{"pml", "approve", p.ID.Short(), "--shape"}, p.Human})
	}
	if p.Type == core.ApproveDependency && len(scriptsOf(p)) > 0 {
		add("--approve", "--allow-scripts")
	}
	add("--deny")
	return list
}
