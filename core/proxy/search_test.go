package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/proxy"
	"github.com/casys-ai/pml/core/suggest"
)

// searched is a server whose tools are found by search.
func searched(name string, tools ...string) api.Exposed {
	s := server(name, tools...)
	s.Search = true
	for i, t := range s.Tools {
		s.Tools[i].Definition = json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"Does %s.","inputSchema":{"type":"object","properties":{"title":{"type":"string"}}}}`, t.Name, strings.ReplaceAll(t.Name, "_", " ")))
	}
	return s
}

func openSearch(t *testing.T, h *half) *proxy.Proxy {
	t.Helper()
	g := proxy.New(proxy.Options{Half: h, Rank: func(text string, tools []core.Tool, limit int) []api.SuggestedTool {
		found := suggest.New(tools).Suggest(suggest.Request{Intent: text}).Tools
		return found[:min(limit, len(found))]
	}})
	t.Cleanup(g.Close)
	return g
}

// found is what search_tools answers.
type found struct {
	Tools []struct {
		Name, Description, Left string
		InputSchema             json.RawMessage
	}
	Note     string
	Problems []string
}

func search(t *testing.T, g *proxy.Proxy, args string) found {
	t.Helper()
	r, err := g.Call(t.Context(), api.OfferedCall{Name: api.SearchTools, Args: json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Content []struct{ Text string } }
	var out found
	if err := json.Unmarshal(r.Raw, &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("%v: %s", err, r.Raw)
	}
	if err := json.Unmarshal([]byte(result.Content[0].Text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (f found) names() string {
	var out []string
	for _, t := range f.Tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

func TestSearch_Finds(t *testing.T) {
	t.Parallel()
	g := openSearch(t, newHalf(searched("github", "create_issue", "list_issues", "delete_repository"), searched("mail", "send_message", "list_issues")))
	o, err := g.Offer(t.Context(), nil)
	if err != nil || names(o) != "search_tools call_tool" || len(o.Found) != 5 || len(o.Problems) > 0 {
		t.Fatalf("%q, %d, %v, %v", names(o), len(o.Found), o.Problems, err)
	}
	for query, want := range map[string]string{
		"open a new issue":  "github:create_issue ",
		"send a message":    "mail:send_message",
		"mail:list_issues":  "mail:list_issues",
		"list_issues":       "github:list_issues mail:list_issues",
		"mail":              "mail:send_message mail:list_issues",
		"send_message":      "mail:send_message",
		"delete repository": "github:delete_repository",
	} {
		if got := search(t, g, fmt.Sprintf(`{"query":%q}`, query)).names(); !strings.HasPrefix(got+" ", want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if f := search(t, g, `{"query":"send a message"}`); string(f.Tools[0].InputSchema) == "" || f.Tools[0].Description != "Does send message." {
		t.Errorf("%+v", f.Tools[0])
	}
	if f := search(t, g, `{"query":"github"}`); f.Tools[0].InputSchema != nil {
		t.Errorf("a list of a server's tools has schemas: %+v", f.Tools[0])
	}
	if f := search(t, g, `{"query":"qwertz"}`); len(f.Tools) > 0 || !strings.Contains(f.Note, "none of 5 tools") || !strings.Contains(f.Note, "github, mail") {
		t.Errorf("%+v", f)
	}
}

// A call is made under the name that was found, and under no other.
func TestSearch_Calls(t *testing.T) {
	t.Parallel()
	h := newHalf(searched("a", "one", "search_tools", "execute"))
	g := openSearch(t, h)
	for _, args := range []string{`{"name":"a:one","arguments":{"x":1}}`, `{"name":"a:execute"}`, `{"name":"a:search_tools","arguments":{}}`} {
		if _, err := g.Call(t.Context(), api.OfferedCall{Name: api.CallTool, Args: json.RawMessage(args)}); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	if want := `[a:one {"x":1} a:execute  a:search_tools {}]`; fmt.Sprint(h.calls) != want {
		t.Errorf("%v, want %s", h.calls, want)
	}
	for args, code := range map[string]core.Code{
		`{"name":"a:two"}`:                 core.CodeNoSuchTool,
		`{"name":"one"}`:                   core.CodeNoSuchTool,
		`{"name":"call_tool"}`:             core.CodeNoSuchTool,
		`{"name":"search_tools"}`:          core.CodeNoSuchTool,
		`{}`:                               core.CodeInvalidArguments,
		`{"name":"a:one","args":{"x":1}}`:  core.CodeInvalidArguments,
		`{"name":7}`:                       core.CodeInvalidArguments,
		`[]`:                               core.CodeInvalidArguments,
		``:                                 core.CodeInvalidArguments,
		`{"name":"a:one","arguments":{}} `: "",
	} {
		_, err := g.Call(t.Context(), api.OfferedCall{Name: api.CallTool, Args: json.RawMessage(args)})
		if core.CodeOf(err) != code && (err != nil || code != "") {
			t.Errorf("%s: %v, want %q", args, err, code)
		}
	}
	for _, args := range []string{``, `{}`, `{"query":" "}`, `{"query":"x","limit":-1}`, `{"query":"x","more":1}`} {
		if _, err := g.Call(t.Context(), api.OfferedCall{Name: api.SearchTools, Args: json.RawMessage(args)}); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%s: %v", args, err)
		}
	}
	if len(h.calls) != 4 {
		t.Errorf("%v", h.calls)
	}
}

// The list of a thousand tools costs a host what that of one does: below 1,500 tokens, of
// some four bytes each.
func TestSearch_Cost(t *testing.T) {
	t.Parallel()
	var servers []api.Exposed
	for s := range 20 {
		var tools []string
		for n := range 50 {
			tools = append(tools, fmt.Sprintf("tool_%d_%d", s, n))
		}
		servers = append(servers, searched(fmt.Sprint("s", s), tools...))
	}
	g := openSearch(t, newHalf(servers...))
	o, err := g.Offer(t.Context(), nil)
	if err != nil || len(o.Found) != 1000 {
		t.Fatalf("%d, %v", len(o.Found), err)
	}
	size := 0
	for _, tool := range o.Tools {
		if !json.Valid(tool.Definition) {
			t.Errorf("%s", tool.Definition)
		}
		size += len(tool.Definition)
	}
	if size/4 > 1500 {
		t.Errorf("%d bytes", size)
	}
	if f := search(t, g, `{"query":"tool 7 31","limit":8}`); len(f.Tools) == 0 {
		t.Errorf("%+v", f)
	}
}

// Where tools are listed, the names of the two mean whatever a server has under them.
func TestSearch_Off(t *testing.T) {
	t.Parallel()
	h := newHalf(server("a", "call_tool"))
	g := openSearch(t, h)
	if _, err := g.Call(t.Context(), api.OfferedCall{Name: api.CallTool, Args: json.RawMessage(`{"name":"x"}`)}); err != nil || fmt.Sprint(h.calls) != `[a:call_tool {"name":"x"}]` {
		t.Errorf("%v %v", h.calls, err)
	}
	if _, err := g.Call(t.Context(), api.OfferedCall{Name: api.SearchTools}); core.CodeOf(err) != core.CodeNoSuchTool {
		t.Error(err)
	}
}
