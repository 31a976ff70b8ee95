//go:build unix

package stdio_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestDifferential_TypeScript: the servers of TestConformance_ThroughTypeScript over stdio on both
// sides, which no suite can drive. A client sees through pml stdio what it sees of the server itself,
// in each era: every tool is called, every prompt got, every resource read. The server of SDK 1
// knows no newest revision over stdio: there a client of the newest sees through pml what one
// with the handshake sees of the server.
func TestDifferential_TypeScript(t *testing.T) {
	folder := os.Getenv("PML_TEST_TYPESCRIPT")
	if folder == "" {
		t.Skip("needs the fixtures of the TypeScript SDKs, in the folder that PML_TEST_TYPESCRIPT names")
	}
	t.Parallel()
	node := skiptest.Tool(t, "node")
	for _, f := range fixtures {
		for _, revision := range []string{oldRevision, newRevision} {
			for _, capabilities := range []string{`{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`, `{}`} {
				t.Run(path.Dir(f.file)+", "+revision+", "+capabilities, func(t *testing.T) {
					t.Parallel()
					server := onStdio(t, filepath.Join(folder, path.Dir(f.file)), path.Base(f.file), f.stdio)
					entry := map[string]any{"command": node, "args": []string{server}}
					its, asks := revision, capabilities != `{}`
					switch {
					case !f.eras:
						its = oldRevision
					case revision == newRevision && !asks:
						entry["protocol"] = newRevision // else it shares a connection with the handshake
					}
					crossed := its != revision
					direct := see(t, exec.CommandContext(t.Context(), node, server), its, capabilities, crossed)
					m := pmltest.BareMachine(t)
					raw, err := json.Marshal(map[string]any{
						"mcpServers": map[string]any{"everything": entry}, "permissions": map[string]any{"allow": []string{"everything"}}, "expose": []string{"everything"},
					})
					if err != nil {
						t.Fatal(err)
					}
					m.Write(".pml.json", string(raw))
					m.OK("trust", "--yes")
					pmltest.WaitFor(t, "pml to offer the tools of the server", func() bool {
						return len(newSeer(t, m.Command(t.Context(), "stdio"), revision, capabilities).pages("tools/list", "tools")) > len(api.OwnTools)
					})
					through := see(t, m.Command(t.Context(), "stdio"), revision, capabilities, crossed)
					if revision == newRevision && asks && f.eras {
						for name, raw := range direct.Completions { // come over the connection of those that declare nothing
							direct.Completions[name] = withoutMeta(t, raw)
						}
					}
					compareGateways(t, direct, through)
					if len(direct.Calls) < 15 || asks && len(direct.Seen.Asked) < 4 || len(direct.Read) < 5 || len(direct.Prompt) < 5 {
						t.Errorf("too little was compared: %d calls, %d questions, %d resources, %d prompts",
							len(direct.Calls), len(direct.Seen.Asked), len(direct.Read), len(direct.Prompt))
					}
					t.Logf("compared: %d tools, %d calls, %d questions, %d notifications, %d resources, %d prompts",
						len(direct.Tools), len(direct.Calls), len(direct.Seen.Asked), len(direct.Seen.Told), len(direct.Read), len(direct.Prompt))
				})
			}
		}
	}
}

// withoutMeta is an answer whose result has no _meta.
func withoutMeta(t *testing.T, answer json.RawMessage) json.RawMessage {
	t.Helper()
	var a struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatal(err)
	}
	delete(a.Result, "_meta")
	return object(map[string]any{"result": a.Result})
}

// seer is a client of one revision that writes down what it sees.
type seer struct {
	*wire
	revision, capabilities string
	crossed                bool // what it sees is compared with what another era sees
	id                     int
	sight
}

// newSeer starts a server, or pml, and shakes hands where its revision has that.
func newSeer(t *testing.T, cmd *exec.Cmd, revision, capabilities string) *seer {
	t.Helper()
	s := &seer{wire: wireTo(t, cmd), revision: revision, capabilities: capabilities}
	if revision != newRevision {
		s.ask("initialize", map[string]any{
			"protocolVersion": revision, "capabilities": json.RawMessage(capabilities), "clientInfo": map[string]any{"name": "seer", "version": "1"},
		})
		s.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	}
	return s
}

