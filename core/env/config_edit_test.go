package env_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/quick"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

// hash has the shape of a bcrypt hash.
const hash = "$2a$12$abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ01234"

var memory = env.ServerEntry{Name: "memory", Command: "npx", Args: []string{"-y", "pkg<1>"}, Env: map[string]string{"KEY": "${KEY}"}}

// TestSetServer_Layout: the entry looks like what stands around it, and
// nothing else moves.
func TestSetServer_Layout(t *testing.T) {
	t.Parallel()
	const entry = `"memory": {"command": "npx", "args": ["-y", "pkg<1>"], "env": {"KEY": "${KEY}"}}`
	wide := func(in string) string {
		lines := []string{`"memory": {`, `  "command": "npx",`, `  "args": ["-y", "pkg<1>"],`, `  "env": {`, `    "KEY": "${KEY}"`, `  }`, `}`}
		return in + strings.Join(lines, "\n"+in)
	}
	for name, c := range map[string]struct{ before, after string }{
		"Nothing":      {"", "{\n  \"mcpServers\": {\n    \"memory\": {"},
		"Spaces":       {" \n", "{\n  \"mcpServers\": {\n    \"memory\": {"},
		"Empty":        {"{}", "{\n  \"mcpServers\": {\n" + wide("    ") + "\n  }\n}"},
		"OneLine":      {`{"mcpServers": {"a": {"command": "x"}}}`, `{"mcpServers": {"a": {"command": "x"}, ` + entry + `}}`},
		"OneLineEmpty": {`{"version": 1, "mcpServers": {}}`, `{"version": 1, "mcpServers": {` + entry + `}}`},
		"OneLineFirst": {`{"version": 1}`, `{"version": 1, "mcpServers": {` + entry + `}}`},
		"Lines": {
			"{\n  // why\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // a\n    // end\n  }\n}\n",
			"{\n  // why\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, // a\n    // end\n" + wide("    ") + "\n  }\n}\n",
		},
		"EmptyInLines": {"{\n  \"mcpServers\": {},\n  \"version\": 1\n}\n", "{\n  \"mcpServers\": {\n" + wide("    ") + "\n  },\n  \"version\": 1\n}\n"},
		"Replaced": {
			"{\n  \"mcpServers\": {\n    \"memory\": {\"command\": \"old\"}, // m\n    \"b\": {\"command\": \"x\"}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n" + wide("    ") + ", // m\n    \"b\": {\"command\": \"x\"}\n  }\n}\n",
		},
		"Comment":     {"{ /* c */ }", `{ /* c */"mcpServers": {` + entry + `} }`},
		"LineComment": {"{ // c\n}", "{ // c\n  \"mcpServers\": {\n" + wide("    ") + "\n  }\n}"},
		"Mark":        {"\ufeff{\"version\": 1}", "\ufeff{\"version\": 1, \"mcpServers\": {" + entry + "}}"},
		"LastComment": {`{"version": 1} // c`, `{"version": 1, "mcpServers": {` + entry + `}} // c`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, eol := range []string{"\n", "\r\n"} {
				if !strings.Contains(c.before, "\n") && eol != "\n" {
					continue // nothing says how lines end
				}
				before, after := strings.ReplaceAll(c.before, "\n", eol), strings.ReplaceAll(c.after, "\n", eol)
				out, err := env.SetServer(".pml.json", []byte(before), memory)
				if name == "Nothing" || name == "Spaces" {
					if err != nil || !strings.HasPrefix(string(out), c.after) {
						t.Errorf("%q, %v", out, err)
					}
					continue
				}
				if err != nil || string(out) != after {
					t.Errorf("%v\n%q\n%q", err, out, after)
				}
			}
		})
	}
}

func TestSetServer_Tabs(t *testing.T) {
	t.Parallel()
	out, err := env.SetServer(".pml.json", []byte("{\n\t\"version\": 1\n}\n"), env.ServerEntry{Name: "a", Command: "x"})
	if err != nil || string(out) != "{\n\t\"version\": 1,\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t}\n}\n" {
		t.Errorf("%q %v", out, err)
	}
}

