package flow

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/where"
)

// The bounds of a flow.
const (
	maxNodes  = 500
	maxScript = 1 << 20 // bytes
)

// validate finds all faults of a flow and compiles what it needs to run.
func (f *Flow) validate() {
	f.graph = graphOf(f)
	if f.unread {
		return // nothing is known of it
	}
	f.checkHead()
	f.checkMatch()
	if len(f.Nodes) > maxNodes {
		f.fault("/nodes", "has %d nodes; at most %d are allowed", len(f.Nodes), maxNodes)
		return
	}
	seen := map[string]bool{}
	for i, n := range f.Nodes {
		at := "/nodes/" + strconv.Itoa(i)
		switch {
		case n.ID == "":
			f.fault(at, "a node has no id")
			continue
		case seen[n.ID]:
			f.nodeFault(n, at, "another node has this id")
			continue
		}
		seen[n.ID] = true
		f.checkNode(n, at)
	}
	f.checkEdges()
	f.checkPaths()
}

func (f *Flow) checkHead() {
	if f.ID == "" {
		f.fault("/id", "a flow needs an id")
	}
	if strings.TrimSpace(f.Name) == "" {
		f.fault("/name", "a flow needs a name")
	}
	if f.Type != CallTool && f.Type != ListTools {
		f.fault("/workflowType", "must be %s or %s, not %s", CallTool, ListTools, quoted(f.Type))
	}
	if f.Mode != Enforce && f.Mode != Audit {
		f.fault("/mode", "must be %s or %s, not %s", Enforce, Audit, quoted(string(f.Mode)))
	}
	for i, tool := range f.Uses {
		if _, _, ok := core.SplitTool(tool); !ok {
			f.fault("/uses/"+strconv.Itoa(i), "must be a tool (server:tool), not %s", quoted(tool))
		}
	}
}

func (f *Flow) checkMatch() {
	if f.Type == ListTools && (len(f.Match.Tool) > 0 || f.Match.Where != "") {
		f.fault("/match", "a flow of %s is about the list of a server, which has no tool and no arguments; it can match server and client", ListTools)
	} else if f.Match.Where != "" {
		f.match.where = f.compile("/match/where", f.Match.Where, where.Request, nil)
	}
}

// compile compiles an expression, whose faults are those of the flow, or of a node.
func (f *Flow) compile(at, text string, phase where.Phase, n *Node) *expression {
	e, err := where.Compile(text, phase)
	if err == nil {
		return &expression{e}
	}
	faults := core.AsError(err).Faults
	if len(faults) == 0 {
		faults = []core.Fault{{Message: core.AsError(err).Message}}
	}
	for _, fault := range faults {
		message := fault.Message
		if fault.At != nil {
			message = "at " + strconv.Itoa(fault.At.Line) + ":" + strconv.Itoa(fault.At.Column) + " of the expression: " + message
		}
		if n == nil {
			f.fault(at, "%s", message)
		} else {
			f.nodeFault(n, at, "%s", message)
		}
	}
	return nil
}

// checkNode checks what stands in one node.
func (f *Flow) checkNode(n *Node, at string) {
	data := at + "/data"
	fault := func(at, format string, args ...any) { f.nodeFault(n, at, format, args...) }
	if d := n.Data.TimeoutMS; d < 0 || d > int(MaxTimeout.Milliseconds()) {
		fault(data+"/timeoutMs", "must be between 1 and %d", MaxTimeout.Milliseconds())
	}
	if n.Data.FailOpen && n.Blocking() && f.Mode != Audit {
		fault(data+"/failOpen", "the call waits for this node, so it cannot fail open; it can in audit mode, or with blocking false")
	}
	switch s := n.Data.Scope; {
	case s != "" && s != ScopeProgram && s != ScopeAgent:
		fault(data+"/scope", "must be %s or %s, not %s", ScopeProgram, ScopeAgent, quoted(s))
	case s == ScopeAgent && !f.graph.behind[n.ID]:
		fault(data+"/scope", "only a node behind the mcp-call has a result to change for the agent")
	}
	switch n.Type {
	case TypeStart, TypeEnd, TypeCall:
	case TypeHook:
		f.checkHook(n, data)
	case TypeCondition:
		f.checkCondition(n, data)
	case TypeSet:
		f.checkSet(n, data+"/set")
	case TypeApproval:
		if n.Data.Approval == nil {
			n.Data.Approval = &Question{}
		}
		if f.Type == ListTools {
			fault(at+"/type", "the list of a server's tools is not asked about")
		}
	case TypeCommand, TypeHTTP:
		f.checkProgram(n, at)
	default:
		f.checkTemplate(n, at)
	}
}