// ask sends a request, answers what the server asks about it, and returns the result or error.
func (s *seer) ask(method string, params map[string]any) json.RawMessage {
	s.t.Helper()
	params = maps.Clone(params)
	for {
		s.id++
		meta := map[string]any{}
		if method == "tools/call" {
			meta["progressToken"] = s.id
		}
		if s.revision == newRevision {
			meta["io.modelcontextprotocol/protocolVersion"] = s.revision
			meta["io.modelcontextprotocol/clientCapabilities"] = json.RawMessage(s.capabilities)
			meta["io.modelcontextprotocol/clientInfo"] = map[string]any{"name": "seer", "version": "1"}
			meta["io.modelcontextprotocol/logLevel"] = "debug"
		}
		params["_meta"] = meta
		s.say(map[string]any{"id": s.id, "method": method, "params": params})
		answer := s.answer()
		var result struct {
			ResultType    string
			InputRequests map[string]struct {
				Method string
				Params json.RawMessage
			}
			RequestState *string
		}
		if answer.Result == nil || json.Unmarshal(answer.Result, &result) != nil || result.ResultType != "input_required" {
			return s.whole(answer)
		}
		answers := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(result.InputRequests)) {
			answers[key] = s.asked(result.InputRequests[key].Method, result.InputRequests[key].Params)
		}
		delete(params, "inputResponses")
		delete(params, "requestState")
		if len(answers) > 0 {
			params["inputResponses"] = answers
		}
		if result.RequestState != nil {
			params["requestState"] = *result.RequestState
		}
	}
}

// answer reads up to the answer to the last request.
func (s *seer) answer() message {
	s.t.Helper()
	for {
		m, ok := s.next()
		if !ok {
			s.t.Fatalf("no answer to %d: %s", s.id, s.err.String())
		}
		switch {
		case m.Method == "notifications/progress":
			var p struct{ Progress, Total float64 }
			if err := json.Unmarshal(m.Params, &p); err != nil {
				s.t.Fatal(err)
			}
			s.Progress = append(s.Progress, p)
		case m.Method == "":
			if string(m.ID) != strconv.Itoa(s.id) {
				s.t.Fatalf("an answer to %s instead of %d: %s", m.ID, s.id, m.Result)
			}
			return m
		case m.ID == nil:
			s.Seen.Told = append(s.Seen.Told, object(map[string]any{"method": m.Method, "params": m.Params}))
		default:
			if s.capabilities == `{}` { // SDK 1 asks nevertheless; pml refuses for its client
				s.say(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "pml does not offer " + m.Method + " to servers"}})
				continue
			}
			s.say(map[string]any{"id": m.ID, "result": s.asked(m.Method, m.Params)})
		}
	}
}

// asked writes a question down and returns its answer.
func (s *seer) asked(method string, params json.RawMessage) any {
	s.Seen.Asked = append(s.Seen.Asked, object(map[string]any{"method": method, "params": params}))
	switch method {
	case "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "fixed", "stopReason": "endTurn", "content": map[string]any{"type": "text", "text": "a fixed answer"}}
	case "roots/list":
		return map[string]any{"roots": []any{map[string]any{"uri": "file:///a/root", "name": "a root"}}}
	case "elicitation/create":
		var form struct {
			RequestedSchema struct{ Properties map[string]map[string]any }
		}
		_ = json.Unmarshal(params, &form) // one of a URL has none
		content := map[string]any{}
		for name, property := range form.RequestedSchema.Properties {
			content[name] = fitting(property)
		}
		return map[string]any{"action": "accept", "content": content}
	}
	return map[string]any{}
}

func (s *seer) say(m map[string]any) {
	s.t.Helper()
	m["jsonrpc"] = "2.0"
	s.write(string(object(m)) + "\n")
}

// pages are the items of a list.
func (s *seer) pages(method, field string) (all []json.RawMessage) {
	s.t.Helper()
	params := map[string]any{}
	for {
		raw := s.ask(method, params)
		var page struct{ Result map[string]json.RawMessage }
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil || json.Unmarshal(page.Result[field], &items) != nil {
			s.t.Fatalf("%s: %s", method, raw)
		}
		all = append(all, items...)
		if page.Result["nextCursor"] == nil {
			return all
		}
		params = map[string]any{"cursor": page.Result["nextCursor"]}
	}
}

var token = regexp.MustCompile(`"text":"p?[0-9]+"`)

