package service

import (
	"context"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/audit"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/redact"
	"github.com/casys-ai/pml/core/setup"
)

// view is what the parts of a Service know: for whom and in which workspace they
// work, and the process that they share.
type view struct {
	// o are the options of this view: Workspace and By are the scope's, and Store
	// keeps what is not the owner's out of sight.
	o     Options
	scope api.Scope
	trail *audit.Trail
	// Setup is what a person arranges in the workspace of this view.
	Setup *setup.Setup
	*process
}

// The parts of a Service, each with what it needs of the others.
type (
	// execution starts and moves runs.
	execution struct {
		*view
		history   *history
		decisions *decisions
		handover  *handover
		waiting   *waiting
		programs  *programs
	}
	// history reads what is kept of runs, and removes it.
	history struct {
		*view
		decisions *decisions
		handover  *handover
	}
	// decisions are the approvals: who may decide them, and how.
	decisions struct{ *view }
	// handover gives runs to the machine of a caller, and takes their reports.
	handover struct {
		*view
		waiting *waiting
	}
	// waiting waits for a run, here or in another process, and says how it stands.
	waiting struct {
		*view
		history *history
	}
	// programs reads what a run is asked to execute.
	programs struct{ *view }
)

// newView is what a scope sees of a process.
func newView(o Options, scope api.Scope, p *process, trail *audit.Trail) *Service {
	v := &view{o: o, scope: scope, process: p, trail: trail}
	d, progs := &decisions{v}, &programs{v}
	h, w := &history{view: v, decisions: d}, &waiting{view: v}
	give := &handover{view: v, waiting: w}
	h.handover, w.history = give, h
	c := &Service{
		view: v, history: h, decisions: d, handover: give, waiting: w, programs: progs, hookFlows: &hookFlows{v}, halting: &halting{v}, auditLog: trail, refusals: trail,
		execution: &execution{view: v, history: h, decisions: d, handover: give, waiting: w, programs: progs},
	}
	v.Setup = setup.New(setup.Options{
		Home: o.Home, Workspace: o.Workspace, Environ: o.Environ, Scope: scope, Store: o.Store, Whole: p.base.Store, Machine: p.machine, Audit: trail,
		Sandbox: o.Sandbox, LookPath: o.LookPath, Clock: o.Clock, NewID: o.NewID, Logger: o.Logger, Explore: c.Explore, Accepted: d.accepted,
	})
	c.pin = v.Setup.Pin
	return c
}

// ownKey takes the owner out of what an error says of an idempotency key.
func (c *view) ownKey(err error, run core.Run) error {
	if core.CodeOf(err) != core.CodeDigestMismatch || run.Owner == "" {
		return err
	}
	e := *core.AsError(err)
	e.Message = fmt.Sprintf("the idempotency key %q stands for another program, input or options; nothing was run, use another key", core.Visible(givenKey(run), 120, false))
	return &e
}

// own is the host of the client's own workspace.
func (c *view) own() (*gate.Host, error) { return c.host(c.o.Workspace.Dir) }

// config is the configuration of the client's own workspace, as far as it is
// trusted.
func (c *view) config() (*env.Config, error) {
	h, err := c.own()
	if err != nil {
		return nil, err
	}
	return h.Config()
}

func (c *view) now() time.Time { return c.o.Clock.Now().UTC() }

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