func TestEdit_Refused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"version": 1,}`, `{"what": 1}`, "{", "\xff{}", `{"mcpServers": []}`, `{"mcpServers": {"a": {"command": "x",},}}`} {
		for name, edit := range edits("a") {
			if out, err := edit([]byte(text)); core.CodeOf(err) != core.CodeInvalidConfig {
				t.Errorf("%s of %q: %q %v", name, text, out, err)
			}
		}
	}
	for _, bad := range []env.ServerEntry{{Name: "a:b", Command: "x"}, {Name: "workspace", Command: "x"}, {Name: "a"}, {Name: "a", URL: "ftp://x"}, {Name: "a", Command: "x", Env: map[string]string{"A": "${"}}} {
		if _, err := env.SetServer(".pml.json", nil, bad); core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func edits(server string) map[string]func([]byte) ([]byte, error) {
	return map[string]func([]byte) ([]byte, error){
		"SetServer":    func(b []byte) ([]byte, error) { e := memory; e.Name = server; return env.SetServer("f", b, e) },
		"RemoveServer": func(b []byte) ([]byte, error) { return env.RemoveServer("f", b, server) },
		"SetPin":       func(b []byte) ([]byte, error) { return env.SetPin("f", b, hash) },
		"RemovePin":    func(b []byte) ([]byte, error) { return env.SetPin("f", b, "") },
		"AddRule":      func(b []byte) ([]byte, error) { return env.AddRule("f", b, "ask", policy.Rule{Tool: server + ":*"}) },
	}
}

func TestRemoveServer(t *testing.T) {
	t.Parallel()
	const x = `{"command": "x"}`
	for before, after := range map[string]string{
		`{"mcpServers": {"a": ` + x + `, "b": ` + x + `}}`:                                   `{"mcpServers": {"b": ` + x + `}}`,
		`{"mcpServers": {"b": ` + x + `, "a": ` + x + `}}`:                                   `{"mcpServers": {"b": ` + x + `}}`,
		`{"mcpServers": {"a": ` + x + `}}`:                                                   `{"mcpServers": {}}`,
		"{\"mcpServers\": {\n  // a\n  \"a\": " + x + ",\n  \"b\": " + x + "\n}}":            "{\"mcpServers\": {\n  // a\n  \"b\": " + x + "\n}}",
		"{\"mcpServers\": {\r\n  \"b\": " + x + ", // b\r\n  \"a\": " + x + "\r\n}}":         "{\"mcpServers\": {\r\n  \"b\": " + x + " // b\r\n}}",
		"{\"mcpServers\": {\n  \"b\": " + x + ",\n  \"a\": {\n  \"command\": \"x\"\n}\n}}":   "{\"mcpServers\": {\n  \"b\": " + x + "\n}}",
		"{\"mcpServers\": {\n  \"a\": " + x + " /* a */ ,\n  \"b\": " + x + "\n}}":           "{\"mcpServers\": {\n  /* a */ \n  \"b\": " + x + "\n}}",
		"{\"mcpServers\": {\n  \"a\": " + x + "\n}}":                                         "{\"mcpServers\": {\n}}",
		"{\"mcpServers\": {\"a\": " + x + ", // about a\n \"b\": " + x + "}, \"version\":1}": "{\"mcpServers\": {// about a\n \"b\": " + x + "}, \"version\":1}",
	} {
		out, err := env.RemoveServer(".pml.json", []byte(before), "a")
		if err != nil || string(out) != after {
			t.Errorf("%v\n%q\n%q, want\n%q", err, before, out, after)
		}
	}
	_, err := env.RemoveServer(".pml.json", []byte(`{"mcpServers": {"memory": `+x+`}}`), "memroy")
	if core.CodeOf(err) != core.CodeNoSuchTool || !strings.Contains(err.Error(), "mean memory?") {
		t.Error(err)
	}
	_, err = env.RemoveServer(".pml.json", nil, "a")
	if core.CodeOf(err) != core.CodeNoSuchTool {
		t.Error(err)
	}
}

func TestSetPin(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text := []byte("{\n  \"approvals\": {\"ttl\": \"1m\"} // a\n}\n")
	out, err := env.SetPin("config.json", text, hash)
	if err != nil {
		t.Fatal(err)
	}
	b.write(b.home.Config(), string(out))
	equal(t, hash, b.load().Approvals.Pin)
	if out, err = env.SetPin("config.json", out, ""); err != nil || string(out) != string(text) {
		t.Errorf("%q %v", out, err)
	}
	if out, err = env.SetPin("config.json", text, ""); err != nil || string(out) != string(text) {
		t.Errorf("%q %v", out, err)
	}
}

// TestPin_OnlyTheHome: a workspace's file can neither set nor remove a PIN,
// trusted or not.
func TestPin_OnlyTheHome(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"approvals": {"pin": "`+hash+`"}}`)
	b.write(".pml.json", `{"approvals": {"ttl": "1m"}, "permissions": {"allow": ["a"]}}`)
	for _, trusted := range []bool{true, false} {
		equal(t, hash, b.load().Effective(trusted).Approvals.Pin)
	}
	for _, pin := range []string{`"` + hash + `"`, `""`, `null`} {
		b.write(".pml.json", `{"approvals": {"pin": `+pin+`}}`)
		if len(b.faults()) == 0 {
			t.Errorf("the workspace may say pin %s", pin)
		}
	}
}

