package route

import (
	"context"
	"strconv"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Events calls f for events in order: those of a run, or all, which then say
// their side. Each half numbers its own, so since.Any counts where one half is
// meant: with the id of a run, or where there is no server; otherwise it is an
// error, core.CodeInvalidArguments. Of both halves, what has happened comes in
// the order of its time, what happens as it arrives. A server that does not
// answer is a warning, and the events of this machine go on; who follows gets
// the server's as soon as it answers.
func (b *Backend) Events(ctx context.Context, id core.ID, since api.Since, follow bool, f func(core.Event) error) error {
	if id != "" {
		h, _, err := b.half(ctx, id)
		if err != nil {
			return err
		}
		return h.Events(ctx, id, since, follow, f)
	}
	r, away := b.server(ctx, false)
	if away != nil && !b.absent(ctx, away) {
		return away
	}
	if since.Any > 0 && (r != nil || away != nil) {
		return ofWhich(since.Any)
	}
	at := &reached{ours: since.Of(core.SideClient), theirs: since.Server, pass: f}
	if away == nil {
		var err error
		if away, err = b.past(ctx, r, at); err != nil {
			return err
		}
	} else if err := pastHere(ctx, b.o.Local, at); err != nil {
		return err
	}
	if away != nil {
		b.warn(missing(away))
	}
	if !follow {
		return nil
	}
	return b.follow(ctx, at, away != nil)
}

// Said implements api.Workflows, by the half that the run belongs to.
func (b *Backend) Said(ctx context.Context, id core.ID, f func(core.Event) error) error {
	h, _, err := b.half(ctx, id)
	if err != nil {
		return err
	}
	return h.Said(ctx, id, f)
}

// ofWhich is the error of a number that could be of either half.
func ofWhich(n int64) error {
	number := strconv.FormatInt(n, 10)
	return core.Errorf(core.CodeInvalidArguments,
		"the events of this machine and those of the server have numbers of their own: say whose %s is, as in client:%s or server:%s, or name a run", number, number, number).
		WithNext("pml", "events", "--since", "client:"+number)
}

// reached passes events on and knows how far each half has come.
type reached struct {
	ours, theirs int64
	pass         func(core.Event) error
}

func (at *reached) take(e core.Event) error {
	if err := at.pass(e); err != nil {
		return err
	}
	if e.Side == core.SideServer {
		at.theirs = e.Seq
	} else {
		at.ours = e.Seq
	}
	return nil
}

// past passes on what has happened in both halves, by time; there need be no
// server. away is why the server did not answer to the end.
func (b *Backend) past(ctx context.Context, r Remote, at *reached) (away, err error) {
	if r == nil {
		return nil, pastHere(ctx, b.o.Local, at)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	here := read(ctx, b.o.Local, core.SideClient, at.ours, false)
	there := read(ctx, r, core.SideServer, at.theirs, false)
	a, aok := <-here.events
	c, cok := <-there.events
	for aok || cok {
		if aok && (!cok || !c.event.At.Before(a.event.At)) {
			if err := at.take(a.event); err != nil {
				return nil, err
			}
			a.taken <- nil
			a, aok = <-here.events
			continue
		}
		if err := at.take(c.event); err != nil {
			return nil, err
		}
		c.taken <- nil
		c, cok = <-there.events
	}
	if err := <-here.end; err != nil {
		return nil, err
	}
	away = <-there.end
	if away != nil && !b.absent(ctx, away) {
		return nil, away
	}
	return away, nil
}

// pastHere passes on what has happened on this machine.
func pastHere(ctx context.Context, local Half, at *reached) error {
	return local.Events(ctx, "", api.Since{Client: at.ours}, false, sided(core.SideClient, at.take))
}

// sided gives events their side.
func sided(side core.Side, f func(core.Event) error) func(core.Event) error {
	return func(e core.Event) error {
		e.Side = side
		return f(e)
	}
}

// marked is an event and the answer to whoever read it.
type marked struct {
	event core.Event
	taken chan error
}

// reading is a half that is read.
type reading struct {
	events chan marked
	end    chan error // has one value once events is closed
}

// read reads the events of a half, one at a time: the next one is asked for when
// the last was taken. It ends with the context.
func read(ctx context.Context, h Half, side core.Side, since int64, follow bool) reading {
	return reader(ctx, func(pass func(core.Event) error) error {
		return h.Events(ctx, "", api.Since{Any: since}, follow, sided(side, pass))
	})
}

// reader runs a function that passes events on.
func reader(ctx context.Context, run func(pass func(core.Event) error) error) reading {
	rd := reading{events: make(chan marked), end: make(chan error, 1)}
	taken := make(chan error, 1)
	pass := func(e core.Event) error {
		select {
		case rd.events <- marked{e, taken}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-taken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		defer close(rd.events)
		rd.end <- run(pass)
	}()
	return rd
}
