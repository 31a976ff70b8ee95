// Package model is a language model without a mind: it speaks the protocols of
// Anthropic, OpenAI and Gemini and says what a script has it say. The agent
// hosts that the tests of pml drive take it for their model.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Turn is one answer of the model: a call of a tool of pml, or a text, which
// ends the agent's work.
type Turn struct {
	Tool string         `json:"tool,omitempty"` // as pml names it, such as execute
	Args map[string]any `json:"args,omitempty"` // a string such as $workflow_id is that member of the last result
	Say  string         `json:"say,omitempty"`
	Own  bool           `json:"own,omitempty"` // the tool is one of the host, by its name there
}

// Seen is what one request of a host held.
type Seen struct {
	Path    string   `json:"path"`
	Offered []string `json:"offered"` // the tools of pml that the model can call, as pml names them
	Results []string `json:"results"` // of the calls of pml's tools so far
	Answer  string   `json:"answer"`  // what the model then did: the tool it called, or its text
}

// Model answers each request with the turn whose number is how many calls of
// pml's tools the conversation holds already, so that requests which a host
// repeats, or makes for itself, such as for a title, move nothing on.
type Model struct {
	Turns []Turn
	// Log, if there is one, gets the body of every request.
	Log func(path string, body []byte)

	mu   sync.Mutex
	seen []Seen
}

// Seen lists the requests that held pml's tools, or a way to look for them.
func (m *Model) Seen() []Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// conversation is a request in the words of no protocol.
type conversation struct {
	tools   []tool
	results []result
	stream  bool
}

// tool is one that the host offers. Codex puts them into a space.
type tool struct{ space, name string }

func (t tool) String() string {
	if t.space == "" {
		return t.name
	}
	return strings.TrimRight(t.space, "_") + "__" + t.name
}

// result is what a call came to.
type result struct{ tool, text string }

// reply is what the model does: call is nil when it only says something.
type reply struct {
	text string
	call *call
}

type call struct {
	id   string
	tool tool
	args map[string]any
}

// arguments are those of the call as JSON; none that a script has can fail.
func (c *call) arguments() string {
	raw, err := json.Marshal(c.args)
	if err != nil {
		return "{}"
	}
	return string(raw)
}

// protocol reads and writes what one maker's clients speak.
type protocol interface {
	read(body []byte) (conversation, error)
	write(w io.Writer, stream bool, r reply)
}

// maxBody bounds a request: hosts send their whole instructions.
const maxBody = 32 << 20

// ServeHTTP answers a request of a host.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.Log != nil {
		m.Log(r.Method+" "+r.URL.RequestURI(), body)
	}
	p := protocolOf(r.URL.Path)
	if p == nil {
		m.aside(w, r)
		return
	}
	c, err := p.read(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.stream = c.stream || strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
	answer := m.answer(r.URL.Path, c)
	w.Header().Set("Content-Type", "application/json")
	if c.stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	p.write(w, c.stream, answer)
}

func protocolOf(path string) protocol {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return anthropic{}
	case strings.HasSuffix(path, "/responses"):
		return responses{}
	case strings.HasSuffix(path, "/chat/completions"):
		return completions{}
	case strings.HasSuffix(path, ":streamGenerateContent"), strings.HasSuffix(path, ":generateContent"):
		return gemini{}
	}
	return nil
}