// see drives a server through all that it has.
func see(t *testing.T, cmd *exec.Cmd, revision, capabilities string, crossed bool) sight {
	t.Helper()
	s := newSeer(t, cmd, revision, capabilities)
	s.crossed = crossed
	s.Calls, s.Read, s.Prompt, s.Completions = map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}
	s.Tools, s.Prompts = s.pages("tools/list", "tools"), s.pages("prompts/list", "prompts")
	s.Resources, s.Templates = s.pages("resources/list", "resources"), s.pages("resources/templates/list", "resourceTemplates")
	const watched = "test://watched-resource"
	if revision != newRevision && !crossed {
		s.Level = s.ask("logging/setLevel", map[string]any{"level": "debug"})
		s.Subscribed = s.ask("resources/subscribe", map[string]any{"uri": watched})
		s.Unsubscribed = s.ask("resources/unsubscribe", map[string]any{"uri": watched})
		s.Ping = s.ask("ping", map[string]any{})
	}
	for _, raw := range slices.Clone(s.Tools) {
		var tool struct {
			Name        string
			InputSchema map[string]any
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(api.OwnTools, tool.Name) {
			arguments := fitting(tool.InputSchema)
			if tool.Name == "json_schema_2020_12_tool" { // its conditions are more than fitting knows
				arguments = map[string]any{"name": "Ada", "contactMethod": "phone", "phone": "1", "email": "ada@example.org"}
			}
			s.Calls[tool.Name] = s.ask("tools/call", map[string]any{"name": tool.Name, "arguments": arguments})
		}
	}
	// It says the token of the progress, and pml sends the server one of its own.
	s.Calls["test_tool_with_progress"] = token.ReplaceAll(s.Calls["test_tool_with_progress"], []byte(`"text":"*"`))
	s.Calls["no such"] = s.ask("tools/call", map[string]any{"name": "no_such_tool", "arguments": map[string]any{}})
	s.Calls["no argument"] = s.ask("tools/call", map[string]any{"name": "test_simple_text"})
	for _, raw := range s.Prompts {
		var prompt struct {
			Name      string
			Arguments []struct{ Name string }
		}
		if err := json.Unmarshal(raw, &prompt); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(ownPrompts, prompt.Name) {
			continue
		}
		s.Prompt[prompt.Name+" without"] = s.ask("prompts/get", map[string]any{"name": prompt.Name})
		arguments := map[string]any{}
		for _, a := range prompt.Arguments {
			arguments[a.Name] = "test://" + a.Name
		}
		s.Prompt[prompt.Name] = s.ask("prompts/get", map[string]any{"name": prompt.Name, "arguments": arguments})
		if len(arguments) > 0 {
			s.Completions[prompt.Name] = s.ask("completion/complete", map[string]any{
				"ref": map[string]any{"type": "ref/prompt", "name": prompt.Name}, "argument": map[string]any{"name": prompt.Arguments[0].Name, "value": "p"},
			})
		}
	}
	s.Prompt["no such"] = s.ask("prompts/get", map[string]any{"name": "no_such_prompt"})
	uris := []string{"test://template/7/data", "test://no/such"}
	for _, raw := range s.Resources {
		var resource struct{ URI string }
		if err := json.Unmarshal(raw, &resource); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(resource.URI, "pml:") {
			uris = append(uris, resource.URI)
		}
	}
	slices.Sort(uris)
	for _, uri := range uris {
		s.Read[uri] = s.ask("resources/read", map[string]any{"uri": uri})
	}
	question := func(raw json.RawMessage) string { return strings.Replace(constant(raw), "[server everything] ", "", 1) }
	slices.SortFunc(s.Seen.Asked, func(a, b json.RawMessage) int { // those of one round come at the same time
		return strings.Compare(question(a), question(b))
	})
	return s.sight
}

// fitting is a value that a schema allows.
func fitting(schema map[string]any) any {
	if values, ok := schema["enum"].([]any); ok && len(values) > 0 {
		return values[0]
	}
	if value, ok := schema["default"]; ok {
		return value
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if all, ok := schema[choice].([]any); ok && len(all) > 0 {
			if first, ok := all[0].(map[string]any); ok {
				if value, ok := first["const"]; ok {
					return value
				}
			}
		}
	}
	switch schema["type"] {
	case "number", "integer":
		return 3
	case "boolean":
		return true
	case "array":
		item, _ := schema["items"].(map[string]any)
		return []any{fitting(item)}
	case "object", nil:
		out := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if name, ok := name.(string); ok {
				property, _ := properties[name].(map[string]any)
				out[name] = fitting(property)
			}
		}
		return out
	}
	if schema["format"] == "email" {
		return "ada@example.org"
	}
	return "a word"
}

// whole is what an answer holds, less what is of one era where two are compared.
func (s *seer) whole(m message) json.RawMessage {
	s.t.Helper()
	if m.Error != nil {
		return object(map[string]any{"error": map[string]any{"code": m.Error.Code, "message": m.Error.Message, "data": m.Error.Data}})
	}
	if !s.crossed {
		return object(map[string]any{"result": m.Result})
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(m.Result, &result); err != nil {
		s.t.Fatal(err)
	}
	delete(result, "resultType")
	return object(map[string]any{"result": result})
}

func object(v map[string]any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // of raw JSON, strings and numbers
	}
	return raw
}
