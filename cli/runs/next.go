package runs

import (
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// sayCommands names on stderr the commands that come next after a result.
func sayCommands(a *app.App, r api.Result) {
	for _, argv := range commandsAfter(r) {
		a.SayNext(argv...)
	}
}

// encodeResult writes a result for a program, with the commands that a person would read.
func encodeResult(a *app.App, r api.Result) error {
	out := struct {
		api.Result
		Commands [][]string `json:"commands,omitempty"`
	}{r, commandsAfter(r)}
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
func commandsAfter(r api.Result) [][]string {
	id := r.WorkflowID.Short()
	goOn := []string{"pml", "continue", id}
	switch r.Status {
	case api.StatusApprovalRequired, api.StatusAwaitingHuman, api.StatusLayerComplete:
		return commandsToDecide(r, view.PendingOf(r))
	case api.StatusHalted:
		return [][]string{{"pml", "resume"}, goOn}
	case api.StatusRunning:
		return [][]string{goOn}
	case api.StatusReplanned:
		// Not to approve yet: what waited was asked about the plan as it was.
		return [][]string{goOn}
	case api.StatusAborted:
		return [][]string{{"pml", "workflows", "show", id}}
	case api.StatusSuccess, api.StatusComplete, api.StatusSuggestions, api.StatusError, api.StatusExecuteLocally:
	}
	return nil
}

// manyPending is of how many approvals of a run each has commands of its own.
const manyPending = 2

// commandsToDecide are the commands that decide what waits.
func commandsToDecide(r api.Result, pending []core.Approval) [][]string {
	id := r.WorkflowID.Short()
	goOn, abort := []string{"pml", "continue", id}, []string{"pml", "abort", id}
	switch {
	case len(pending) == 0:
		return [][]string{goOn}
	case r.Pause && len(pending) == 1:
		return [][]string{goOn, abort}
	case r.Status == api.StatusLayerComplete:
		return [][]string{append(goOn, "--approve"), abort}
	case len(pending) == 1:
		return decisionCommands(pending[0], id)
	case len(pending) > manyPending:
		return [][]string{{"pml", "approve", id}, {"pml", "deny", id}}
	}
	var list [][]string
	for _, p := range pending {
		list = append(list, decisionCommands(p, id, "--approval", p.ID.Short())...)
	}
	return list
}

// decisionCommands are the commands that decide one approval.
func decisionCommands(p core.Approval, id string, which ...string) (list [][]string) {
	add := func(flags ...string) {
		list = append(list, append(append([]string{"pml", "continue", id}, flags...), which...))
	}
	if p.Type == core.ApproveInDoubt {
		add("--answer", "run-again")
		add("--answer", "skip", "--result", "null")
		return list
	}
	if server, _, _ := strings.Cut(p.Tool, ":"); p.Type == core.ApproveOAuth && server != "" {
		list = append(list, []string{"pml", "servers", "connect", server})
	}
	add("--approve")
	if approval.InLoop(p) {
		list = append(list, []string{"pml", "approve", p.ID.Short(), "--shape"})
	}
	if p.Type == core.ApproveDependency && len(scriptsOf(p)) > 0 {
		add("--approve", "--allow-scripts")
	}
	add("--deny")
	return list
}
