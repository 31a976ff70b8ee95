package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// Tool is what a fake tool does.
type Tool struct {
	ReadOnly bool
	// Ask makes its calls need a permission.
	Ask bool
	// Deny rejects its calls.
	Deny *core.Error
	// Run makes a call; nil: it returns its arguments.
	Run func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
}

// Host is a workspace of fake tools that counts what is called. It outlives
// engines, as the world does.
type Host struct {
	Once func(engine.Call) bool // nil: no question is asked each time
	Asks string                 // added to the digest of a permission that is asked for
	Risk core.Risk              // of it
	// RiskOf is the risk of a call, in the place of Risk.
	RiskOf func(engine.Call) core.Risk
	// Mu guards Tools and Needs once engines run.
	Mu    sync.Mutex
	Tools map[string]Tool
	log   []string
	// Slow makes Try decline, so that every check goes the long way.
	Slow bool
	// Needs are servers that need an installation; Apply fulfils it.
	Needs    map[string]bool
	ApplyErr error
	Applied  []string // permissions to remember, and how
	OnCall   func(call engine.Call)
	// Flow, when set, is what hook flows make of a call before it is judged.
	Flow func(call engine.Call) (core.Passage, *core.Error)
	// NotAnswered are the calls of which flows were told that they have no answer.
	NotAnswered []string
	OnApply     func()
}

// Try implements engine.Host.
func (h *Host) Try(call engine.Call) (engine.Verdict, bool) {
	if h.Slow || h.meets(call) {
		return engine.Verdict{}, false
	}
	return h.verdict(call), true
}

func (h *Host) meets(call engine.Call) bool {
	return h.Flow != nil && call.Passage == nil && !call.Planned
}

// Check implements engine.Host.
func (h *Host) Check(_ context.Context, call engine.Call) engine.Verdict {
	if !h.meets(call) {
		return h.verdict(call)
	}
	p, deny := h.Flow(call)
	if deny != nil {
		return engine.Verdict{Deny: deny}
	}
	if len(p.Flows) == 0 { // none matches
		return h.verdict(call)
	}
	call.Passage = &p
	if len(p.Args) > 0 {
		call.Args = p.Args
		call.Digest, _ = core.Digest(p.Args)
	}
	v := h.verdict(call)
	v.Passage = &p
	return v
}

// Unanswered implements engine.Passing.
func (h *Host) Unanswered(call engine.Call, err *core.Error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.NotAnswered = append(h.NotAnswered, call.Tool+string(call.Args)+" "+call.Passage.Flows[0].Flow+" "+string(err.Code))
}

func (h *Host) verdict(call engine.Call) engine.Verdict {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	server, _, _ := core.SplitTool(call.Tool)
	var v engine.Verdict
	if h.Needs[server] {
		v.Ask = append(v.Ask, engine.Ask{
			Type: core.ApproveDependency, Subject: server, Tool: server, Digest: "pkg:" + server, Description: "install " + server,
		})
	}
	t, ok := h.Tools[call.Tool]
	if !ok {
		return engine.Verdict{Deny: core.Errorf(core.CodeNoSuchTool, "there is no tool %s", call.Tool)}
	}
	v.Side = core.SideClient
	v.Known, v.ReadOnly, v.Repeatable = true, t.ReadOnly, t.ReadOnly
	v.Deny = t.Deny
	byFlow := call.Passage != nil && len(call.Passage.Asks) > 0
	risk := h.Risk
	if h.RiskOf != nil {
		risk = h.RiskOf(call)
	}
	if (t.Ask || byFlow) && !(call.Planned && h.Flow != nil) {
		v.Ask = append(v.Ask, engine.Ask{
			Type: core.ApproveTool, Subject: call.Tool + "#" + call.Digest, Tool: call.Tool, Digest: call.Digest + h.Asks, Risk: risk, Description: "allow " + call.Tool,
			Context: map[string]any{"arguments": call.Args},
			Once:    h.Once != nil && h.Once(call) || byFlow,
		})
	}
	return v
}

// Allows makes a tool one that nobody is asked about.
func (h *Host) Allows(name string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	t := h.Tools[name]
	t.Ask = false
	h.Tools[name] = t
}

// Refuse makes a tool one whose calls are rejected; nil: not any more.
func (h *Host) Refuse(name string, err *core.Error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	t := h.Tools[name]
	t.Deny = err
	h.Tools[name] = t
}

// Apply implements engine.Host.
func (h *Host) Apply(_ context.Context, a core.Approval, _ func(string)) error {
	if h.OnApply != nil {
		h.OnApply()
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if a.Type == core.ApproveTool && a.Answer != nil {
		h.Applied = append(h.Applied, a.Tool+" "+string(a.Answer.Remember))
	}
	if h.ApplyErr != nil {
		return h.ApplyErr
	}
	delete(h.Needs, a.Subject)
	return nil
}

// MayPrompt asks for the key of a model as long as that is among the needs.
func (h *Host) MayPrompt(_ context.Context, _ core.Run, name string) (string, engine.Verdict) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	v := engine.Verdict{Known: true, ReadOnly: true, Repeatable: true}
	if h.Needs[core.ModelTool] {
		v.Ask = []engine.Ask{{Type: core.ApproveKeys, Subject: core.ModelTool, Tool: core.ModelTool + "/host", Risk: core.RiskLow, Digest: "key", Description: "The model " + name + " needs KEY."}}
	}
	return "", v
}

// Call implements engine.Host.
func (h *Host) Call(ctx context.Context, call engine.Call, _ func(string)) (json.RawMessage, error) {
	h.Mu.Lock()
	if call.Make == nil {
		h.log = append(h.log, fmt.Sprintf("%s%s", call.Tool, call.Args))
	}
	t, hook := h.Tools[call.Tool], h.OnCall
	h.Mu.Unlock()
	if hook != nil {
		hook(call)
	}
	if call.Side != core.SideClient { // that it was judged for
		return nil, core.Errorf(core.CodeInternal, "%s is made for %q", call.Tool, call.Side)
	}
	switch {
	case t.Run != nil:
		return t.Run(ctx, call.Args)
	case call.Make != nil:
		return call.Make(ctx)
	}
	return call.Args, nil
}

// Called are the calls that were made, in order, each as its tool and its arguments.
func (h *Host) Called() []string {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return append([]string{}, h.log...)
}

// NewHost is a workspace with two servers and the agents' one: a has tools that read, write,
// need a permission and fail.
func NewHost() *Host {
	return &Host{Tools: map[string]Tool{
		"a:read":  {ReadOnly: true},
		"a:write": {},
		"a:ask":   {Ask: true},
		"a:fail": {Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, core.Errorf(core.CodeToolFailed, "it failed")
		}},
		"b:read": {ReadOnly: true},

		"agent:delegate": {}, "agent:decide": {ReadOnly: true},
	}, Needs: map[string]bool{}}
}
