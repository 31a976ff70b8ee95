// Package flow is the format of hook flows: small graphs of rules and programs that
// look at a tool call before it is made and at its answer. The package reads, checks
// and walks flows; it starts nothing, and touches no file. Package hook executes the
// nodes, package gate is where calls meet flows.
//
// The format goes back to the decision record "MCP Workflow System Architecture";
// docs/flows.md describes it.
package flow

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// The kinds of request that a flow can be about.
const (
	CallTool  = "tools/call"
	ListTools = "tools/list"
)

// Mode says whether a flow decides.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Audit   Mode = "audit" // it runs on copies and changes nothing
)

// The types of node. A type that begins with TypeTemplate names a manifest.
const (
	TypeStart     = "start"
	TypeEnd       = "end"
	TypeCall      = "mcp-call"
	TypeHook      = "hook"
	TypeCondition = "condition"
	TypeSet       = "set"
	TypeApproval  = "approval"
	TypeCommand   = "command"
	TypeHTTP      = "http"
	TypeTemplate  = "template:"
)

// Flow is one flow as its file has it, with what is wrong with it.
type Flow struct {
	ID          string
	Name        string
	Description string
	// Type is the kind of request: CallTool or ListTools (workflowType).
	Type    string
	Nodes   []*Node
	Edges   []*Edge
	Enabled bool
	// CreatedAt and UpdatedAt are milliseconds since 1970.
	CreatedAt, UpdatedAt int64
	Match                Match
	Priority             int // lower runs first
	Mode                 Mode
	// Variables are the first values of the flow's variables.
	Variables map[string]json.RawMessage
	// Uses lists the tools that effects of its hooks may call.
	Uses []string

	// File is its path within the folder of flows; Home is set for the home's folder.
	File string
	Home bool
	// Digest covers its file and the modules and manifests that it uses.
	Digest string
	// Faults are all that is wrong with it; a flow that has any refuses the calls that
	// it may match.
	Faults []core.Fault

	unread    bool                     // what its file says is not known
	text      []byte                   // of its file
	positions map[string]core.Position // of its values, by JSON pointer
	match     matcher
	graph     graph
}

// Node is one step of a flow.
type Node struct {
	ID        string
	Type      string
	Position  Position
	Data      Data
	Deletable *bool

	// Script is what a hook or template node runs: its own, its module's or its
	// manifest's.
	Script string
	// Manifest is that of a template node, Parameters are the node's with its defaults.
	Manifest   *Manifest
	Parameters json.RawMessage

	condition *expression
}

// Position is where an editor draws a node, in pixels.
type Position struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Data is what a node does. Of the pointers the one of its type is set.
type Data struct {
	Label     string
	Hook      *Hook
	Condition *Condition
	Set       *Assignment
	Approval  *Question
	Command   *Command
	HTTP      *HTTP
	// Parameters are those of a template node; they fit its manifest's schema.
	Parameters json.RawMessage
	// Blocking says whether the call waits for a command, http or template node; nil:
	// it does. A hook says so itself.
	Blocking *bool
	// TimeoutMS bounds one execution of the node; 0: DefaultTimeout.
	TimeoutMS int
	// Scope says who gets a changed result: ScopeProgram (or empty) or ScopeAgent.
	Scope string
	// FailOpen lets the call go on when the node is broken; in audit mode and for nodes
	// that nobody waits for only.
	FailOpen bool
}

// Who gets a changed result.
const (
	ScopeProgram = "program" // the script that made the call, and all behind it
	ScopeAgent   = "agent"   // only what an agent is given in the end
)

// The bounds of one execution of a node. Only race builds, in which scripts are many times
// slower, have a raceFactor above 1.
const (
	DefaultTimeout = raceFactor * 5 * time.Second
	MaxTimeout     = time.Minute
)

// Hook is a script, in the node itself or in a module.
type Hook struct {
	ID       string
	Module   string // hookModuleId
	Script   string
	Blocking bool
}

// Condition leads along the edges that are labelled true or false: by Where, an
// expression (package where), or by Expression, JavaScript over the context.
type Condition struct {
	Where      string `json:"where,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// Assignment gives a variable a value: Value, or what Expression gives, which is
// JavaScript over the context.
type Assignment struct {
	Name string `json:"name"`
	// Scope is "run" (or empty), or "flow" for a variable that is kept.
	Scope string `json:"scope,omitempty"`
	// Op is "put" (or empty), "add" to a number, or "append" to a list.
	Op         string          `json:"op,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	Expression string          `json:"expression,omitempty"`
}

