package service

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/gate"
)

// The bounds of for how many calls that wait for a decision it is remembered who
// has made them. Of the oldest beyond that, servers can ask nobody.
const (
	pausedLook = 16 // from so many on it is looked which of them have ended
	pausedMost = 1024
)

// pausedCalls are calls that wait for a decision, oldest first: once it is there
// they are made for the client that wanted them.
type pausedCalls struct {
	list []pausedCall
	next int // so many are the next occasion to look
}

type pausedCall struct {
	host *gate.Host
	run  core.ID
}

// stays keeps for whom the run of a call that waits is made, until it has ended.
// To look costs as much as there were new ones since the last look.
func (t *proxyCall) stays(ctx context.Context) {
	th := t.c.through
	th.mu.Lock()
	p := &th.paused
	p.list = append(p.list, pausedCall{t.h, t.call.RunID})
	if len(p.list) < max(p.next, pausedLook) {
		th.mu.Unlock()
		return
	}
	all := p.list
	p.list = nil
	th.mu.Unlock()
	var left []pausedCall
	for _, call := range all {
		if t.c.over(ctx, call.run) {
			call.host.Leave(call.run)
		} else {
			left = append(left, call)
		}
	}
	for len(left) > pausedMost {
		left[0].host.Leave(left[0].run)
		left = left[1:]
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	p.list = append(left, p.list...)
	p.next = 2 * len(p.list)
}

// over reports whether a run has ended, or is not there any more.
func (c *Service) over(ctx context.Context, id core.ID) bool {
	run, err := c.base.Store.Run(ctx, id)
	if err != nil {
		return core.CodeOf(err) == core.CodeNotFound
	}
	return run.State.Final() || run.State != core.RunRunning && run.ExpiresAt != nil && !c.now().Before(*run.ExpiresAt)
}
