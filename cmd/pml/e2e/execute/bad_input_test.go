//go:build unix

package execute_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// badCase is an input that cannot be run. Each gives one error that lists all
// that is wrong with it, and starts nothing.
type badCase struct {
	name  string
	files map[string]string
	args  []string
	exit  int
	code  core.Code
	texts []string
}

// Issue 2, "Bad input": every kind of it gets one error that lists all that is
// wrong, with position and the nearest valid name, the right exit code, and
// nothing started: no run, no server.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for i, c := range badCases() {
		t.Run(c.name, func(t *testing.T) {
			skiptest.Share(t, i, 3)
			t.Parallel()
			m := pmltest.NewMachine(t, pmltest.AllowRec())
			for name, text := range c.files {
				m.Write(name, text)
			}
			o := m.Exit(c.exit, c.args...)
			pmltest.Wants(t, o.Stderr, append([]string{"error: "}, c.texts...)...)
			if o.Stdout != "" || strings.Count(o.Stderr, "error: ") != 1 {
				t.Errorf("stdout %q, stderr %s", o.Stdout, o.Stderr)
			}
			if f := m.Exit(c.exit, append([]string{"--json"}, c.args...)...).Fault(); f.Code != c.code || f.Exit != c.exit {
				t.Errorf("code %s, exit %d", f.Code, f.Exit)
			}
			nothingStarted(t, m)
		})
	}
}

