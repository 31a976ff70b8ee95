package flow

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"slices"
	"time"
)

//go:embed templates/*.js
var scripts embed.FS

// Template is a flow to begin with. Most have a node of a type of the same name, whose
// script is part of pml.
type Template struct {
	Name string
	Does string
	// parameters is the JSON schema of its node; every one has a default.
	parameters string
	match      string // JSON
	variables  string // JSON
	nodes      []templateNode
}

// templateNode is a node of a template's flow.
type templateNode struct {
	id, kind, label string
	after           string // the node that leads to it; several for the end
	branch          string // of the condition that it comes after
	data            string // JSON members
	beside          bool   // nobody waits for it
}

const (
	writes = `{"where": "!annotations.read_only"}`
	reads  = `{"where": "annotations.read_only"}`
)

// outsidePath is the condition of approve-outside: whether a call names a path that is
// not below one of the folders, or no path at all.
const outsidePath = `((folders, names) => {
  const clean = (p) => p.replace(/^file:\/\//, "").replace(/\\/g, "/").split("/").reduce((at, part) =>
    part === "" && at.length || part === "." ? at : part === ".." ? (at.length && at.at(-1) !== ".." && at.at(-1) !== "" ? at.slice(0, -1) : [...at, ".."]) : [...at, part], []);
  const within = (p) => folders.some((f) => { const dir = clean(f), path = clean(p); return dir.every((part, i) => part === path[i]); });
  const found = [];
  const look = (v, named) => typeof v === "string" ? named && found.push(v)
    : Array.isArray(v) ? v.forEach((x) => look(x, named))
    : v && typeof v === "object" && Object.entries(v).forEach(([k, x]) => look(x, names.test(k)));
  look(context.request.params.arguments, false);
  return found.length === 0 || !found.every(within);
})(["docs"], /path|file|dir|folder|source|destination|^(from|to|uri)$/i)`

// tainted is the condition of taint.
const tainted = `(context.variables.tainted?.[context.metadata.clientId] ?? 0) > Date.now()`

// Templates are the flows that pml brings, in the order in which people look for them.
func Templates() []Template {
	return []Template{
		{
			Name: "approve-outside", Does: "asks a person before a write outside of a folder (docs)", match: writes,
			nodes: []templateNode{
				{id: "outside", kind: TypeCondition, label: "Outside of docs?", after: "start", data: `"condition": {"expression": ` + quote(outsidePath) + `}`},
				{id: "ask", kind: TypeApproval, label: "Ask a person", after: "outside", branch: "true", data: `"approval": {"message": "This writes outside of docs."}`},
				{id: "call-asked", kind: TypeCall, label: "Call", after: "ask"},
				{id: "call", kind: TypeCall, label: "Call", after: "outside", branch: "false"},
			},
		},
		before("block-pattern", "blocks calls whose arguments match a pattern", "",
			`{"pattern": {"type": "string", "default": "rm -rf|drop table|--force\\b"}, "message": {"type": "string", "default": "what it asks for is not allowed here"}}`),
		behind("redact-secrets", "takes keys and tokens out of results", "",
			`{"patterns": {"type": "array", "default": []}}`, ""),
		before("rate-limit", "blocks more than 30 calls of a tool in a minute", "",
			`{"limit": {"type": "integer", "default": 30}, "seconds": {"type": "integer", "default": 60}, "per": {"type": "string", "enum": ["tool", "server", "client", "all"], "default": "tool"}}`),
		{
			Name: "audit", Does: "writes every write, and how it ended, to the audit log", match: writes,
			parameters: `{"max_chars": {"type": "integer", "default": 300}}`,
			nodes: []templateNode{
				{id: "call", kind: TypeCall, label: "Call", after: "start"},
				{id: "note", kind: TypeTemplate + "audit", label: "Write to the audit log", after: "call", beside: true},
			},
		},
		{
			Name: "cache-reads", Does: "gives the result of the same read again for five minutes", match: reads,
			parameters: `{"seconds": {"type": "integer", "default": 300}}`,
			nodes: []templateNode{
				{id: "known", kind: TypeTemplate + "cache-reads", label: "Known?", after: "start"},
				{id: "call", kind: TypeCall, label: "Call", after: "known"},
				{id: "keep", kind: TypeTemplate + "cache-reads", label: "Keep", after: "call"},
			},
		},
		behind("cut-results", "cuts texts of results that are longer than an agent can use", "",
			`{"max_chars": {"type": "integer", "default": 20000}}`, `"scope": "agent"`),
		before("require-ticket", "blocks writes that name no ticket", writes,
			`{"pattern": {"type": "string", "default": "\\b[A-Z][A-Z0-9]+-[0-9]+\\b"}}`),
		before("office-hours", "blocks writes at night and on weekends", writes,
			`{"from": {"type": "number", "default": 8}, "to": {"type": "number", "default": 18}, "utc_offset": {"type": "number", "default": 0}, "weekend": {"type": "boolean", "default": false}}`),
		{
			Name: "taint", Does: "asks before writes of an agent that has read something from outside", variables: `{"tainted": {}}`,
			parameters: `{"outside": {"type": "array", "default": ["*fetch*", "*search*", "*browse*", "*crawl*", "*scrape*", "*issue*", "*email*", "*message*"]}, "seconds": {"type": "integer", "default": 3600}}`,
			nodes: []templateNode{
				{id: "writes", kind: TypeCondition, label: "A write?", after: "start", data: `"condition": {"where": "!annotations.read_only"}`},
				{id: "tainted", kind: TypeCondition, label: "Has it read from outside?", after: "writes", branch: "true", data: `"condition": {"expression": ` + quote(tainted) + `}`},
				{id: "ask", kind: TypeApproval, label: "Ask a person", after: "tainted", branch: "true", data: `"approval": {"message": "Whoever asks for this has read something from outside, which may have told it to."}`},
				{id: "call-asked", kind: TypeCall, label: "Call", after: "ask"},
				{id: "note-asked", kind: TypeTemplate + "taint", label: "From outside?", after: "call-asked"},
				{id: "call-write", kind: TypeCall, label: "Call", after: "tainted", branch: "false"},
				{id: "note-write", kind: TypeTemplate + "taint", label: "From outside?", after: "call-write"},
				{id: "call-read", kind: TypeCall, label: "Call", after: "writes", branch: "false"},
				{id: "note-read", kind: TypeTemplate + "taint", label: "From outside?", after: "call-read"},
			},
		},
	}
}

