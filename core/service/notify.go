package service

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/notify"
	"github.com/casys-ai/pml/core/setup"
	"github.com/casys-ai/pml/store"
)

// Notify tells people by the carriers of approvals.notify of what waits in the store, until
// the context ends or, with idle, nothing has been to do for so long. Several processes may
// do so for one store.
func (c *Service) Notify(ctx context.Context, idle time.Duration) error {
	changes, err := c.base.Store.Watch(ctx)
	if err != nil {
		return err
	}
	return c.sender(idle).Run(ctx, changes)
}

// NotifyOnce looks once, sends what is due, and reports whether there will be more to do.
func (c *Service) NotifyOnce(ctx context.Context) (bool, error) {
	next, err := c.sender(0).Look(ctx)
	return !next.IsZero(), err
}

func (c *Service) sender(idle time.Duration) *notify.Sender {
	log := c.o.Logger
	if _, err := c.machine.Host(c.o.Workspace.Dir); err != nil { // with it the log leaves keys out
		log.Warn("cannot read the configuration", "error", core.AsError(err))
	}
	return notify.NewSender(notify.Options{
		Keeper: c.base.Store, Clock: c.o.Clock, NewID: c.o.NewID, Random: rand.Float64, Log: log, Idle: idle,
		Settings: setup.NotifyReader(setup.NotifyOptions{Home: c.o.Home, Environ: c.o.Environ, LookPath: c.o.LookPath, Clock: c.o.Clock},
			func(text string) { log.Warn("a carrier of approvals.notify cannot be used", "error", text) }),
		Open: func(ctx context.Context) ([]core.Approval, error) {
			return c.base.Store.Approvals(ctx, store.ApprovalFilter{Now: c.now(), States: []core.ApprovalState{core.ApprovalOpen}})
		},
		Show: c.decisions.Approval,
	})
}
