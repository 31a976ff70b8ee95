package gate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/redact"
)

// What destroys, and what leaves this machine, is of high risk; where a tool is
// silent, the place of its server counts.
func TestRisk(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	s := &settings{all: &env.Config{}, redact: redact.NewSecrets(redact.Options{}), granted: &env.Config{Servers: map[string]env.ServerEntry{
		"here": {Command: "x"}, "local": {URL: "http://127.0.0.1:1/mcp"}, "name": {URL: "http://localhost/mcp"}, "six": {URL: "http://[::1]:1"},
		"far": {URL: "https://mcp.example/mcp"}, "any": {URL: "https://${HOST}/mcp"}, "lan": {URL: "http://10.0.0.1"},
	}}}
	for _, tt := range []struct {
		server string
		hints  core.Annotations
		leaves bool
		want   core.Risk
	}{
		{"here", core.Annotations{}, false, core.RiskMedium},
		{"here", core.Annotations{ReadOnly: &yes}, false, core.RiskLow},
		{"here", core.Annotations{Destructive: &yes}, false, core.RiskHigh},
		{"here", core.Annotations{Destructive: &no}, false, core.RiskMedium},
		{"here", core.Annotations{OpenWorld: &yes}, true, core.RiskHigh},
		{"here", core.Annotations{OpenWorld: &yes, ReadOnly: &yes}, true, core.RiskMedium},
		{Builtin, core.Annotations{}, false, core.RiskHigh}, // how much cannot be told
		{"local", core.Annotations{}, false, core.RiskMedium},
		{"name", core.Annotations{}, false, core.RiskMedium},
		{"six", core.Annotations{}, false, core.RiskMedium},
		{"far", core.Annotations{}, true, core.RiskHigh},
		{"far", core.Annotations{ReadOnly: &yes}, true, core.RiskMedium},
		{"far", core.Annotations{OpenWorld: &no}, true, core.RiskHigh},
		{"any", core.Annotations{}, true, core.RiskHigh},
		{"lan", core.Annotations{}, true, core.RiskHigh},
	} {
		e := s.effectOf(tt.server+":do", nil, tt.hints, false, nil)
		if risk, why := e.risk(); e.leaves != tt.leaves || risk != tt.want {
			t.Errorf("%s %+v: leaves %v, %s because %s; want %v, %s", tt.server, tt.hints, e.leaves, risk, why, tt.leaves, tt.want)
		}
	}
}

// A claim to only read is not believed of a tool whose name says otherwise.
func TestBelieved(t *testing.T) {
	t.Parallel()
	yes := true
	here := &settings{granted: &env.Config{Servers: map[string]env.ServerEntry{"here": {Command: "x"}}}, all: &env.Config{}, redact: redact.NewSecrets(redact.Options{})}
	for name, want := range map[string]bool{
		"read_file": true, "list_commands": true, "get_write_access_log": false, "runs": true, "rewrite": true, "executed_queries": true,
		"delete_everything": false, "deleteAll": false, "db.drop-table": false, "SendMail": false, "shell_exec": false, "rm": false, "RM": false,
	} {
		a := believed(core.Tool{Name: name, Annotations: core.Annotations{ReadOnly: &yes, Idempotent: &yes}})
		risk, why := here.effectOf("here:"+name, nil, a, false, nil).risk()
		if a.IsReadOnly() != want || a.Repeatable() != want || risk != map[bool]core.Risk{true: core.RiskLow, false: core.RiskHigh}[want] {
			t.Errorf("%s: read-only %v, repeatable %v, %s because %s", name, a.IsReadOnly(), a.Repeatable(), risk, why)
		}
	}
}

