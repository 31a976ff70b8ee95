package gate

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/upstream"
)

// Call makes a call that has passed the gates. Values of keys are taken out of
// what comes back.
func (h *Host) Call(ctx context.Context, call engine.Call, progress func(string)) (json.RawMessage, error) {
	if ofHost(call) {
		return h.hostMay(call)
	}
	name, _, _ := core.SplitTool(call.Tool)
	s, err := h.reader.recent()
	if err != nil {
		return nil, core.AsError(err).WithNotMade()
	}
	var e ended
	side := h.remote.side(s, call.Tool, name)
	switch {
	case call.Side != "" && call.Side != side: // what was judged for one half is no leave for the other
		return nil, again(core.Errorf(core.CodePermissionDenied, "%s cannot be called now: the routing gives it to the %s by now", call.Tool, side))
	case side == core.SideServer:
		e = h.callRemote(ctx, s, call)
	default:
		e = h.make(ctx, s, call, progress)
	}
	h.reader.lookAgain() // what was written before the answer came applies to the call that follows it
	switch {
	case e.err != nil:
		return nil, e.err
	case offeredCall(call):
		return s.redact.JSON(e.Raw), nil
	}
	return s.redact.JSON(e.Value), nil
}

// make makes a call of a server of this machine, after it has checked the rules
// and the server once more: both may have changed since the gates. Flows look at how it
// ended. Only an error is fit to be shown already; a tool that has failed comes with its
// raw result. Whatever stands before the call, its server's start too, is an error of a
// call that was not made.
func (h *Host) make(ctx context.Context, s *settings, call engine.Call, progress func(string)) ended {
	name, tool, _ := core.SplitTool(call.Tool)
	if deny := s.refused(call.Tool, name); deny != nil {
		return ended{err: deny}
	}
	srv := h.serverFor(name, call)
	ready, err := srv.prepare(ctx, s)
	if err == nil {
		ready, err = h.flows.listed(ctx, s, name, ready)
	}
	if err != nil {
		return ended{err: s.clean(err).WithNotMade()}
	}
	if ask := ready.stopped(tool); ask != nil {
		return ended{err: again(core.Errorf(core.CodePermissionDenied, "%s cannot be called now: %s", call.Tool, ask.Description))}
	}
	def, ok := ready.tools[tool]
	if !ok { // it went away meanwhile
		return ended{err: again(noSuchTool(call.Tool, slices.Sorted(maps.Keys(ready.tools))))}
	}
	hints := believed(def)
	if deny := s.denies(call, &hints); deny != nil {
		return ended{err: deny}
	}
	if err := h.flows.unmet(s, call, hints); err != nil {
		return ended{err: err}
	}
	e, ok := h.flows.given(call, def)
	switch {
	case ok:
	case name == core.AgentServer:
		e = started(ctx, call)
	default:
		e.plain = name == Builtin
		if e.Response, err = h.o.Upstream.Call(ctx, h.request(s, ready, tool, call, progress)); err != nil {
			e.err = h.notCalled(s, srv, ready, err)
		} else if !e.plain {
			e.fault = h.unlike(s, call, def, e.Raw, progress)
		}
	}
	e = h.flows.after(ctx, s, call, def, e)
	if e.err != nil && !isAgain(e.err) {
		e.err = s.clean(e.err)
	}
	return e
}

// started makes a call of pml's own server of agents, which starts a run.
func started(ctx context.Context, call engine.Call) ended {
	if call.Make == nil {
		return ended{err: core.Errorf(core.CodeInternal, "%s is not made as a call: it starts a run", core.Visible(call.Tool, 60, false)).WithNotMade()}
	}
	value, err := call.Make(ctx)
	if err != nil {
		return ended{err: err}
	}
	return ended{Response: upstream.Response{Value: value, Raw: value}, plain: true}
}

// request is a call as it is sent to its server.
func (h *Host) request(s *settings, ready readiness, tool string, call engine.Call, progress func(string)) upstream.Request {
	req := upstream.Request{
		Launch: ready.launch, Edition: ready.edition, Tool: tool, Args: call.Args, Owner: call.Owner, Timeout: s.granted.Limits.CallTimeout, Total: s.granted.Limits.CallTotal,
		Queued: call.Queued, Before: call.Before, Alive: func() { progress("") },
		Progress: func(message string, done, total float64) {
			progress(s.redact.String(progressText(message, done, total)))
		},
	}
	if req.Timeout == 0 { // none, which is configured
		req.Timeout = -1
	}
	g := h.clients.of(call.RunID)
	if g == nil {
		return req
	}
	req.Meta, req.Launch = g.Meta, launchFor(ready, g.Peer)
	told := req.Progress
	req.Progress = nil // as the client wants it
	if g.Progress != nil {
		req.Progress = func(message string, done, total float64) {
			told(message, done, total)
			g.Progress(s.redact.String(message), done, total)
		}
	}
	return req
}

// notCalled says why a call has failed; what stands in its way is asked for.
func (h *Host) notCalled(s *settings, srv *keeper, ready readiness, err error) error {
	cleaned := s.clean(err)
	// Nothing was called: what stands in the way is asked for.
	auth := authRequired(err)
	if auth != nil && ready.launch.Auth != nil {
		if err := h.connections.refreshFailure(ready.launch, auth); err != nil {
			return s.clean(err)
		}
		srv.refused.Store(auth)
		h.servers.forget(srv.name)
		return again(cleaned)
	}
	if errors.Is(err, upstream.ErrOtherEdition) { // what runs next is compared first
		return again(cleaned)
	}
	return cleaned
}

// progressText is what a person sees of a call that goes on: the server's own
// words or, without any, its numbers.
func progressText(message string, done, total float64) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	whole := func(f float64) bool { return f == math.Trunc(f) }
	switch {
	case message != "":
		return message
	case !(total > 0):
		return number(done)
	case whole(done) && whole(total):
		return number(done) + " of " + number(total)
	}
	return number(math.Round(100*done/total)) + " %"
}

// stopped is the question that has come up about a tool since it passed the
// gates, nil when there is none.
func (r readiness) stopped(tool string) *engine.Ask {
	if len(r.asks) > 0 {
		return &r.asks[0]
	}
	if ask, changed := r.changed[tool]; changed {
		return &ask
	}
	return nil
}

func isAgain(err error) bool {
	_, ok := errors.AsType[*engine.NotMadeError](err)
	return ok
}

// again makes an error of a call that was not made one that takes it back to
// its gates.
func again(e *core.Error) error { return &engine.NotMadeError{Reason: e} }
