package runs

import (
	"context"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/page"
)

// exportPage writes a run as a file for people: to a file, or to standard output.
func exportPage(ctx context.Context, a *app.App, b app.Backend, id core.ID, file []string) error {
	w, err := b.Workflow(ctx, id)
	if err != nil {
		return err
	}
	below, err := listBelow(ctx, b, w)
	if err != nil {
		return err
	}
	ids := []core.ID{w.ID}
	for _, r := range below {
		ids = append(ids, r.ID)
	}
	trail, err := page.RowsOf(ctx, b, w.Side, ids...)
	if err != nil {
		return err
	}
	text, err := page.NewExport(page.Source{Run: w, Below: below, Trail: trail, At: a.Now(), Pml: a.Version.Version}).HTML()
	if err != nil {
		return err
	}
	if len(file) == 0 {
		return a.Write(string(text))
	}
	if err := writeNew(file[0], text); err != nil {
		return err
	}
	r := exportReport{File: file[0], WorkflowID: id, State: w.State, Bytes: len(text)}
	return a.Print(r, app.Line("exported %s (%s) to %s", id.Short(), r.State, core.Visible(r.File, 0, false)))
}

// listBelow reads the runs that an agent has started, and those below them, each after
// the run that has started it.
func listBelow(ctx context.Context, b app.Backend, w core.Workflow) (out []core.Workflow, err error) {
	below, err := readBelow(ctx, b, w)
	var add func(core.Workflow)
	add = func(w core.Workflow) {
		for _, c := range childrenOf(w) {
			if child, ok := below[c.ID]; ok {
				delete(below, c.ID) // each once
				out = append(out, child)
				add(child)
			}
		}
	}
	add(w)
	return out, err
}
