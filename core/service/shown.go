package service

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/redact"
)

// shownOf takes the values of keys out of what is shown of a workspace's runs.
func (c *view) shownOf(dir string) redact.View { return c.machine.Redactor(dir) }

// knownRuns bounds of how many runs the workspace is remembered while events are
// followed: a server follows them for as long as it lives.
const knownRuns = 1024

// shownEvents shows events of any runs. The workspace of a run that is gone is
// not known any more: the client's own counts. It fails when the workspace cannot
// be looked up now.
func (c *view) shownEvents(ctx context.Context) func(core.Event) (core.Event, error) {
	dirs := map[core.ID]string{}
	return func(e core.Event) (core.Event, error) {
		dir, ok := dirs[e.RunID]
		if e.RunID == "" {
			dir, ok = c.o.Workspace.Dir, true
		}
		if !ok {
			run, err := c.o.Store.Run(ctx, e.RunID)
			switch core.CodeOf(err) {
			case "":
				dir = run.Workspace
				if len(dirs) >= knownRuns {
					clear(dirs) // those that go on are soon known again
				}
				dirs[e.RunID] = dir
			case core.CodeNotFound:
				dir = c.o.Workspace.Dir
			default:
				return e, err
			}
		}
		return c.shownOf(dir).Event(e), nil
	}
}
