package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The bounds of an answer of search_tools.
const (
	foundTools = 5        // unless the client says how many
	mostFound  = 8        // however many it says
	mostBytes  = 48 << 10 // of definitions; a tool that does not fit is named without its schema
)

// searchTools are listed instead of the tools that are found by search.
var searchTools = []api.OfferedTool{
	{Name: api.SearchTools, Definition: json.RawMessage(`{
"name": "search_tools",
"title": "Find tools",
"description": "Find tools of the connected MCP servers by what they are to do, in words, or by name. Each is returned with its input schema; call it with call_tool.",
"inputSchema": {"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
"query": {"type": "string", "minLength": 1, "description": "What is wanted, e.g. \"create a GitHub issue\"; or a name (server:tool), or a server's name to list its tools."},
"limit": {"type": "integer", "minimum": 1, "maximum": 8, "default": 5}}},
"annotations": {"readOnlyHint": true, "openWorldHint": false}}`)},
	{Name: api.CallTool, Definition: json.RawMessage(`{
"name": "call_tool",
"title": "Call a tool",
"description": "Call a tool that search_tools has found. The result is the tool's own.",
"inputSchema": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
"name": {"type": "string", "minLength": 1, "description": "server:tool, as search_tools names it."},
"arguments": {"type": "object", "description": "What the tool's input schema asks for."}}}}`)},
}

// search answers search_tools. A call of call_tool becomes that of the tool that it names,
// and done is false; so it is where nothing is found by search.
func (v *view) search(ctx context.Context, call *api.OfferedCall) (result api.OfferedResult, done bool, err error) {
	servers, err := v.servers(ctx, v.g.o.Wait)
	if err != nil {
		return result, true, err
	}
	offer := v.tell(servers, false)
	if !offer.Search {
		return result, false, nil
	}
	if call.Name == api.CallTool {
		var in struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := strict(call.Args, &in); err != nil || in.Name == "" {
			return result, true, wrongArguments(api.CallTool, `{"name": "server:tool", "arguments": {…}}`, err)
		}
		if in.Name == api.SearchTools || in.Name == api.CallTool {
			return result, true, core.Errorf(core.CodeNoSuchTool, "%s calls tools that %s has found, and not itself", api.CallTool, api.SearchTools)
		}
		call.Name, call.Args = in.Name, in.Arguments
		return result, false, nil
	}
	var in struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}
	if err := strict(call.Args, &in); err != nil || strings.TrimSpace(in.Query) == "" || in.Limit < 0 {
		return result, true, wrongArguments(api.SearchTools, `{"query": "what is wanted"}`, err)
	}
	raw, err := v.foundBy(in.Query, in.Limit, offer.Found, servers)
	return api.OfferedResult{Raw: raw}, true, err
}

// strict reads arguments that may have no other member.
func strict(args json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func wrongArguments(tool, want string, err error) error {
	why := ""
	if err != nil {
		why = ": " + core.Visible(err.Error(), 200, false)
	}
	return core.Errorf(core.CodeInvalidArguments, "the arguments of %s must be %s%s", tool, want, why).WithNotMade()
}

// foundTool is a tool as search_tools shows it.
type foundTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	ReadOnly    bool            `json:"readOnly,omitempty"`
	Input       json.RawMessage `json:"inputSchema,omitempty"`
	// Left says that the schema was left out, and how to get it.
	Left string `json:"left,omitempty"`
}

// foundBy is the result of search_tools.
func (v *view) foundBy(query string, limit int, offered []api.OfferedTool, servers []api.Exposed) (json.RawMessage, error) {
	tools := make([]core.Tool, len(offered))
	for i, t := range offered {
		tools[i] = definitionOf(t)
	}
	hits, total := v.pick(strings.TrimSpace(query), min(max(limit, 0), mostFound), tools)
	out := struct {
		Tools    []foundTool `json:"tools"`
		Note     string      `json:"note,omitempty"`
		Problems []string    `json:"problems,omitempty"`
	}{Tools: []foundTool{}}
	size := 0
	for _, t := range hits {
		f := foundTool{Name: t.ID(), Description: t.Description, ReadOnly: t.Annotations.IsReadOnly(), Input: t.InputSchema}
		if size += len(f.Input) + len(f.Description); size > mostBytes && len(hits) > 1 {
			f.Input, f.Description, f.Left = nil, "", "too large beside the others: search for its name alone"
		}
		out.Tools = append(out.Tools, f)
	}
	switch {
	case len(tools) == 0:
		out.Note = "no tools are known yet"
	case len(hits) == 0:
		out.Note = fmt.Sprintf("none of %d tools fits; say it in other words, or search for the name of a server: %s", len(tools), strings.Join(serverNames(servers), ", "))
	case total > len(hits):
		out.Note = fmt.Sprintf("%d of %d; more words find others", len(hits), total)
	}
	if unlisted, _ := v.unlisted(servers); unlisted != "" {
		out.Problems = append(out.Problems, "the tools of these servers are not known: "+unlisted)
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "what was found cannot be written: %w", err)
	}
	return json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": string(text)}}})
}

// pick returns the tools that a query means: one by its name, those of a server, or those that
// fit its words, best first; and how many there are. A limit of 0 is the default.
func (v *view) pick(query string, limit int, tools []core.Tool) (hits []core.Tool, total int) {
	var named, ofServer []core.Tool
	byID := make(map[string]core.Tool, len(tools))
	for _, t := range tools {
		byID[t.ID()] = t
		switch query {
		case t.ID(), t.Name:
			named = append(named, t)
		case t.Server:
			ofServer = append(ofServer, t)
		}
	}
	if limit == 0 {
		limit = foundTools
	}
	switch {
	case len(named) > 0:
		hits = named
	case len(ofServer) > 0:
		for i := range ofServer { // a list of what there is
			ofServer[i].InputSchema = nil
		}
		return ofServer, len(ofServer)
	case v.g.o.Rank != nil:
		for _, s := range v.g.o.Rank(query, tools, mostFound) {
			hits = append(hits, byID[s.CallName])
		}
	}
	return hits[:min(limit, len(hits))], len(hits)
}

func serverNames(servers []api.Exposed) []string {
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// definitionOf reads as much of a tool's definition as finds it. One that cannot be read is
// found by its name.
func definitionOf(t api.OfferedTool) core.Tool {
	var d struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
		Annotations struct {
			ReadOnly *bool `json:"readOnlyHint"`
		} `json:"annotations"`
	}
	out := core.Tool{}
	if json.Unmarshal(t.Definition, &d) == nil {
		out = core.Tool{Title: d.Title, Description: d.Description, InputSchema: d.Input}
		out.Annotations.ReadOnly = d.Annotations.ReadOnly
	}
	out.Server, out.Name, _ = core.SplitTool(t.Tool)
	return out
}
