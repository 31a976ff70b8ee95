package gate_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// A server that writes the value of its key into what it says of itself and of
// its tools: it is neither shown nor kept, and changes are found all the same.
func TestRedaction_Definitions(t *testing.T) {
	t.Parallel()
	const key = "s3cr3t-value-1234"
	p := settle(t, allow)
	p.write(".env", "API_KEY="+key+"\n")
	giving := `[{"name":"read","title":"of KEY","description":"Reads with KEY.","inputSchema":{"type":"object","properties":{"KEY":{"default":"KEY"}}},
		"outputSchema":{"type":"object","title":"KEY"},"annotations":{"readOnlyHint":true}},{"name":"get-KEY","inputSchema":{"type":"object"}}]`
	p.write("../tools.json", strings.ReplaceAll(giving, "KEY", key))
	p.trust().open()
	leaksNot := func(what string, v any) {
		t.Helper()
		if text := fmt.Sprintf("%+v", v); strings.Contains(text, key) {
			t.Errorf("%s: %s", what, text)
		}
	}
	p.want("keyed:read", "{}", "ok")
	listed, problems, err := p.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var shown core.Tool
	for _, tool := range listed {
		if tool.Server != "keyed" {
			continue
		}
		leaksNot("tools", []string{tool.Name, tool.Title, tool.Description, string(tool.InputSchema), string(tool.OutputSchema)})
		shown = tool
	}
	if shown.Name != "read" || shown.Description != "Reads with «API_KEY»." || !strings.Contains(string(shown.InputSchema), `{"default":"«API_KEY»"}`) {
		t.Errorf("%+v", shown)
	}
	leaksNot("problems", problems)
	info := named(t, p.checked("keyed"), "keyed")
	if info.Health == nil || info.Health.Server != "fake «API_KEY» 1" || info.Tools != 1 {
		t.Errorf("%+v %+v", info, info.Health)
	}
	leaksNot("check", *info.Health)
	if _, v := p.check("keyed:get-"+key, "{}"); v.Deny == nil || v.Deny.Code != core.CodeNoSuchTool {
		t.Errorf("a tool named after the key is offered: %+v", v)
	}

	p.write("../tools.json", strings.ReplaceAll(strings.Replace(giving, "Reads with", "Reads a lot with", 1), "KEY", key))
	v := p.open().want("keyed:read", "{}", "integrity")
	lines := changed(t, v)
	if !strings.Contains(lines, "+   a lot") || !strings.Contains(lines, "with «API_KEY».") {
		t.Errorf("no difference:\n%s", lines)
	}
	leaksNot("question", v)
	leaksNot("changes", named(t, p.checked("keyed"), "keyed").Changed)
	p.mustApprove(v)
	p.open().want("keyed:read", "{}", "ok")
	// Another key is another definition, and nothing that could be shown.
	p.write(".env", "API_KEY=an0th3r-value-99\n")
	p.write("../tools.json", strings.ReplaceAll(strings.Replace(giving, "Reads with", "Reads a lot with", 1), "KEY", "an0th3r-value-99"))
	if lines := changed(t, p.open().want("keyed:read", "{}", "integrity")); !strings.Contains(lines, "nothing but the values of keys") {
		t.Error(lines)
	}
	p.leaksInNoFile(key, ".env", "tools.json")
}

// What stands in .env is taken out although no entry declares it; of the names of
// tools only those are left out that hold what has the name of a key.
func TestRedaction_Undeclared(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.write(".env", "API_KEY=s3cr3t-value-1234\nSTRIPE_KEY=und3clared-value\nLOG_FORMAT=structured\n")
	p.write("../tools.json", `[{"name":"read-structured","description":"und3clared-value structured","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
		{"name":"und3clared-value","inputSchema":{"type":"object"}}]`)
	p.trust().open()
	p.want("keyed:read-structured", "{}", "ok")
	listed, _, err := p.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed {
		if tool.Server == "keyed" {
			names = append(names, tool.Name+": "+tool.Description)
		}
	}
	if want := []string{"read-structured: «STRIPE_KEY» «LOG_FORMAT»"}; !slices.Equal(names, want) {
		t.Errorf("offered: %q, want %q", names, want)
	}
	if got := p.Redact("und3clared%2Dvalue"); got != "«STRIPE_KEY»" {
		t.Error(got)
	}
}

// leaksInNoFile fails for each file of the place that holds a text, but those of
// some names.
func (p *place) leaksInNoFile(text string, but ...string) {
	p.t.Helper()
	err := filepath.WalkDir(filepath.Dir(p.ws.Dir), func(path string, d fs.DirEntry, err error) error {
		for _, name := range but {
			if err == nil && d.Name() == name {
				return nil
			}
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), text) {
			p.t.Errorf("%s holds it: %s", path, raw)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// A text in which a value of .env was redacted is not written back: the file would
// lose the value.
func TestRedaction_WrittenBack(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"allow":["workspace:*"]}`)
	p.write(".env", "API_URL=https://api.example.com/v1\n")
	p.trust().open()
	for _, args := range []string{
		`{"path":"c.txt","content":"url: «API_URL»/users"}`, `{"path":"c.txt","content":"\u00abAPI_URL\u00bb"}`,
	} {
		if _, v := p.check("workspace:write_file", args); v.Deny == nil || v.Deny.Code != core.CodeInvalidArguments || !strings.Contains(v.Deny.Message, "«API_URL»") {
			t.Errorf("%s: %+v", args, v.Deny)
		}
	}
	for tool, args := range map[string]string{
		"edit_file": `{"path":"c.txt","old":"a","new":"«API_URL»"}`, "read_file": `{"path":"«API_URL»"}`, "write_file": `{"path":"c.txt","content":"«OTHER»"}`,
	} {
		if _, v := p.check("workspace:"+tool, args); (v.Deny != nil) != (tool == "edit_file") {
			t.Errorf("%s: %+v", tool, v.Deny)
		}
	}
}
