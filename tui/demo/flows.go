package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/tui/state"
)

// demoFlows are the files of the demo's flows: one of the workspace that trims uploads
// and asks about mails, and one of the home that has a fault.
var demoFlows = map[string]string{
	"mails.json": `{
  "id": "mails", "name": "Ask before mails leave", "description": "Mails to more than one person wait for you.", "workflowType": "tools/call", "enabled": true,
  "match": {"tool": "send"},
  "nodes": [
    {"id": "start", "type": "start", "position": {"x": 0, "y": 0}, "data": {"label": "Start"}},
    {"id": "block", "type": "hook", "position": {"x": 200, "y": 0}, "data": {"label": "No lists", "hook": {"id": "block", "script": "const {to} = context.request.params.arguments\nconsole.log('to ' + to)\nif (to.startsWith('everyone@')) return {block: {code: 'list', message: to + ' is a list'}}", "blocking": true}}},
    {"id": "inside", "type": "condition", "position": {"x": 400, "y": 0}, "data": {"label": "To us?", "condition": {"where": "args.to.endsWith('@example.com')"}}},
    {"id": "ask", "type": "approval", "position": {"x": 600, "y": 100}, "data": {"label": "Ask me", "approval": {"message": "A mail leaves the house."}}},
    {"id": "call", "type": "mcp-call", "position": {"x": 600, "y": 0}, "data": {"label": "Send"}},
    {"id": "call-asked", "type": "mcp-call", "position": {"x": 800, "y": 100}, "data": {"label": "Send, asked"}},
    {"id": "log", "type": "hook", "position": {"x": 800, "y": 0}, "data": {"label": "Log", "hook": {"id": "log", "script": "console.log('sent')", "blocking": false}}},
    {"id": "end", "type": "end", "position": {"x": 1000, "y": 0}, "data": {"label": "End"}}
  ],
  "edges": [
    {"source": "start", "target": "block"}, {"source": "block", "target": "inside"},
    {"source": "inside", "target": "call", "label": "true"}, {"source": "inside", "target": "ask", "label": "false"},
    {"source": "ask", "target": "call-asked"}, {"source": "call", "target": "log"}, {"source": "call", "target": "end"}, {"source": "call-asked", "target": "end"}
  ]
}
`,
	"uploads.json": `{
  "id": "uploads", "name": "Tidy uploads", "workflowType": "tools/call", "enabled": true, "mode": "audit", "match": {"tool": "put_object"},
  "nodes": [
    {"id": "start", "type": "start", "position": {"x": 0, "y": 0}, "data": {"label": "Start"}},
    {"id": "tidy", "type": "hook", "position": {"x": 200, "y": 0}, "data": {"label": "Tidy", "hook": {"id": "tidy", "script": "return {params: {arguments: {...context.request.params.arguments, acl: 'private'}}}", "blocking": true}}},
    {"id": "call", "type": "mcp-call", "position": {"x": 400, "y": 0}, "data": {"label": "Upload"}},
    {"id": "end", "type": "end", "position": {"x": 600, "y": 0}, "data": {"label": "End"}}
  ],
  "edges": [{"source": "start", "target": "tidy"}, {"source": "tidy", "target": "call"}, {"source": "call", "target": "end"}]
}
`,
}

// files are the demo's flows as they are now.
func (b *Backend) files() map[string][]byte {
	if b.flows == nil {
		b.flows = map[string][]byte{}
		for name, text := range demoFlows {
			b.flows[name] = []byte(text)
		}
	}
	return b.flows
}

// ReadFlows are the flows of the demo and what they did.
func (b *Backend) ReadFlows(context.Context) (state.Flows, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	read := state.Flows{Workspace: flow.Parse(b.files(), false), Dir: "/home/you/src/shop", Trusted: true, Runs: map[core.FlowKey][]core.FlowRun{}}
	for _, run := range b.script.flowRuns() {
		read.Runs[run.Key()] = append(read.Runs[run.Key()], run)
	}
	return read, nil
}

// CallFlowRuns are what flows did with a call.
func (b *Backend) CallFlowRuns(_ context.Context, run core.ID, call string) (out []core.FlowRun, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.script.flowRuns() {
		if r.RunID == run && r.CallID == call {
			out = append(out, r)
		}
	}
	return out, nil
}

// TryFlow needs the sandbox, which the demo has not.
func (b *Backend) TryFlow(context.Context, state.FlowFile, []byte, state.FlowCall) (state.FlowTried, error) {
	return state.FlowTried{}, core.Errorf(core.CodeInvalidArguments, "the demo runs no scripts; pml tui in a folder of yours tests flows")
}

// SaveFlow keeps a flow for as long as the demo runs.
func (b *Backend) SaveFlow(_ context.Context, file state.FlowFile, text, was []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if string(b.files()[file.Name]) != string(was) {
		return core.Errorf(core.CodeInvalidConfig, "the flow has changed meanwhile")
	}
	b.flows[file.Name] = text
	return nil
}

// EnableFlow enables or disables a flow of the demo.
func (b *Backend) EnableFlow(_ context.Context, file state.FlowFile, enable bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := string(b.files()[file.Name])
	b.flows[file.Name] = []byte(strings.Replace(text, fmt.Sprintf(`"enabled": %t`, !enable), fmt.Sprintf(`"enabled": %t`, enable), 1))
	return nil
}

// flowRuns are the flow runs of calls that the demo has made before it began.
func (s *script) flowRuns() (out []core.FlowRun) {
	of := func(flowID, name string, runOf, call, tool string, state core.FlowState, nodes ...core.FlowNodeRun) core.FlowRun {
		r := core.FlowRun{ID: idOf("flow" + runOf), Flow: flowID, Name: name, Workspace: "/home/you/src/shop", CallID: call, Tool: tool, State: state, Nodes: nodes, StartedAt: s.began.Add(-20 * time.Minute)}
		for _, n := range nodes {
			r.DurationUS += n.DurationUS
		}
		for id, run := range s.runs {
			if run.name == runOf {
				r.RunID, r.StartedAt = id, run.CreatedAt
			}
		}
		return r
	}
	node := func(id, typ string, us int64) core.FlowNodeRun {
		return core.FlowNodeRun{Node: id, Type: typ, State: core.FlowOK, StartedAt: s.began, DurationUS: us}
	}
	block := node("block", flow.TypeHook, 1840)
	block.State, block.Reason, block.Console = core.FlowBlocked, "everyone@example.com is a list", []string{"to everyone@example.com"}
	blocked := of("mails", "Ask before mails leave", "mass-email", "send", "mail:send", core.FlowBlocked, block)
	blocked.Node, blocked.Reason = "block", block.Reason
	tidy := node("tidy", flow.TypeHook, 2260)
	tidy.Change = &core.FlowChange{Before: hashOf("before"), After: hashOf("after"), Diff: "+  \"acl\": \"private\",\n   \"bucket\": \"backups\"\n"}
	changed := of("uploads", "Tidy uploads", "backup-s3", "upload", "s3:put_object", core.FlowOK, tidy, node("call", flow.TypeCall, 0), node("end", flow.TypeEnd, 0))
	changed.Audit = true
	return []core.FlowRun{blocked, changed}
}
