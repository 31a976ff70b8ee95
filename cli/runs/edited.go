package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/program"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// edits reports whether the command line changes the arguments of what it approves.
func (o continueOptions) edits() bool { return o.edit || o.arguments != "" }

// checkEdit finds flags that do not go with changed arguments.
func (o continueOptions) checkEdit(a *app.App) error {
	switch {
	case !o.edits():
		return nil
	case o.edit && o.arguments != "":
		return app.Usagef("--edit opens an editor, --arguments brings what is sent: give one of them")
	case !o.approve || o.allOfType != "" || o.answer != "":
		return app.Usagef("--edit and --arguments change what one approval sends: they go with the approval of one call")
	case o.extras.wants() != "":
		return app.Usagef("changed arguments are approved for this call only: --edit and --arguments do not go with --remember or --allow-scripts")
	case o.edit && (!a.CanAsk() || a.EditText == nil):
		return app.Usagef("--edit needs a terminal; --arguments FILE brings the arguments without one")
	}
	return nil
}

// edited puts the changed arguments into a decision. It returns the approval as it asks
// about them, judged anew and under its own digest, which the decision is bound to.
func edited(ctx context.Context, a *app.App, b app.Backend, p core.Approval, d *api.Decision, o continueOptions) (core.Approval, *api.Decision, error) {
	if d.ExpectDigest != "" && o.digest != "" && d.ExpectDigest != p.Digest {
		return p, nil, core.Errorf(core.CodeDigestMismatch, "the approval %s is not what you have seen: its digest is %s", p.ID.Short(), p.Digest).
			WithRun(p.RunID).WithNext("pml", "approvals", "show", p.ID.Short())
	}
	before := view.ArgumentsOf(p)
	args, err := newArguments(ctx, a, p, before, o)
	if err != nil {
		return p, nil, err
	}
	now, err := b.Edited(ctx, p.ID, args)
	if err != nil {
		return p, nil, err
	}
	now.State = p.State
	if !a.AsJSON() || a.CanAsk() {
		a.Progress.Clear()
		if _, err := a.Stderr.Write([]byte(view.ArgumentsChanged(before, view.ArgumentsOf(now)))); err != nil {
			return p, nil, err
		}
	}
	out := *d
	out.Checkpoint, out.ExpectDigest, out.Answer = p.ID, now.Digest, &core.Answer{Arguments: args}
	return now, &out, nil
}

// mayEdit reports whether a question can be answered with other arguments: one about a call,
// at a terminal with an editor, where the command line asks for nothing else.
func (q question) mayEdit(a *app.App) bool {
	other := q.given != nil && q.given.Answer != nil && len(q.given.Answer.Arguments) == 0
	return q.about.Type == core.ApproveTool && a.CanAsk() && a.EditText != nil && !other
}

// edit is the question about the arguments that the person leaves in the editor.
func (q question) edit(ctx context.Context, a *app.App, b app.Backend) (question, error) {
	given := api.Decision{}
	if q.given != nil {
		given = *q.given
	}
	given.Approve = true
	now, d, err := edited(ctx, a, b, q.about, &given, continueOptions{edit: true})
	if err != nil {
		return q, err
	}
	q.unedited = cmp.Or(q.unedited, q.about.Digest)
	q.about, q.given = now, d
	return q, nil
}

// newArguments are those of the file, or what the person leaves in the editor.
func newArguments(ctx context.Context, a *app.App, p core.Approval, before json.RawMessage, o continueOptions) (json.RawMessage, error) {
	if o.arguments != "" {
		return program.ReadJSON(ctx, a, "arguments", "@"+strings.TrimPrefix(o.arguments, "@"))
	}
	text, err := a.EditText(ctx, "arguments-"+p.ID.Short()+".json", layout.Indent(before)+"\n")
	if err != nil {
		return nil, err
	}
	return program.ReadJSON(ctx, a, "edit", text)
}
