package gate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// hiding leaves write out of the tools and calls read something else.
func hiding(tools []core.Tool) ([]core.Tool, error) {
	no := false
	tools = slices.DeleteFunc(slices.Clone(tools), func(t core.Tool) bool { return t.Name == "write" })
	for i := range tools {
		if tools[i].Name == "read" {
			tools[i].Description, tools[i].Annotations.ReadOnly = "as the flow says", &no
		}
	}
	return tools, nil
}

func listWatched(t *testing.T, l *looking) *place {
	t.Helper()
	p, _ := watched(t, `{"readonly":"allow"}`, l)
	p.write(".pml/flows/all.json", strings.Replace(lookAtAll, "tools/call", "tools/list", 1))
	return p.trust().open()
}

// What a flow about lists leaves of a server's tools is what is listed, offered and
// called: a tool that it hides is none, and one whose hint it takes away is asked about.
func TestFlows_List(t *testing.T) {
	t.Parallel()
	l := &looking{list: hiding}
	p := listWatched(t, l)
	p.want("fake:write", `{}`, "no_such_tool")
	p.want("fake:read", `{"n":1}`, "tool_permission")
	if own, err := p.OwnTools(t.Context(), "fake"); err != nil || len(own) != 3 || own[1].Description == "as the flow says" {
		t.Errorf("of itself the server lists %+v %v", own, err)
	}
	if _, err := p.OwnTools(t.Context(), "fakes"); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("there is no such server: %v", err)
	}
	tools, _, err := p.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said string
	for _, tool := range tools {
		if tool.Server == "fake" {
			said += tool.Name + " " + tool.Description + ";"
		}
	}
	if said != "fail ;read as the flow says;" {
		t.Errorf("listed: %s", said)
	}
	reached, err := p.Reach(t.Context(), "fake", nil)
	if err != nil || len(reached.Tools) != 2 {
		t.Fatalf("%+v %v", reached, err)
	}
	for _, tool := range reached.Tools {
		if def := string(tool.Definition); tool.Name == "read" && (!strings.Contains(def, "as the flow says") || !strings.Contains(def, `"readOnlyHint":false`) || !strings.Contains(def, "additionalProperties")) {
			t.Errorf("offered: %s", def)
		}
	}
	p.want("far:write", `{}`, "no_such_tool")
	if _, err := p.Call(t.Context(), p.call("far:write", `{}`), func(string) {}); core.CodeOf(err) != core.CodeNoSuchTool {
		t.Errorf("a hidden tool of the named server: %v", err)
	}
	call := p.call("fake:write", `{}`)
	if _, err := p.Call(t.Context(), call, func(string) {}); core.CodeOf(err) == "" {
		t.Error("a hidden tool was called")
	}
	if l.lists > 3 { // the workspace's own server, fake and far
		t.Errorf("the flows ran %d times for lists that had not changed", l.lists)
	}
}

// Without a list nothing of the server is listed, offered or called.
func TestFlows_ListFails(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*looking{
		"Broken": {list: func([]core.Tool) ([]core.Tool, error) { return nil, core.Errorf(core.CodeHookFailed, "it threw") }},
		"Other":  {list: func([]core.Tool) ([]core.Tool, error) { return nil, errors.New("it threw") }},
		"None":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listWatched(t, l)
			if _, v := p.check("fake:read", `{}`); v.Deny == nil {
				t.Errorf("%+v", v)
			}
			if tools, problems, err := p.Tools(t.Context()); len(tools) > 0 || len(problems) == 0 || err != nil {
				t.Errorf("%v %v %v", tools, problems, err)
			}
			if reached, err := p.Reach(t.Context(), "fake", nil); err == nil {
				t.Errorf("%+v", reached)
			}
			if _, err := p.Call(t.Context(), p.call("fake:read", `{}`), func(string) {}); err == nil {
				t.Error("it was called")
			}
		})
	}
}