// aside answers what hosts ask beside the conversation.
func (m *Model) aside(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		fmt.Fprintln(w, `{"input_tokens":100}`)
	case strings.HasSuffix(r.URL.Path, ":countTokens"):
		fmt.Fprintln(w, `{"totalTokens":100}`)
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprintln(w, `{"object":"list","data":[],"models":[]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, `{"error":{"type":"not_found_error","message":"the scripted model does not have this"}}`)
	}
}

// ours tells a tool of pml from its name in a host: mcp__pml__execute,
// mcp_pml_execute, pml_execute, or execute in a space that names pml.
var ours = regexp.MustCompile(`(?:^|_)pml_{1,2}([a-z][a-z_]*)$`)

// finders are tools by which hosts let a model find tools that are not offered
// at once, with the arguments that find those of pml.
var finders = []struct {
	name string
	args func(want string) map[string]any
}{
	{"WaitForMcpServers", func(string) map[string]any { return map[string]any{} }},
	{"ToolSearch", func(want string) map[string]any { return map[string]any{"query": "pml " + want, "max_results": 10} }},
	{"tool_search", func(want string) map[string]any { return map[string]any{"query": "pml " + want, "max_results": 10} }},
}

// caller is the tool of Qwen Code that calls one which was found, and is not
// offered itself.
const caller = "tool_call"

// found is the name of a tool of pml in what a finder has answered.
func (c conversation) found(want string) string {
	for _, r := range c.results {
		if name := regexp.MustCompile(`[a-z_]*pml_{1,2}` + want + `\b`).FindString(r.text); name != "" && !ours.MatchString(r.tool) {
			return name
		}
	}
	return ""
}

// offered are the tools of pml that a model can call, found ones too.
func (c conversation) offered() []string {
	var out []string
	for _, t := range c.tools {
		if name := ours.FindStringSubmatch(t.String()); name != nil {
			out = append(out, name[1])
		}
	}
	for _, r := range c.results {
		if ours.MatchString(r.tool) {
			continue
		}
		for _, name := range inText.FindAllStringSubmatch(r.text, -1) {
			out = append(out, name[1])
		}
	}
	return out
}

// inText finds the names of pml's tools in what a finder has answered.
var inText = regexp.MustCompile(`"name\\*": ?\\*"[a-z_]*pml_{1,2}([a-z][a-z_]*)\\*"`)

// answer chooses the model's turn, and notes what was asked.
func (m *Model) answer(path string, c conversation) reply {
	var results []string
	searches := 0
	for _, r := range c.results {
		if m.counts(r.tool) {
			results = append(results, r.text)
		} else {
			searches++
		}
	}
	out, concerns := m.turn(c, results, searches)
	if !concerns {
		return out
	}
	s := Seen{Path: path, Results: results, Answer: out.text, Offered: c.offered()}
	if out.call != nil {
		s.Answer = out.call.tool.String()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, s)
	return out
}

// counts reports whether the result of a tool is that of a turn.
func (m *Model) counts(tool string) bool {
	return ours.MatchString(tool) || slices.ContainsFunc(m.Turns, func(t Turn) bool { return t.Own && t.Tool == tool })
}

// maxSearches is how often the model looks for a tool that it is not offered.
const maxSearches = 20

func (m *Model) turn(c conversation, results []string, searches int) (out reply, concerns bool) {
	var turn Turn
	if n := len(results); n < len(m.Turns) {
		turn = m.Turns[n]
	}
	if turn.Tool == "" {
		if turn.Say == "" {
			turn.Say = "I have nothing more to say."
		}
		return reply{text: turn.Say}, len(results) > 0
	}
	id, args := fmt.Sprintf("call_%d_%d", len(results), searches), turn.Args
	if len(results) > 0 {
		args = filled(turn.Args, results[len(results)-1])
	}
	for _, t := range c.tools {
		if turn.Own && t.name == turn.Tool {
			return reply{call: &call{id: id, tool: t, args: args}}, true
		}
		if name := ours.FindStringSubmatch(t.String()); !turn.Own && name != nil && name[1] == turn.Tool {
			return reply{call: &call{id: id, tool: t, args: args}}, true
		}
	}
	if name := c.found(turn.Tool); name != "" && slices.Contains(c.tools, tool{name: caller}) {
		return reply{call: &call{id: id, tool: tool{name: caller}, args: object{"name": name, "arguments": args}}}, true
	}
	for _, f := range finders {
		for _, t := range c.tools {
			if t.name == f.name && searches < maxSearches {
				return reply{call: &call{id: id, tool: t, args: f.args(turn.Tool)}}, true
			}
		}
	}
	return reply{text: "I have no tool " + turn.Tool + "."}, false
}

// filled puts members of the last result where the arguments refer to them.
func filled(args map[string]any, last string) map[string]any {
	out := map[string]any{}
	for name, v := range args {
		if s, ok := v.(string); ok && strings.HasPrefix(s, "$") {
			v = Member(last, s[1:])
		}
		out[name] = v
	}
	return out
}

// Member finds a member of the JSON in a result, however the host has wrapped
// or escaped it. It is empty when there is none.
func Member(text, name string) string {
	found := regexp.MustCompile(`\\*"` + regexp.QuoteMeta(name) + `\\*"\s*:\s*\\*"([^"\\]*)`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// event writes one event of a stream.
func event(w io.Writer, name string, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		return
	}
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", raw)
}

// text is the text of a value that is a string, or a list of parts with texts,
// or anything else, as JSON.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			s += p.Text
		}
		if s != "" {
			return s
		}
	}
	return string(raw)
}

type object = map[string]any
