package flow_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

const whole = `"name":"F","nodes":[{"id":"start","type":"start","data":{}},{"id":"mcp","type":"mcp-call","data":{}},{"id":"end","type":"end","data":{}}],
"edges":[{"source":"start","target":"mcp"},{"source":"mcp","target":"end"}]}`

func setOf(home, work map[string]string, trusted bool) *flow.Set {
	folder := func(texts map[string]string, home bool) *flow.Folder {
		files := map[string][]byte{}
		for name, text := range texts {
			files[name] = []byte(text)
		}
		return flow.Parse(files, home)
	}
	return flow.NewSet(folder(home, true), folder(work, false), trusted)
}

// An enabled flow refuses the calls that it may match as long as it is not trusted or
// not valid, and runs otherwise.
func TestSet_FailsClosed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text    string
		trusted string // what becomes of the call where the workspace is trusted
		not     string // and where it is not
	}{
		"All":       {`{"id":"f","enabled":true,"workflowType":"tools/call",` + whole, "runs", "not_trusted"},
		"Matches":   {`{"id":"f","enabled":true,"match":{"server":"work*","tool":"st?t"},` + whole, "runs", "not_trusted"},
		"List":      {`{"id":"f","enabled":true,"match":{"tool":["x","workspace:stat"]},` + whole, "runs", "not_trusted"},
		"Client":    {`{"id":"f","match":{"client":"cl*"},` + whole, "runs", "not_trusted"},
		"Where":     {`{"id":"f","match":{"where":"args.path == '.'"},` + whole, "runs", "not_trusted"},
		"WhereNot":  {`{"id":"f","match":{"where":"args.path == '/'"},` + whole, "", "not_trusted"},
		"WhereErr":  {`{"id":"f","match":{"where":"args.team == '/'"},` + whole, "hook_failed", "not_trusted"},
		"WhereBad":  {`{"id":"f","match":{"where":"args.team =="},` + whole, "invalid_config", "invalid_config"},
		"Broken":    {`{"id":"f",`, "invalid_config", "invalid_config"},
		"NoMatch":   {`{"id":"f","enabled":true,"match":3,` + whole, "invalid_config", "invalid_config"},
		"NotSaid":   {`{"id":"f",` + whole, "runs", "not_trusted"},
		"NoNodes":   {`{"id":"f","name":"f"}`, "invalid_config", "invalid_config"},
		"Case":      {`{"id":"f","enabled":true,"match":{"server":"WORKSPACE","tool":"Workspace:STAT"},` + whole, "runs", "not_trusted"},
		"Spelling":  {`{"id":"f","ENABLED":false,"Enabled":false,` + whole, "runs", "not_trusted"},
		"Doubled":   {`{"id":"f","enabled":true,"enabled":false}`, "invalid_config", "invalid_config"},
		"NoBool":    {`{"id":"f","enabled":"false",` + whole, "invalid_config", "invalid_config"},
		"NoObject":  {`[]`, "invalid_config", "invalid_config"},
		"Null":      {`null`, "invalid_config", "invalid_config"},
		"Other":     {`{"id":"f","enabled":true,"match":{"tool":"write_*"},` + whole, "", ""},
		"Server":    {`{"id":"f","enabled":true,"match":{"server":"a.*"},` + whole, "", ""},
		"Host":      {`{"id":"f","match":{"client":"other"},` + whole, "", ""},
		"Disabled":  {`{"id":"f","enabled":false}`, "", ""},
		"Audit":     {`{"id":"f","mode":"audit",` + whole, "runs", ""},
		"AuditBad":  {`{"id":"f","enabled":true,"mode":"audit"}`, "", ""},
		"AuditErr":  {`{"id":"f","mode":"audit","match":{"where":"args.team == '/'"},` + whole, "", ""},
		"ListTools": {`{"id":"f","workflowType":"tools/list",` + whole, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, trusted := range []bool{true, false} {
				s := setOf(nil, map[string]string{"guard.json": tt.text}, trusted)
				want := tt.not
				if trusted {
					want = tt.trusted
				}
				flows, err := s.For(flow.Request{Tool: "workspace:stat", Args: json.RawMessage(`{"path":"."}`), Client: "claude"})
				got := string(core.CodeOf(err))
				if len(flows) > 0 {
					got = "runs"
				}
				if got != want {
					t.Errorf("trusted %v: %s, want %s (%v)", trusted, got, want, err)
				}
				if got != "" && !s.Matches("workspace:stat") {
					t.Error("it is said not to match")
				}
				if err != nil && got != "hook_failed" && !strings.Contains(err.Error(), "guard.json") {
					t.Errorf("%v does not name the file", err)
				}
			}
		})
	}
}