// FuzzEdit: what an edit returns can be loaded, says what was asked for, and
// has every byte of the text that was not to change, in order.
func FuzzEdit(f *testing.F) {
	for _, s := range []string{
		"", "{}", hostile, keysConfig, string(env.Starter(false, false)), "\ufeff{}", "{\r\n\t\"mcpServers\": {\r\n\t}\r\n}", "{}//x", "{/**/}", "{\n/*\n*/}",
		`{"mcpServers":{"a":{"command":"x"},"memory":{"url":"http://x"}},"approvals":{"pin":"x"/**/,"ttl":"1m"}}`, "{\"permissions\":{\"ask\":[\"a\"//\n]}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, edit := range edits("memory") {
			out, err := edit(text)
			if err != nil {
				var e *core.Error
				if !errors.As(err, &e) || e.Code != core.CodeInvalidConfig && e.Code != core.CodeNoSuchTool {
					t.Fatalf("%s of %q: %v", name, text, err)
				}
				continue
			}
			b := newBox(t)
			b.write(b.home.Config(), string(out))
			if len(strings.TrimSpace(string(out))) == 0 {
				continue // nothing was to be removed from nothing
			}
			c, err := env.Load(b.options())
			if err != nil && strings.Contains(string(out), "${") {
				continue // a variable of the server's URL
			}
			if err != nil {
				t.Fatalf("%s of %q gave %q: %v", name, text, out, err)
			}
			says(t, name, c, text, out)
		}
	})
}

func says(t *testing.T, name string, c *env.Config, text, out []byte) {
	t.Helper()
	_, has := c.Servers["memory"]
	bad := false
	switch name {
	case "SetServer":
		bad = !has || c.Servers["memory"].Command != "npx" || !strings.Contains(string(text), "memory") && !within(text, out)
	case "RemoveServer":
		bad = has || !within(out, text)
	case "SetPin":
		bad = c.Approvals.Pin != hash || !strings.Contains(string(text), "pin") && !within(text, out)
	case "RemovePin":
		bad = c.Approvals.Pin != "" || !within(out, text)
	case "AddRule":
		bad = len(c.Permissions.Ask) == 0 || c.Permissions.Ask[len(c.Permissions.Ask)-1] != policy.Rule{Tool: "memory:*"} || !within(text, out)
	}
	if bad {
		t.Fatalf("%s of %q gave %q", name, text, out)
	}
}

// within reports whether the bytes of a, without spaces, stand in b in their
// order.
func within(a, b []byte) bool {
	for _, c := range []byte(strings.Join(strings.Fields(string(a)), "")) {
		i := strings.IndexByte(string(b), c)
		if i < 0 {
			return false
		}
		b = b[i+1:]
	}
	return true
}