// before is a template with one node before the call, behind one with one after it.
func before(name, does, match, parameters string) Template {
	return Template{Name: name, Does: does, match: match, parameters: parameters, nodes: []templateNode{
		{id: "check", kind: TypeTemplate + name, label: name, after: "start"},
		{id: "call", kind: TypeCall, label: "Call", after: "check"},
	}}
}

func behind(name, does, match, parameters, data string) Template {
	return Template{Name: name, Does: does, match: match, parameters: parameters, nodes: []templateNode{
		{id: "call", kind: TypeCall, label: "Call", after: "start"},
		{id: "change", kind: TypeTemplate + name, label: name, after: "call", data: data},
	}}
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// builtin are the node manifests that are part of pml.
func builtin() map[string]*Manifest {
	out := map[string]*Manifest{}
	for _, t := range Templates() {
		if t.parameters == "" {
			continue
		}
		script, err := scripts.ReadFile("templates/" + t.Name + ".js")
		if err != nil {
			panic(err) // a test reads all of them
		}
		out[t.Name] = &Manifest{
			Name: t.Name, Version: "1", Description: t.Does, Script: string(script), Blocking: true,
			Parameters: json.RawMessage(`{"type": "object", "properties": ` + t.parameters + `}`),
		}
	}
	return out
}

// The members of a new flow's file, in the order in which it has them.
type (
	newFlow struct {
		ID          string          `json:"id"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Type        string          `json:"workflowType"`
		Enabled     bool            `json:"enabled"`
		Mode        Mode            `json:"mode"`
		Match       json.RawMessage `json:"match"`
		Variables   json.RawMessage `json:"variables,omitempty"`
		Nodes       []newNode       `json:"nodes"`
		Edges       []newEdge       `json:"edges"`
		CreatedAt   int64           `json:"createdAt"`
		UpdatedAt   int64           `json:"updatedAt"`
	}
	newNode struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Position Position        `json:"position"`
		Data     json.RawMessage `json:"data"`
	}
	newEdge struct {
		ID     string `json:"id"`
		Source string `json:"source"`
		Target string `json:"target"`
		Label  string `json:"label,omitempty"`
	}
)

// Flow is the file of a flow with an id of its own, made from the template. It is
// disabled.
func (t Template) Flow(id, name string, now time.Time) []byte {
	type member = json.RawMessage
	file := newFlow{
		ID: id, Name: name, Description: "It " + t.Does + ".", Type: CallTool, Mode: Enforce,
		Match: member(cmp.Or(t.match, "{}")), CreatedAt: now.UnixMilli(), UpdatedAt: now.UnixMilli(),
	}
	if t.variables != "" {
		file.Variables = member(t.variables)
	}
	at := map[string]Position{"start": {}}
	join := func(from, to, label string) {
		file.Edges = append(file.Edges, newEdge{from + "-" + to, from, to, label})
	}
	file.Nodes = append(file.Nodes, newNode{"start", TypeStart, Position{}, member(`{"label": "Start"}`)})
	right := 0.0
	for _, n := range t.nodes {
		pos := Position{at[n.after].X + 220, at[n.after].Y}
		if n.branch == "false" || n.beside {
			pos.Y += 140
		}
		at[n.id], right = pos, max(right, pos.X)
		data := `{"label": ` + quote(n.label)
		if n.beside {
			data += `, "blocking": false`
		}
		if len(t.parameters) > 0 && n.kind == TypeTemplate+t.Name {
			data += `, "parameters": ` + t.defaults()
		}
		if n.data != "" {
			data += ", " + n.data
		}
		file.Nodes = append(file.Nodes, newNode{n.id, n.kind, pos, member(data + "}")})
		join(n.after, n.id, n.branch)
	}
	for _, n := range t.nodes {
		if !n.beside && !slices.ContainsFunc(t.nodes, func(m templateNode) bool { return m.after == n.id && !m.beside }) {
			join(n.id, "end", "")
		}
	}
	file.Nodes = append(file.Nodes, newNode{"end", TypeEnd, Position{right + 220, 0}, member(`{"label": "End"}`)})
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(file); err != nil {
		panic(err) // a test writes all of them
	}
	return b.Bytes()
}

// defaults are the parameters of the template as a flow begins with them.
func (t Template) defaults() string {
	var s struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	_ = json.Unmarshal([]byte(`{"properties": `+t.parameters+`}`), &s)
	values := map[string]json.RawMessage{}
	for name, p := range s.Properties {
		values[name] = p.Default
	}
	raw, _ := json.Marshal(values)
	return string(raw)
}