func badCases() []badCase {
	dag := func(name, text string, exit int, texts ...string) badCase {
		return badCase{name, map[string]string{"d.yaml": text}, []string{"execute", "d.yaml"}, exit, core.CodeDAGInvalid, texts}
	}
	config := func(name, text string, texts ...string) badCase {
		return badCase{name, map[string]string{".pml.json": text}, []string{"execute", "--code", "return 1"}, 13, core.CodeInvalidConfig, texts}
	}
	code := func(name, script string, exit int, code core.Code, texts ...string) badCase {
		return badCase{name, map[string]string{"s.ts": script}, []string{"execute", "s.ts"}, exit, code, texts}
	}
	usage := func(name string, args []string, texts ...string) badCase {
		return badCase{name, nil, args, 2, core.CodeUsage, texts}
	}
	return []badCase{
		dag("DAG_Everything", "intents: x\ntasks:\n  - id: a\n    tol: rec:echo\n  - id: b\n    tool: rec:echo\n    depends_on: [aa, b]\n    retry: {max_attempts: many}\n  - id: a\n    tool: rec:echo\n    arguments: {value: \"$OUTPUT[zz].x\"}\n", 13,
			"d.yaml:1:1:/intents: unknown key \"intents\" (did you mean intent?)", "d.yaml:4:5:/tasks/0/tol: unknown key \"tol\" (did you mean tool?)",
			"d.yaml:7:18:/tasks/1/depends_on/0", "(did you mean a", "task b depends on itself", "max_attempts: expected a whole number, got a string",
			"the id \"a\" is used twice", "there is no task \"zz\"", "7 faults"),
		dag("DAG_Cycle", "tasks:\n- {id: a, tool: rec:echo, depends_on: [c]}\n- {id: b, tool: rec:echo, depends_on: [a]}\n- {id: c, tool: rec:echo, depends_on: [b]}\n- {id: d, tool: rec:echo, depends_on: [e]}\n- {id: e, tool: rec:echo, depends_on: [d]}\n", 13,
			"a → c → b → a", "d → e → d", "d.yaml:2:"),
		dag("DAG_Tools", "tasks:\n- {id: a, tool: rec:ecko}\n- id: b\n  tool: rek:echo\n- {id: c, tool: rec:write, arguments: {pat: $nothing}}\n- {id: d, tool: rec:red, when: 'false'}\n", 13,
			"4 calls cannot be made", "nothing was run", "warning: task c: \"$nothing\" names no task", "d.yaml:2:", "no tool rec:ecko (did you mean rec:echo?)", "d.yaml:4:3:", "did you mean rec?", "missing property 'path'", "no tool rec:red (did you mean rec:read"),
		{"DAG_Comma", map[string]string{"d.json": `{"tasks":[{"id":"a","tool":"rec:echo",}]}`}, []string{"execute", "d.json"}, 13, core.CodeDAGInvalid, []string{"d.json:1:38: a comma before the closing bracket"}},
		{"DAG_Array", map[string]string{"d.json": `[{"id":"a","tool":"rec:echo","depends_on":["x"]}]`}, []string{"execute", "d.json"}, 13, core.CodeDAGInvalid, []string{"d.json:1:44:", `depends on "x"`}},
		{"DAG_Types", map[string]string{"d.json": `{"tasks": {"id": 5}}`}, []string{"execute", "d.json"}, 13, core.CodeDAGInvalid, []string{"d.json:1:11:/tasks: expected an array"}},
		dag("DAG_YAML", "tasks:\n  - id: a\n   tool: [\n", 13, "d.yaml:3"),
		{"Server", nil, []string{"execute", "--server", "http://127.0.0.1:9", "--code", "return 1"}, 5, core.CodeServerUnreachable, []string{"nobody answers at http://127.0.0.1:9", "--server"}},
		dag("DAG_None", "tasks: []\n", 13, "there are no tasks"),

		config("Config_Comma", `{"permissions":{"allow":["rec"],}}`, ".pml.json:1:32: trailing comma"),
		config("Config_Everything", "{\"mcpServer\": {},\n \"permissions\": {\"alow\": [], \"deny\": \"x\"},\n \"limits\": {\"calls\": \"5\"}, \"approvals\": {\"ttl\": \"soon\", \"decider\": \"humen\"},\n \"mcpServers\": {\"a\": {\"comand\": \"x\"}, \"b\": {\"url\": \"ftp://x\"}}}",
			".pml.json:1:2:/mcpServer: unknown key \"mcpServer\" (did you mean mcpServers", ".pml.json:2:18:/permissions/alow", "did you mean allow", "must be a list of patterns",
			"/limits/calls", "/approvals/ttl", "did you mean human", "did you mean command", ".pml.json:4:", "http://"),
		config("Config_Empty", "", ".pml.json:1:1:"),
		config("Config_Binary", "\xff\xfe\x00", ".pml.json:1:1: the file is not UTF-8 text"),
		config("Config_List", "[]", ".pml.json:1:1: must be an object"),
		config("Config_Pattern", `{"permissions":{"deny":["a:[","b:{"]}}`, "permissions"),

		code("Code_Empty", " \n", 2, core.CodeEmptyCode, "s.ts is empty"),
		code("Code_Large", strings.Repeat("a", 200<<10), 2, core.CodeTooLarge, "204800 bytes", "100 KiB"),
		code("Code_Binary", "\x7fELF\x00\x01", 2, core.CodeUsage, "s.ts is a binary file"),
		code("Code_NotUTF8", "return 1\n// \xff", 2, core.CodeUsage, "s.ts is not UTF-8", "2:4"),
		code("Code_Syntax", "const a = 1;\nreturn a +;\n", 1, core.CodeSyntax, "s.ts:2:11"),
		code("Code_Tools", "await mcp.rec.ecko({});\nawait mcp.rek.echo({});\n", 3, core.CodeNoSuchTool, "2 calls cannot be made",
			"s.ts:1:15: there is no tool rec:ecko (did you mean rec:echo?)", "s.ts:2:15: there is no server \"rek\"", "did you mean rec?"),

		{"File_Missing", map[string]string{"script.ts": "return 1"}, []string{"execute", "scrpt.ts"}, 2, core.CodeUsage, []string{"no such file: scrpt.ts (did you mean script.ts?)"}},
		usage("File_Folder", []string{"execute", "."}, "is a folder"),
		usage("Nothing", []string{"execute"}, "nothing to run"),
		usage("Both", []string{"execute", "x.ts", "--code", "1"}, "not both"),
		usage("Flag", []string{"execute", "--hill", "never", "--code", "1"}, "unknown flag --hill", "did you mean --hil"),
		usage("Mode", []string{"execute", "--hil", "alway", "--code", "1"}, "did you mean always"),
		usage("Command", []string{"exceute", "x.ts"}, "unknown command", "did you mean execute"),
		usage("Input", []string{"execute", "--code", "1", "--input", "{x"}, "--input is not JSON at 1:2"),
		usage("Output", []string{"workflows", "ls", "-o", "xml"}, "unknown output format"),
		{"Tool_Unknown", nil, []string{"tools", "call", "rec:ecko"}, 3, core.CodeNoSuchTool, []string{"no tool rec:ecko (did you mean rec:echo?)", "next: pml tools ls"}},
		{"Tool_Arguments", nil, []string{"tools", "call", "rec:write", "--args", `{"pat":"x"}`}, 2, core.CodeInvalidArguments, []string{"missing property 'path'"}},
		usage("Tool_JSON", []string{"tools", "call", "rec:write", "--args", `{"pat`}, "--args is not JSON"),
		{"Id_Unknown", nil, []string{"workflows", "show", "abcdef12"}, 3, core.CodeNotFound, []string{"abcdef12", "next: pml workflows ls"}},
		{"Id_Short", nil, []string{"continue", "abc"}, 3, core.CodeNotFound, []string{"at least 4"}},
		{"Id_None", nil, []string{"continue", "@latest"}, 3, core.CodeNotFound, []string{"no run yet"}},
	}
}