func TestAddKeys(t *testing.T) {
	t.Parallel()
	out, err := env.AddKeys(".env", []byte("# keys\nA=1\nB=\nC=your-key-here"), map[string]string{
		"A": "2", "B": "it's", "C": "x y", "D": `{"k": "$v"}`, "E": "plain/value+1=", "F": "a\nb\"c\" # \\n", "G": "",
	})
	want := "# keys\nA=1\nB=\nC=your-key-here\nB=\"it's\"\nC='x y'\nD='{\"k\": \"$v\"}'\nE=plain/value+1=\nF=\"a\\nb\\\"c\\\" # \\\\n\"\nG=''\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = env.AddKeys(".env", []byte("A=1\r\n"), map[string]string{"B": "2"}); err != nil || string(out) != "A=1\r\nB=2\r\n" {
		t.Errorf("%q %v", out, err)
	}
	for text, code := range map[string]core.Code{"A=\"x": core.CodeInvalidConfig, "A": core.CodeInvalidConfig, "\x00": core.CodeInvalidConfig} {
		if _, err := env.AddKeys(".env", []byte(text), map[string]string{"B": "s3cret"}); core.CodeOf(err) != code || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for key, value := range map[string]string{"A B": "x", "A": "s3cret\x00", "": "x", "B": "s3cret\n\\", "É": "x", "C": "\xff"} {
		if _, err := env.AddKeys(".env", nil, map[string]string{key: value}); core.CodeOf(err) != core.CodeInvalidArguments || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// keysRoundTrip checks that what AddKeys writes is read back exactly.
func keysRoundTrip(t *testing.T, text []byte, values map[string]string) bool {
	t.Helper()
	have, faults := env.ParseDotEnv(".env", text)
	out, err := env.AddKeys(".env", text, values)
	if err != nil {
		code := core.CodeOf(err)
		return code == core.CodeInvalidConfig || code == core.CodeInvalidArguments
	}
	if len(faults) > 0 || !strings.HasPrefix(string(out), string(text)) {
		return false
	}
	got, faults := env.ParseDotEnv(".env", out)
	for name, value := range values {
		if have[name] == "" {
			have[name] = value
		}
	}
	ok := len(faults) == 0 && maps.Equal(got, have)
	if !ok {
		raw, _ := json.Marshal([]any{string(text), values, string(out), got})
		t.Logf("%s", raw)
	}
	return ok
}

func TestAddKeys_RoundTrip(t *testing.T) {
	t.Parallel()
	nasty := []string{"a", "'", `"`, `\`, "$", "${A}", "$(x)", "#", " ", " #", "\n", "\r", "\t", "é", "\u2028", "=", "`", "x"}
	refused := 0
	f := func(picks []uint8) bool {
		var v strings.Builder
		for _, p := range picks[:min(len(picks), 12)] {
			v.WriteString(nasty[int(p)%len(nasty)])
		}
		if _, err := env.AddKeys(".env", nil, map[string]string{"A": v.String()}); err != nil {
			refused++
		}
		return keysRoundTrip(t, []byte("# c\nZ='x'\nexport Y=${Z}"), map[string]string{"A": v.String(), "AA": v.String() + "'", "Z": "other"})
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	if refused > 600 {
		t.Errorf("%d of 2000 values were refused", refused)
	}
}

func FuzzAddKeys(f *testing.F) {
	f.Add([]byte("A=1\n"), "B", "x y")
	f.Add([]byte("A='"), "B", "$")
	f.Add([]byte(""), "B", "a\nb\\")
	f.Add([]byte("A=1 # \\\r"), "B", "'\"")
	f.Fuzz(func(t *testing.T, text []byte, name, value string) {
		if have, _ := env.ParseDotEnv(".env", text); have[name] != "" {
			return
		}
		if !keysRoundTrip(t, text, map[string]string{name: value}) {
			t.Fatalf("%q with %q=%q", text, name, value)
		}
	})
}

// TestSetDecider: who decides is set where comments and all else stay; what was said of
// a dialog before does not outlast the choice.
func TestSetDecider(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		before         string
		agents, dialog bool
		want           string
	}{
		{`{"version": 1}`, false, false, `{"version": 1, "approvals": {"decider": "human"}}`},
		{"{\n  // mine\n  \"approvals\": {\"ttl\": \"1h\"} // t\n}\n", true, false, "{\n  // mine\n  \"approvals\": {\"ttl\": \"1h\", \"decider\": \"any\"} // t\n}\n"},
		{`{"approvals": {"decider": "any"}}`, false, true, `{"approvals": {"decider": "human", "trust_host": true}}`},
		{`{"approvals": {"decider": "human", "trust_host": true}}`, false, false, `{"approvals": {"decider": "human", "trust_host": false}}`},
	} {
		if out, err := env.SetDecider(".pml.json", []byte(tt.before), tt.agents, tt.dialog); err != nil || string(out) != tt.want {
			t.Errorf("%s: %s (%v)", tt.before, out, err)
		}
	}
	if _, err := env.SetDecider(".pml.json", []byte(`{"versio": 1}`), false, false); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("%v", err)
	}
}
