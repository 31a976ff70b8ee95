package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// sayNeeded lists what servers need where that is more than packages, which have a list
// of their own.
func sayNeeded(a *app.App, list []api.ServerInfo) {
	var rows [][]layout.Cell
	more := false
	add := func(s api.ServerInfo, needs, what string) {
		more = more || needs != typeWords(core.ApproveDependency)
		rows = append(rows, []layout.Cell{
			{Text: "  " + core.Visible(s.Name, 80, false), Style: layout.Ident}, {Text: needs, Style: layout.Warn}, {Text: core.OneLine(what, 200)},
		})
	}
	for _, s := range list {
		if s.State == api.ServerNotTrusted {
			add(s, "trust", "what this workspace's files grant, on this machine")
		}
		for _, n := range s.Needs {
			add(s, typeWords(n.Type), n.Description)
		}
	}
	if more && a.Human() {
		io.WriteString(a.Stderr, "needed:\n"+layout.AlignCells(rows, a.Width(), a.ColourErr())+"\n")
	}
}

func typeWords(t core.ApprovalType) string { return approval.TypeOf(t).Words }

// asks reports whether somebody is asked about more than what --yes answers.
func (o installOptions) asks(a *app.App) bool { return a.CanAsk() && !o.yes }

// trust asks whether the files of a workspace that is not trusted are, and reads the
// servers anew. A no keeps no other server from being installed.
func (o installOptions) trust(ctx context.Context, a *app.App, b app.Backend, list []api.ServerInfo) ([]api.ServerInfo, error) {
	if !o.asks(a) || !slices.ContainsFunc(list, func(s api.ServerInfo) bool { return s.State == api.ServerNotTrusted }) {
		return list, nil
	}
	t, err := b.Trust(ctx)
	if err != nil || t.Trusted || t.Empty && len(t.TakenOut) == 0 {
		return list, err
	}
	switch err := changes.Trust(ctx, a, b, t, false, false); {
	case core.CodeOf(err) == core.CodeNotTrusted:
		a.Note("%s", core.Visible(err.Error(), 2000, false))
		return list, nil
	case err != nil:
		return nil, err
	}
	a.Note("trusted %s", core.Visible(t.Workspace, 0, false))
	if list, err = namedServers(ctx, b, o.names); err == nil {
		sayNeeded(a, list) // what else they need is known only now
	}
	return list, err
}

