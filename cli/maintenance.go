package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func maintenance(a *app.App) (app.Maintenance, error) {
	if a.Deps.Maintenance == nil {
		return nil, core.Errorf(core.CodeInternal, "this build of pml has no database files of its own")
	}
	return a.Deps.Maintenance(app.OpenOptions{Home: a.Flags.Home, Server: a.Flags.Server})
}

// applyLogs is doctor --apply-log.
func applyLogs(ctx context.Context, a *app.App) error {
	u, err := maintenance(a)
	if err != nil {
		return err
	}
	list, err := u.ApplyLogs(ctx)
	if err != nil {
		return err
	}
	return a.Print(api.Page[app.AppliedLog]{Items: append([]app.AppliedLog{}, list...)}, func(w *strings.Builder) {
		for _, l := range list {
			fmt.Fprintf(w, "applied %d commit(s) to %s\n", l.Commits, core.Visible(l.Store, 0, false))
		}
		if len(list) == 0 {
			w.WriteString("no redo log of an older pml has commits to apply\n")
		}
	})
}