// pml reads a flow under each name that one may have, and one that cannot be read matches
// everything.
func TestSet_Names(t *testing.T) {
	t.Parallel()
	enabled, off := `{"id":"f","match":{"tool":"stat"},`+whole, `{"id":"f","enabled":false}`
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"a.JSON":            {enabled, true},
		"a.yaml":            {"enabled: true\n", true},
		"sub/deep/a.json":   {enabled, true},
		"modules/a.json":    {enabled, true},
		"sub/a.yaml":        {"x: 1\n", true},
		"sub/broken.json":   {`{"id"`, true},
		"nodes/broken.json": {`{"id"`, true},
		"sub/off.json":      {off, false},
		"nodes/node.json":   {`{"name":"node","version":"1"}`, false},
		"b.json":            {off, false},
	} {
		if got := setOf(nil, map[string]string{name: tt.text}, true).Matches("workspace:stat"); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Flows of the home run first and need no trust; then priority decides, then the id.
func TestSet_Order(t *testing.T) {
	t.Parallel()
	named := func(id, more string) string { return `{"id":"` + id + `",` + more + whole }
	s := setOf(map[string]string{"z.json": named("z", ""), "y.json": named("y", `"priority":-1,`)},
		map[string]string{"a.json": named("a", ""), "b.json": named("b", `"priority":-5,`), "c.json": named("c", `"enabled":false,`)}, true)
	flows, err := s.For(flow.Request{Tool: "s:t"})
	var ids []string
	for _, f := range flows {
		ids = append(ids, f.ID)
	}
	if got := strings.Join(ids, " "); got != "y z b a" || err != nil {
		t.Errorf("%s %v", got, err)
	}
	s = setOf(map[string]string{"z.json": named("z", "")}, nil, false)
	if flows, err := s.For(flow.Request{Tool: "s:t"}); len(flows) != 1 || err != nil {
		t.Errorf("%v %v", flows, err)
	}
	if got, err := s.Passed(core.PassedFlow{Flow: "z", Home: true, Digest: flows[1].Digest}); err != nil || got.ID != "z" {
		t.Error(got, err)
	}
	if _, err := s.Passed(core.PassedFlow{Flow: "z", Home: true, Digest: "sha256:other"}); core.CodeOf(err) != core.CodeHookFailed {
		t.Error(err)
	}
	var none *flow.Set
	if flows, err := none.For(flow.Request{Tool: "s:t"}); flows != nil || err != nil || none.Matches("s:t") || none.Refused("s:t") != nil {
		t.Error("a set of nothing matches")
	}
}

// Two flows of one folder with one id refuse: which of them is meant is not known.
func TestSet_DoubledID(t *testing.T) {
	t.Parallel()
	text := `{"id":"f",` + whole
	s := setOf(nil, map[string]string{"a.json": text, "b.json": text}, true)
	if _, err := s.For(flow.Request{Tool: "s:t"}); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Error(err)
	}
}

// A flow's digest covers what it uses, and nothing else.
func TestParse_Digest(t *testing.T) {
	t.Parallel()
	text := strings.Replace(drawn("start>a a>mcp mcp>end", ""), `"script":"return"`, `"hookModuleId":"m"`, 1)
	files := map[string][]byte{
		"f.json": []byte(text), "modules/m.json": []byte(`{"id":"m","name":"m","script":"return"}`), "modules/n.json": []byte(`{"id":"n","script":"x"}`),
	}
	first := flow.Parse(files, false).Flows[0]
	if len(first.Faults) > 0 || first.Node("a").Script != "return" {
		t.Fatal(first.Faults)
	}
	files["modules/n.json"] = []byte(`{"id":"n","script":"y"}`)
	if again := flow.Parse(files, false).Flows[0]; again.Digest != first.Digest {
		t.Error("a module that it does not use changes its digest")
	}
	files["modules/m.json"] = []byte(`{"id":"m","name":"m","script":"return 1"}`)
	if again := flow.Parse(files, false).Flows[0]; again.Digest == first.Digest {
		t.Error("a module that it uses does not change its digest")
	}
}

// Flows share a module: each runs its script, and a change of it is a change of each.
func TestParse_SharedModule(t *testing.T) {
	t.Parallel()
	text := strings.Replace(drawn("start>a a>mcp mcp>end", ""), `"script":"return"`, `"hookModuleId":"m"`, 1)
	files := map[string][]byte{
		"f.json": []byte(text), "g.json": []byte(strings.Replace(text, `"id":"f"`, `"id":"g"`, 1)), "h.json": []byte(strings.Replace(drawn("start>mcp mcp>end", ""), `"id":"f"`, `"id":"h"`, 1)),
	}
	digests := map[string]string{}
	for _, script := range []string{"return", "return {}"} {
		files["modules/m.json"] = []byte(`{"id":"m","name":"m","script":"` + script + `"}`)
		for _, f := range flow.Parse(files, false).Flows {
			if len(f.Faults) > 0 || f.ID != "h" && f.Node("a").Script != script {
				t.Errorf("%s: %v", f.ID, f.Faults)
			}
			if same := digests[f.ID] == f.Digest; same != (f.ID == "h" && script != "return") {
				t.Errorf("%s with %q: same digest %v", f.ID, script, same)
			}
			digests[f.ID] = f.Digest
		}
	}
	delete(files, "modules/m.json")
	for _, f := range flow.Parse(files, false).Flows {
		if refused := len(f.Faults) > 0; refused != (f.ID != "h") {
			t.Errorf("%s without the module: %v", f.ID, f.Faults)
		}
	}
}