// keys waits until a person has put the keys that are missing where pml reads them, or
// goes on without. pml asks for the name of a key and never for its value.
func (o installOptions) keys(ctx context.Context, a *app.App, b app.Backend, list []api.ServerInfo) ([]api.ServerInfo, error) {
	for o.asks(a) {
		var w strings.Builder
		for _, s := range list {
			for _, n := range s.Needs {
				if n.Type == core.ApproveKeys {
					fmt.Fprintf(&w, "%s\n", core.Visible(n.Description, 0, false))
					view.WriteContext(&w, needed(n), s.Name)
				}
			}
		}
		if w.Len() == 0 {
			break
		}
		io.WriteString(a.Stderr, w.String())
		there, err := a.AskYes(ctx, "is it there now? (no goes on without)")
		if err != nil {
			return nil, err
		}
		if !there {
			break
		}
		if list, err = namedServers(ctx, b, o.names); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// accept starts the servers and asks about each that is not what was approved, on the
// card that its approval has, until nothing is left that was not answered. Then it says
// how they stand.
func (o installOptions) accept(ctx context.Context, a *app.App, b app.Backend) error {
	answered := map[string]bool{}
	for {
		list, err := startServers(ctx, a, b, o.names)
		if err != nil {
			return err
		}
		again := false
		for _, alike := range toAccept(list, answered) {
			if !o.asks(a) {
				break
			}
			for _, n := range alike {
				answered[n.Digest] = true
			}
			yes, err := acceptNeeds(ctx, a, b, alike)
			if err != nil {
				return err
			}
			again = again || yes
		}
		if !again {
			return sayChecked(a, list)
		}
	}
}

// integrityNeed is a need of type integrity, and the server that has it.
type integrityNeed struct {
	api.ServerNeed
	server string
}

// toAccept are the needs of type integrity that were not answered, those together that ask
// the very same of several servers of one package.
func toAccept(list []api.ServerInfo, answered map[string]bool) (groups [][]integrityNeed) {
	at := map[string]int{}
	for _, s := range list {
		for _, n := range s.Needs {
			if n.Type != core.ApproveIntegrity || answered[n.Digest] {
				continue
			}
			key := sameQuestion(s, n)
			if i, had := at[key]; key != "" && had {
				groups[i] = append(groups[i], integrityNeed{n, s.Name})
				continue
			}
			at[key] = len(groups)
			groups = append(groups, []integrityNeed{{n, s.Name}})
		}
	}
	return groups
}

// sameQuestion is the same for needs that ask the same, hash and all, of servers of one
// package, whatever these are called; empty: the need is asked about by itself.
func sameQuestion(s api.ServerInfo, n api.ServerNeed) string {
	raw, err := json.Marshal(n.Context)
	var asked map[string]any
	if err != nil || json.Unmarshal(raw, &asked) != nil || s.Package == "" {
		return ""
	}
	if hash, _ := asked["new_hash"].(string); hash == "" {
		return ""
	}
	tool, _ := asked["tool"].(string) // of a definition that has changed: the name behind the server's
	asked["tool"] = strings.TrimPrefix(tool, s.Name)
	delete(asked, "fqdn_base")
	key, err := json.Marshal([]any{s.Kind, s.Package, asked})
	if err != nil {
		return ""
	}
	return string(key)
}

// askEachTime proposes rules that ask about each call of some servers' tools: nobody has to say
// then whether these only read. A no to the change leaves all as it was.
func askEachTime(ctx context.Context, a *app.App, b app.Backend, alike []integrityNeed) (written bool, err error) {
	rules := make([]api.PermissionRule, len(alike))
	for i, n := range alike {
		rules[i] = api.PermissionRule{List: "ask", Tool: n.server + ":*"}
	}
	set, err := b.AddRules(ctx, false, rules...)
	if err != nil {
		return false, err
	}
	p := &changes.Proposal{ChangeSet: set, Ask: "write this?"}
	if err = changes.Propose(ctx, a, b, p, changes.Flags{}); core.CodeOf(err) == core.CodeDenied {
		a.Note("%s", core.Visible(err.Error(), 300, false))
		return false, nil
	}
	return p.Written, err
}

// acceptNeeds shows what one or several servers need alike, and accepts it if a person
// says so.
func acceptNeeds(ctx context.Context, a *app.App, b app.Backend, alike []integrityNeed) (yes bool, err error) {
	n := alike[0]
	shown, err := json.Marshal(n.Context)
	if err != nil {
		return false, core.Errorf(core.CodeInternal, "the question about %s cannot be written down: %w", core.Visible(n.server, 80, false), err)
	}
	p := core.Approval{Type: n.Type, Tool: n.server, Risk: core.RiskHigh, Description: n.Description, Context: shown, Digest: n.Digest, State: core.ApprovalOpen}
	text := view.Approval(p, 1, 1, a.Now())
	if a.StderrTTY {
		text = view.Card(text, a.Width(), a.ColourErr())
	}
	io.WriteString(a.Stderr, text)
	question := "accept this?"
	if len(alike) > 1 {
		names := make([]string, len(alike))
		for i, one := range alike {
			names[i] = core.Visible(one.server, 80, false)
		}
		a.Say("the same, of the same package, is asked about the servers %s: your answer is for all of them", strings.Join(names, ", "))
		question = fmt.Sprintf("accept this for these %d servers?", len(alike))
	}
	want := approval.Confirmation(p, false)
	if want == "" {
		want = firstDigits(n.Digest)
	}
	q, eachTime := app.YesNo{Question: question, Typed: want}, false
	if kind, _ := n.Context.(map[string]any)["kind"].(string); kind == "readonly" {
		q.Other, q.Else = "[e] ask me each time", func(word string) bool {
			eachTime = word == "e"
			return eachTime
		}
	}
	switch yes, err = q.Ask(ctx, a); {
	case eachTime && err == nil:
		return askEachTime(ctx, a, b, alike)
	case err != nil || !yes:
		return false, err
	}
	pin, err := a.PinFor(ctx, b, false)
	for _, one := range alike {
		if err == nil {
			err = b.AcceptServer(ctx, api.AcceptRequest{Name: one.server, Digest: one.Digest, Pin: pin, By: a.Actor(), Presence: core.PresenceTerminal})
		}
	}
	return err == nil, err
}