// The table in the documents is the one in the code, in the same order.
func TestRisk_Document(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/approvals.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| (it.+) \| (low|medium|high) \|$`).FindAllSubmatch(page, -1) {
		rows = append(rows, string(m[1])+": "+string(m[2]))
	}
	var want []string
	for _, r := range riskRules {
		want = append(want, r.when+": "+string(r.risk))
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("docs/approvals.md has\n%s\n\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
}

// What a call would do counts, not what its tool is called, and what a server says
// never makes it less.
func TestRisk_ByEffect(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	s := &settings{all: &env.Config{}, redact: redact.NewSecrets(redact.Options{}), granted: &env.Config{Servers: map[string]env.ServerEntry{"x": {Command: "x"}, "far": {URL: "https://a.example"}}}}
	changed := func(n int) *asked.File { return &asked.File{State: asked.FileChanged, Added: n / 2, Removed: n - n/2} }
	destroys := core.Annotations{Destructive: &yes}
	harmless := core.Annotations{Destructive: &no, OpenWorld: &no}
	for name, tt := range map[string]struct {
		tool  string
		hints core.Annotations
		file  *asked.File
		want  core.Risk
		why   string
	}{
		"Creates":          {"workspace:write_file", destroys, &asked.File{State: asked.FileNew, Added: 5000}, core.RiskMedium, "creates"},
		"ChangesLittle":    {"workspace:write_file", destroys, changed(199), core.RiskMedium, "less than 200"},
		"ChangesMuch":      {"workspace:write_file", destroys, changed(200), core.RiskHigh, "200 lines or more"},
		"ChangesNothing":   {"workspace:edit_file", destroys, &asked.File{State: asked.FileSame}, core.RiskMedium, "less than 200"},
		"NotShown":         {"workspace:edit_file", destroys, &asked.File{State: asked.FileChanged, Why: "too many places"}, core.RiskHigh, "200 lines or more"},
		"NotKnown":         {"workspace:write_file", destroys, &asked.File{State: asked.FileUnknown}, core.RiskHigh, "cannot be told"},
		"NotLooked":        {"workspace:write_file", destroys, nil, core.RiskHigh, "cannot be told"},
		"Deletes":          {"workspace:delete_file", destroys, nil, core.RiskHigh, "deletes"},
		"Moves":            {"workspace:move_file", destroys, nil, core.RiskHigh, "cannot be told"},
		"AnothersFile":     {"x:write_file", destroys, &asked.File{State: asked.FileNew}, core.RiskHigh, "destroys"},
		"AnothersSilence":  {"x:write_file", core.Annotations{}, &asked.File{State: asked.FileNew}, core.RiskMedium, "does not say"},
		"NameDeletes":      {"x:delete_rows", harmless, nil, core.RiskHigh, "destroys"},
		"FarAndHarmless":   {"far:post", harmless, nil, core.RiskHigh, "beyond this machine"},
		"FarAndReads":      {"far:get", core.Annotations{ReadOnly: &yes, OpenWorld: &no}, nil, core.RiskMedium, "reads beyond"},
		"ReadsAndDestroys": {"x:get", core.Annotations{ReadOnly: &yes, Destructive: &yes}, nil, core.RiskHigh, "destroys"},
	} {
		risk, why := s.effectOf(tt.tool, nil, tt.hints, false, tt.file).risk()
		if risk != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s because %s; want %s because %s", name, risk, why, tt.want, tt.why)
		}
	}
	for tool, want := range map[string]core.Risk{"x:do": core.RiskMedium, "far:do": core.RiskHigh, "x:rm": core.RiskHigh} {
		if risk, why := s.effectOf(tool, nil, core.Annotations{}, true, nil).risk(); risk != want {
			t.Errorf("not installed, %s: %s because %s", tool, risk, why)
		}
	}
}

// No spelling of a path hides that it leads out of the workspace.
func TestRisk_Outside(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(base, "ws")
	for _, dir := range []string{filepath.Join(ws, "src"), filepath.Join(base, "other", "deep")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": "../other/deep", "gone": "../nothing/here", "in": "src", "round": "round", "abs": base} {
		if err := os.Symlink(to, filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(ws, filepath.Join(base, "same")); err != nil {
		t.Fatal(err)
	}
	for p, out := range map[string]bool{
		"a.txt": false, "src/new/a.txt": false, "./src/../a.txt": false, "in/a.txt": false, "": false, ws: false, ws + "/src/a": false, base + "/same/a": false,
		"https://a.example/x": false, "file://" + ws + "/a": false, "..a/b": false,
		"..": true, "../ws2/a": true, "src/../../a": true, "/etc/passwd": true, base: true, ws + "x/a": true, "out/a": true, "out/../x": true, "in/../../a": true,
		"gone/a": true, "round/a": true, "abs/other/a": true, "~/a": true, "file:///etc/passwd": true, "file:///%65tc/passwd": true, " /etc/passwd": true, base + "/same/../a": true,
	} {
		raw, _ := json.Marshal(p)
		for _, args := range []string{`{"path":%s}`, `{"options":{"outputDir":[%s]}}`, `{"moves":[{"from":"a","to_file":%s}]}`} {
			if got := outside(ws, fmt.Appendf(nil, args, raw)); (got != "") != out {
				t.Errorf("%s in %s: %q", p, args, got)
			}
		}
		if got := outside(base+"/same", fmt.Appendf(nil, `{"text":%s}`, raw)); got != "" {
			t.Errorf("%s is no path there: %q", p, got)
		}
	}
}