func (f *Flow) checkHook(n *Node, data string) {
	switch h := n.Data.Hook; {
	case h == nil:
		f.nodeFault(n, data, "a hook needs data.hook with a script or a hookModuleId")
	case strings.TrimSpace(n.Script) == "" && h.Module == "":
		f.nodeFault(n, data+"/hook", "the hook has no script")
	case len(n.Script) > maxScript:
		f.nodeFault(n, data+"/hook", "the script has %d bytes; at most %d are allowed", len(n.Script), maxScript)
	}
}

func (f *Flow) checkCondition(n *Node, data string) {
	c := n.Data.Condition
	if c == nil || (c.Where == "") == (c.Expression == "") {
		f.nodeFault(n, data+"/condition", "a condition needs either where (an expression) or expression (JavaScript)")
		return
	}
	if c.Where != "" {
		phase := where.Request
		if f.graph.behind[n.ID] {
			phase = where.Response
		}
		n.condition = f.compile(data+"/condition/where", c.Where, phase, n)
	}
}

func (f *Flow) checkSet(n *Node, at string) {
	s := n.Data.Set
	if s == nil || s.Name == "" {
		f.nodeFault(n, at, "a set node needs set.name")
		return
	}
	if (len(s.Value) == 0) == (s.Expression == "") {
		f.nodeFault(n, at, "a set node needs either value or expression (JavaScript)")
	}
	if !slices.Contains([]string{"", "run", "flow"}, s.Scope) {
		f.nodeFault(n, at+"/scope", "must be run or flow, not %s", quoted(s.Scope))
	}
	if !slices.Contains([]string{"", "put", "add", "append"}, s.Op) {
		f.nodeFault(n, at+"/op", "must be put, add or append, not %s", quoted(s.Op))
	}
	var number float64
	if s.Op == "add" && len(s.Value) > 0 && json.Unmarshal(s.Value, &number) != nil {
		f.nodeFault(n, at+"/value", "must be a number to be added")
	}
}

func (f *Flow) checkProgram(n *Node, at string) {
	switch {
	case f.Type == ListTools:
		f.nodeFault(n, at+"/type", "the hook protocol of agent hosts knows calls only; a flow of %s can run hooks", ListTools)
	case n.Type == TypeCommand && (n.Data.Command == nil || strings.TrimSpace(n.Data.Command.Command) == ""):
		f.nodeFault(n, at+"/data/command", "a command node needs command.command")
	case n.Type == TypeHTTP:
		h := n.Data.HTTP
		u, err := url.Parse("")
		if h != nil {
			u, err = url.Parse(h.URL)
		}
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			f.nodeFault(n, at+"/data/http", "an http node needs http.url that begins with https:// or http://")
		}
	}
}

// checkTemplate checks a node whose type is none of pml's own; that there is no
// manifest bind has said.
func (f *Flow) checkTemplate(n *Node, at string) {
	if !strings.HasPrefix(n.Type, TypeTemplate) {
		known := []string{TypeStart, TypeEnd, TypeCall, TypeHook, TypeCondition, TypeSet, TypeApproval, TypeCommand, TypeHTTP}
		f.nodeFault(n, at+"/type", "there is no type of node %s%s; types are %s and template:<name>", quoted(n.Type), core.Suggest(n.Type, known), strings.Join(known, ", "))
		return
	}
	if n.Manifest == nil {
		return
	}
	if strings.TrimSpace(n.Script) == "" {
		f.nodeFault(n, at+"/type", "the manifest %s has no script", quoted(n.Manifest.Name))
	}
	var wrong []string
	n.Parameters, wrong = n.Manifest.parameters(n.Data.Parameters)
	for _, message := range wrong {
		f.nodeFault(n, at+"/data/parameters", "%s", message)
	}
}