// Question is what an approval node asks a person.
type Question struct {
	Message string `json:"message,omitempty"`
}

// Command is a program that speaks the hook protocol of agent hosts.
type Command struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// The variables of command lines: the workspace, by the name that hosts give it, and the
// folder of pml's home, in flows of the home.
const (
	WorkspaceVariable = "CLAUDE_PROJECT_DIR"
	HomeVariable      = "PML_HOME"
)

// CommandLine is what a command node of the flow starts, in the folder of the workspace.
// The relative path of a program is one of the workspace; that of a flow of the home is
// one of the home.
func (f *Flow) CommandLine(c *Command, workspace, home string) []string {
	variables := []string{"${" + WorkspaceVariable + "}", workspace}
	if f.Home {
		variables = append(variables, "${"+HomeVariable+"}", home)
	}
	fill := strings.NewReplacer(variables...)
	line := []string{fill.Replace(c.Command)}
	if f.Home && strings.ContainsAny(line[0], `/\`) && !filepath.IsAbs(line[0]) {
		line[0] = filepath.Join(home, line[0])
	}
	for _, arg := range c.Args {
		line = append(line, fill.Replace(arg))
	}
	return line
}

// HTTP is a URL that speaks the hook protocol of agent hosts.
type HTTP struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Edge leads from a node to the next one. Label is "true" or "false" behind a
// condition.
type Edge struct {
	ID     string
	Source string
	Target string
	Label  string
}

// Match says which calls meet a flow: globs in which * is any text and ? any
// character, in any case, and an expression. What is empty matches all.
type Match struct {
	Server, Tool, Client []string
	Where                string
}

// Module is a script that flows share (modules/*.json).
type Module struct {
	ID          string
	Name        string
	Version     string
	Description string
	Script      string
	File        string
}

// Manifest is a kind of node that somebody has written (nodes/*.json): a node of the
// type "template:<name>" runs its script with parameters that fit its schema.
type Manifest struct {
	Name        string
	Version     string
	Description string
	Parameters  json.RawMessage // a JSON schema; empty: none
	Script      string
	Blocking    bool
	File        string // empty: it is part of pml
}

// Blocking reports whether the call waits for a node. Nodes that it does not wait for
// hang off the path and lead nowhere.
func (n *Node) Blocking() bool {
	switch {
	case n.Type == TypeHook:
		return n.Data.Hook == nil || n.Data.Hook.Blocking
	case n.Type == TypeCommand || n.Type == TypeHTTP || strings.HasPrefix(n.Type, TypeTemplate):
		if n.Data.Blocking == nil && n.Manifest != nil {
			return n.Manifest.Blocking
		}
		return n.Data.Blocking == nil || *n.Data.Blocking
	}
	return true
}

// Timeout bounds one execution of a node.
func (n *Node) Timeout() time.Duration {
	if n.Data.TimeoutMS <= 0 {
		return DefaultTimeout
	}
	return min(time.Duration(n.Data.TimeoutMS)*time.Millisecond, MaxTimeout)
}

// Node returns the node with an id, nil when there is none.
func (f *Flow) Node(id string) *Node { return f.graph.nodes[id] }

// Request is a tool call as flows see it.
type Request struct {
	// RunID and CallID say which run makes the call.
	RunID  core.ID
	CallID string
	// Tool is server:tool; for ListTools it is the server alone.
	Tool string
	Args json.RawMessage
	// Annotations are those of the tool that pml believes; empty while the tool is not
	// known yet.
	Annotations core.Annotations
	// Client is the name of the agent's host, "cli", "run:<id>" for scripts, or
	// "agent:<root>"; Owner is the person or the key.
	Client    string
	Owner     string
	Workspace string
	Run       RunInfo
}

// RunInfo is what flows may know of the run that makes a call.
type RunInfo struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Depth int    `json:"depth"`
}

// Answer is how a call ended: the server's own result (an MCP CallToolResult), or why
// there is none.
type Answer struct {
	Result json.RawMessage
	Err    *core.Error
	// Agent is given to an agent in place of Result; empty: Result.
	Agent json.RawMessage
}
