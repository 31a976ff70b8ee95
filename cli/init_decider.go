package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// whoDecides asks who decides what pml asks, where there is a person to ask and a file
// to write; otherwise it takes what was said, or that only people do.
func whoDecides(ctx context.Context, a *app.App, b app.Backend, o initOptions) (string, error) {
	if o.decider != "" {
		return o.decider, nil
	}
	p, err := b.Paths(ctx)
	if err != nil || !a.CanAsk() || o.yes {
		return deciderHuman, err
	}
	if _, err := os.Lstat(p.Config); err == nil { // chooseDecider asks, if nobody has chosen
		return deciderHuman, nil
	}
	return askDecider(ctx, a)
}

// decidersOf is who decides, by the word of --decider.
func decidersOf(who string) api.Deciders {
	return api.Deciders{Agents: who == deciderAny, Dialog: who == deciderDialog}
}

// chooseDecider sets who decides in a .pml.json that is there: what --decider says, or
// what a person chooses where nobody has chosen yet. The change is shown and agreed to
// first. It returns what was written, empty for nothing.
func chooseDecider(ctx context.Context, a *app.App, b app.Backend, o initOptions) (string, error) {
	who := o.decider
	if who == "" {
		if !unchosen(ctx, b) {
			return "", nil
		}
		a.Note("note: nobody has chosen who decides here, so an agent may approve what is not of high risk")
		if !a.CanAsk() || o.yes {
			a.Note(`note: to choose, add "approvals": {"decider": "human"} to it, which is recommended, or "any"`)
			a.Note("next: pml init --decider human --yes")
			return "", nil
		}
		var err error
		if who, err = askDecider(ctx, a); core.CodeOf(err) == core.CodeAwaitingHuman {
			return "", nil
		} else if err != nil {
			return "", err
		}
	}
	set, err := b.DecidersChange(ctx, decidersOf(who))
	if err != nil {
		return "", err
	}
	p := &changes.Proposal{ChangeSet: set, Ask: "write this?", Again: a.WithFlags("--yes")}
	err = changes.Propose(ctx, a, b, p, changes.Flags{Yes: o.yes})
	switch {
	case err != nil && o.decider == "" && core.CodeOf(err) != core.CodeCancelled:
		a.Note("note: %s", core.Visible(core.AsError(err).Message, 0, false))
		return "", nil
	case err != nil:
		return "", err
	case !p.Written:
		a.Note("note: that is what it says already")
		return "", nil
	}
	a.Note("wrote %s", core.Visible(set.Changes[0].File, 0, false))
	a.Note("note: %s", decidersSaid(who, false))
	if held(ctx, b, who) {
		a.Note("note: until you trust the file people decide, as before: pml trust")
	}
	return who, nil
}

// askDecider asks who decides; who gives no answer decides nothing.
func askDecider(ctx context.Context, a *app.App) (string, error) {
	io.WriteString(a.Stderr, "May the agent pass on your yes to what pml asks, or only you?\n"+
		"  [o] only you, at a terminal (recommended: enter takes it)\n"+
		"  [d] only you, there or in the dialog of the agent's host, where that shows one\n"+
		"  [a] the agent as well, for what is not of high risk\n")
	for {
		line, err := a.Ask(ctx, "who decides? [o]nly you / [d]ialog too / [a]gent too: ")
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return "", core.Errorf(core.CodeAwaitingHuman, "nobody answered: nothing was written").WithNext("pml", "init", "--decider", deciderHuman)
		}
		if err != nil {
			return "", core.Errorf(core.CodeCancelled, "nothing was written: %w", err)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "", "o", "only", deciderHuman:
			return deciderHuman, nil
		case "d", deciderDialog:
			return deciderDialog, nil
		case "a", "agent", deciderAny:
			return deciderAny, nil
		}
		a.Say("that is no answer: type o, d or a")
	}
}

// held reports whether people go on deciding although the file says something else by
// now: a restriction is taken away only by who trusts the file.
func held(ctx context.Context, b api.Workspace, who string) bool {
	raw, err := b.Config(ctx)
	var cfg struct {
		Approvals struct {
			Decider string `json:"decider"`
		} `json:"approvals"`
	}
	return who == deciderAny && err == nil && json.Unmarshal(raw, &cfg) == nil && cfg.Approvals.Decider == deciderHuman
}

// unchosen reports whether nobody has chosen who decides in the workspace.
func unchosen(ctx context.Context, b api.Workspace) bool {
	raw, err := b.Config(ctx)
	var cfg struct {
		Approvals struct {
			From string `json:"decider_from"`
		} `json:"approvals"`
	}
	return err == nil && json.Unmarshal(raw, &cfg) == nil && cfg.Approvals.From == "default"
}

// decidersSaid says what was written of who decides; unasked: without anybody's word.
func decidersSaid(who string, unasked bool) string {
	text := map[string]string{
		deciderHuman:  "people decide what it asks, no agent (approvals.decider is human): in pml tui, or with pml approve",
		deciderDialog: "people decide what it asks, no agent: in pml tui, with pml approve, or in the agent's own dialog once you trust the file (approvals.trust_host)",
		deciderAny:    "an agent may pass on a yes to what is not of high risk (approvals.decider is any); what it decides is marked, and pml status counts it",
	}[who]
	if unasked {
		text += "; nobody was asked: pml init --decider any or dialog writes something else"
	}
	return text
}
