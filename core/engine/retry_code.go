package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// ofScript returns the outcomes that a retry of a script takes back: the
// failures without which the script makes every call that is journaled just the
// same. What a script did because of a failure (a fallback, the next round of a
// loop) stands, and so does that failure. A sleep that ended after the first of
// them begins anew with them: it may be the time limit of a call that is made again.
//
// The script itself says what depends on what: it is played from the journal,
// which calls nothing, without the outcomes in question.
func (rt *retrial) ofScript(ctx context.Context) ([]core.Record, error) {
	candidates, failures, err := rt.candidates(ctx)
	if err != nil || failures == 0 {
		return nil, err
	}
	without := map[string]bool{}
	for _, r := range candidates {
		without[r.CallID] = true
	}
	if played, err := rt.rehearse(ctx, without); err != nil || played.whole {
		return candidates, err
	}
	// Some of them are what the script went on from: one after another, the
	// latest failure first, because it is the likeliest to have ended the run.
	clear(without)
	slices.SortStableFunc(candidates, func(x, y core.Record) int {
		switch {
		case (x.Tool == core.SleepTool) == (y.Tool == core.SleepTool):
			return int(y.Seq - x.Seq)
		case x.Tool == core.SleepTool:
			return 1
		}
		return -1
	})
	var out []core.Record
	for _, r := range candidates[:min(len(candidates), maxRehearsals)] {
		without[r.CallID] = true
		played, err := rt.rehearse(ctx, without)
		if err != nil {
			return nil, err
		}
		if !played.whole {
			delete(without, r.CallID)
			continue
		}
		out = append(out, r)
	}
	if !slices.ContainsFunc(out, failed) {
		return nil, nil
	}
	return out, nil
}

// maxRehearsals bounds how often a script is played to find out which failures
// it went on from.
const maxRehearsals = 100

// failed reports whether an outcome is a failure, as a script sees it.
func failed(r core.Record) bool {
	return r.Outcome == core.OutcomeError || r.Outcome == core.OutcomeDenied || r.Outcome == core.OutcomeCancelled
}

// candidates are the failures whose delivery led to no call, and the sleeps of
// the same kind that ended after the first of them; failures counts the former.
func (rt *retrial) candidates(ctx context.Context) (list []core.Record, failures int, err error) {
	if !slices.ContainsFunc(rt.journal.settled, failed) {
		return nil, 0, nil
	}
	played, err := rt.rehearse(ctx, nil)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range rt.journal.settled {
		switch {
		case played.led[r.Seq]:
		case failed(r):
			failures++
			list = append(list, r)
		case r.Tool == core.SleepTool && failures > 0:
			list = append(list, r)
		}
	}
	return list, failures, nil
}

// rehearsal is a script that was played from its journal.
type rehearsal struct {
	journal *journal
	made    map[string]issued
	led     map[int64]bool // the deliveries that led to calls, by sequence number
	// whole says that the script made every call that the journal has something of.
	whole bool
}

// rehearse plays the script from the journal without the outcomes of some calls,
// as a replay does while these are made again. Nothing is called or journaled.
func (rt *retrial) rehearse(ctx context.Context, without map[string]bool) (rehearsal, error) {
	r := rehearsal{journal: rt.journal, made: map[string]issued{}, led: map[int64]bool{}}
	p := newCodeProgram(rt.pool, *rt.run, *rt.program, *rt.limits)
	defer p.close()
	t, err := p.start(ctx)
	for _, list := range rt.deliveries(without) {
		if err != nil {
			break
		}
		if r.take(t); !r.has(list) {
			return r, nil
		}
		t, err = p.deliver(ctx, list)
	}
	switch {
	case err == nil:
		r.take(t)
		r.whole = r.hasAll()
	case errors.Is(err, sandbox.ErrLost), ctx.Err() != nil, core.CodeOf(err) == core.CodeInternal:
		return r, err
	}
	return r, nil // else the script fails here by itself: it makes no more calls
}

// deliveries are the journaled outcomes that a replay gives to the script before
// the calls in without have theirs again, in the portions in which it does. Where
// layers are barriers, that is nothing of the layers after such a call.
func (rt *retrial) deliveries(without map[string]bool) [][]delivery {
	var out [][]delivery
	layers := map[int][]delivery{}
	last := -1
	for _, r := range rt.journal.settled {
		last = max(last, r.Layer)
		if r.Outcome == core.OutcomeCancelled || without[r.CallID] { // no script has seen that it was cancelled
			continue
		}
		c := &call{issued: issued{id: r.CallID, tool: r.Tool, layer: r.Layer}, digest: r.ArgsDigest}
		d := delivery{seq: r.Seq, call: c, outcome: r.Outcome, value: r.Result, err: r.Error, at: r.At}
		if released, ok := rt.journal.released[r.Layer]; ok {
			d.at = released.At
		}
		layers[r.Layer] = append(layers[r.Layer], d)
		out = append(out, []delivery{d})
	}
	if !rt.barrier {
		return out
	}
	out = nil
	for n := range last + 1 {
		if _, released := rt.journal.released[n]; !released {
			break
		}
		if len(layers[n]) > 0 {
			out = append(out, layers[n])
		}
		if slices.ContainsFunc(rt.journal.settled, func(r core.Record) bool { return r.Layer == n && without[r.CallID] }) {
			break
		}
	}
	return out
}

// take notes the calls that a turn brought.
func (r *rehearsal) take(t turn) {
	for _, is := range t.calls {
		r.made[is.id] = is
		r.led[is.after] = true
	}
}

// has reports whether the script has made the calls whose outcomes come next.
func (r *rehearsal) has(list []delivery) bool {
	for _, d := range list {
		if !r.same(d.call.id, d.call.tool, d.call.digest) {
			return false
		}
	}
	return true
}

// hasAll reports whether the script has made every call that has settled, has
// begun or waits for a decision.
func (r *rehearsal) hasAll() bool {
	for _, s := range r.journal.settled {
		if !r.same(s.CallID, s.Tool, s.ArgsDigest) {
			return false
		}
	}
	for id, s := range r.journal.begun {
		if s.Kind == core.RecordStarted && !r.same(id, s.Tool, s.ArgsDigest) {
			return false
		}
	}
	for id := range r.journal.parked {
		if _, ok := r.made[id]; !ok {
			return false
		}
	}
	return true
}

// same reports whether the script has made a call, and made it as journaled.
func (r *rehearsal) same(id, tool, digest string) bool {
	is, ok := r.made[id]
	if !ok || is.tool != tool {
		return false
	}
	made, err := core.Digest(is.args)
	return err == nil && (digest == "" || digest == made)
}
