package route

import (
	"context"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// latest names the newest run of the workspace.
const latest = "@latest"

// certain is how many digits of an id are enough not to ask the other half: as
// many as screens show.
const certain = 8

// shortest is the shortest prefix of an id that either half accepts.
const shortest = 4

// Resolve turns what a person typed into a run and, when it names an approval,
// that approval. What is on this machine is found without a server.
func (b *Backend) Resolve(ctx context.Context, text string) (id, approval core.ID, err error) {
	text = strings.ToLower(strings.TrimSpace(text))
	id, approval, err = b.o.Local.Resolve(ctx, text)
	if err != nil && !unknown(err) || text != latest && (len(text) < shortest || err == nil && len(text) >= certain) {
		return id, approval, err
	}
	r, rerr := b.server(ctx, false)
	if rerr == nil && r == nil {
		return id, approval, err
	}
	var rid, rapproval core.ID
	if rerr == nil {
		rid, rapproval, rerr = r.Resolve(ctx, text)
	}
	switch {
	case rerr != nil && !unknown(rerr):
		if err == nil && b.absent(ctx, rerr) {
			b.warn(missing(rerr))
			return id, approval, nil
		}
		if len(ambiguous(err)) > 0 {
			return "", "", err
		}
		return "", "", rerr
	case text == latest && err == nil && rerr == nil:
		return b.newer(ctx, r, id, rid)
	}
	return together(text, found{id, approval, err}, found{rid, rapproval, rerr})
}

// found is what a half makes of a text.
type found struct {
	id, approval core.ID
	err          error
}

// ids are all that the text could mean.
func (f found) ids() []core.ID {
	switch {
	case f.err != nil:
		return ambiguous(f.err)
	case f.approval != "":
		return []core.ID{f.approval}
	}
	return []core.ID{f.id}
}

// together is the one thing that a text means in both halves.
func together(text string, here, there found) (id, approval core.ID, err error) {
	ids := append(here.ids(), there.ids()...)
	slices.Sort(ids)
	ids = slices.Compact(ids) // a run that a server gave away is in both
	switch {
	case len(ids) == 0:
		return "", "", there.err
	case here.err == nil && len(ids) == 1:
		return here.id, here.approval, nil
	case there.err == nil && len(ids) == 1:
		return there.id, there.approval, nil
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	e := core.Errorf(core.CodeNotFound, "%q is the beginning of %d ids, on this machine and on the server; give more of it: %s",
		core.Visible(text, 60, false), len(ids), strings.Join(names, ", ")).WithNext("pml", "workflows", "ls")
	e.Ambiguous = ids
	return "", "", e
}

func ambiguous(err error) []core.ID {
	if err == nil {
		return nil
	}
	return core.AsError(err).Ambiguous
}

// newer is the one of two runs that was made later.
func (b *Backend) newer(ctx context.Context, r Remote, here, there core.ID) (id, approval core.ID, err error) {
	if here == there {
		return here, "", nil
	}
	ours, err := b.o.Local.Workflow(ctx, here)
	if err != nil {
		return there, "", err
	}
	theirs, err := r.Workflow(ctx, there)
	if err != nil || before(ours.Run, theirs.Run) {
		return here, "", err
	}
	return there, "", nil
}