// nothingStarted wants that no run was made and no tool called.
func nothingStarted(t *testing.T, m *pmltest.Machine) {
	t.Helper()
	if runs := m.Runs(); len(runs) != 0 {
		t.Errorf("%d runs: %+v", len(runs), runs[0])
	}
	if calls := m.Calls(); len(calls) != 0 {
		t.Errorf("calls: %q", calls)
	}
}

// TestBadInput_Variable: a variable that is set nowhere is named with its place
// and the nearest name of .env, for every call of the server at once.
func TestBadInput_Variable(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Write(".env", "RECORDER_LGO=x\n")
	m.Configure(pmltest.Config{Permissions: pmltest.AllowRec().Permissions, Servers: map[string]map[string]any{
		"rec": {"command": pmltest.Recorder(t), "args": []string{"--log", "${RECORDER_LOG}", "--name", "${NAME_OF_IT}"}},
	}})
	o := m.Exit(13, "execute", "--code", `await mcp.rec.echo({value: 1}); await mcp.rec.inc({key: "k"})`)
	pmltest.Wants(t, o.Stderr, "/mcpServers/rec/args/1: ${RECORDER_LOG} is not set (did you mean RECORDER_LGO?)", "/mcpServers/rec/args/3: ${NAME_OF_IT} is not set", ".pml.json:", "nothing was run")
	if n := strings.Count(o.Stderr, "RECORDER_LOG} is not set"); n != 1 {
		t.Errorf("said %d times", n)
	}
	nothingStarted(t, m)
}

// TestBadInput_Prefix: a text that several ids begin with names them all. Of a
// thousand random ids some share their first four digits.
func TestBadInput_Prefix(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "makes 1,200 runs")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	// Of 1,200 ids two share four digits but once in 60,000 times. As many calls in
	// one turn would take the sandbox on a busy machine longer than it may.
	for range 6 {
		m.Execute(8, `await Promise.all(Array.from({length: 200}, (_, i) => mcp.rec.danger({x: String(i)})))`)
	}
	byPrefix := map[string][]string{}
	for _, a := range m.Approvals() {
		byPrefix[string(a.ID[:4])] = append(byPrefix[string(a.ID[:4])], string(a.ID))
	}
	for prefix, ids := range byPrefix {
		if len(ids) < 2 {
			continue
		}
		for _, args := range [][]string{{"approvals", "show", prefix}, {"continue", prefix, "--approve"}, {"abort", prefix}} {
			pmltest.Wants(t, m.Exit(3, args...).Stderr, append([]string{"is the beginning of"}, ids...)...)
		}
		if m.Count("danger") != 0 {
			t.Error("something was approved")
		}
		return
	}
	t.Fatalf("no two of %d ids share four digits", len(byPrefix))
}
