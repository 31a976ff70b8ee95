//go:build unix

package stdio_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// ownTools are those of pml itself.
var ownTools = []string{"workflow_status", "flow_status", "discover", "execute", "agent_delegate", "continue", "approval_response", "replan", "abort"}

// asked is what the suite gives to a client: the address of its server, and for some
// scenarios what a person would have been told beforehand.
type asked struct {
	URL     string
	Context string
}

// clientRun is one scenario of the suite with pml as its client.
type clientRun struct {
	t *testing.T
	m *pmltest.Machine
	asked
	scenario string
}

// clientSteps are what pml is made to do in a scenario, by the beginning of its name:
// the longest that fits counts.
var clientSteps = map[string]func(*clientRun){
	"":                                    func(r *clientRun) { r.executes("return 1") },
	"tools_call":                          func(r *clientRun) { r.executes("return await mcp.fix.add_numbers({a: 5, b: 3})") },
	"sse-retry":                           func(r *clientRun) { r.executes("return await mcp.fix.test_reconnection({})") },
	"auth/":                               (*clientRun).connects,
	"http-custom-headers":                 (*clientRun).executesContext,
	"http-standard-headers":               (*clientRun).usesAll,
	"http-invalid-tool-headers":           (*clientRun).usesAll,
	"json-schema-ref-no-deref":            (*clientRun).usesAll,
	"json-schema-2020-12-preservation":    (*clientRun).echoesSchema,
	"elicitation-sep1034-client-defaults": (*clientRun).usesAll,
	"sep-2322-client-request-state":       (*clientRun).answersInBetween,
}

// known is what is expected not to pass. It is kept beside the suite's lock file.
type known struct {
	// Failing are checks, by scenario, that fail or warn.
	Failing map[string]struct {
		Reason string
		Checks []string
	}
	// Empty are scenarios in which no check passes, each with its reason.
	Empty map[string]string
}

// TestConformance_Client: the official suite looks at what pml does as a client of its
// servers, in all of its scenarios for clients. A check that fails or warns stands in
// expected-failures.json with a reason, and what stands there still fails.
func TestConformance_Client(t *testing.T) {
	t.Parallel()
	packages := pmltest.NPMPackages(t, filepath.Join("clients", "conformance"), "ci")
	node := nodeFor(t, packages, true)
	var expected known
	file := filepath.Join(repository(t), "testdata", "clients", "conformance", "expected-failures.json")
	if err := json.Unmarshal([]byte(pmltest.ReadFile(t, file)), &expected); err != nil {
		t.Fatal(err)
	}
	scenarios := clientScenarios(t, node, packages)
	for name := range expected.Failing {
		if !slices.Contains(scenarios, name) {
			t.Errorf("expected-failures.json: the suite has no scenario %s", name)
		}
	}
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing, passed := judgeClient(t, node, packages, name)
			want := expected.Failing[name]
			slices.Sort(want.Checks)
			if !slices.Equal(failing, want.Checks) {
				t.Errorf("not passed: %q; expected-failures.json has %q", failing, want.Checks)
			}
			if why, ok := expected.Empty[name]; ok != (passed == 0) {
				t.Errorf("%d checks passed; expected-failures.json says of none: %q", passed, why)
			}
		})
	}
}

// clientScenarios are the names of all scenarios for clients.
func clientScenarios(t *testing.T, node, packages string) (names []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), node, suiteProgram(packages), "list").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, list, _ := strings.Cut(string(out), "\nClient scenarios")
	list, _, _ = strings.Cut(list, "\nAuthorization server scenarios")
	for _, m := range regexp.MustCompile(`(?m)^  - (\S+)`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	if len(names) < 40 {
		t.Fatalf("only %d scenarios:\n%s", len(names), out)
	}
	return names
}

func suiteProgram(packages string) string {
	return filepath.Join(packages, "node_modules", "conformance-0-2-0", "dist", "index.js")
}

// judgeClient runs a scenario. It returns the checks that failed or warned, sorted, and
// how many passed.
func judgeClient(t *testing.T, node, packages, scenario string) (failing []string, passed int) {
	t.Helper()
	m := pmltest.BareMachine(t)
	m.Setenv("BROWSER", program(m, "browser", node, "-e", "await fetch(process.argv[1])"))
	var once sync.Once
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run := &clientRun{t: t, m: m, scenario: scenario}
		if err := json.NewDecoder(r.Body).Decode(&run.asked); err != nil {
			t.Error(err)
		}
		once.Do(run.take)
	}))
	t.Cleanup(front.Close)
	ctx, cancel := context.WithTimeout(t.Context(), pmltest.Patience)
	defer cancel()
	out := t.TempDir()
	ask := program(m, "client", node, filepath.Join(repository(t), "testdata", "clients", "conformance", "ask.mjs"), front.URL)
	said, _ := exec.CommandContext(ctx, node, suiteProgram(packages), "client", "--command", ask, "--scenario", scenario,
		"--timeout", "120000", "-o", out).CombinedOutput() // how it ends stands in its checks
	files, _ := filepath.Glob(filepath.Join(out, "*", "checks.json"))
	deeper, _ := filepath.Glob(filepath.Join(out, "*", "*", "checks.json")) // a scenario's name may have a slash
	files = append(files, deeper...)
	if len(files) != 1 {
		t.Fatalf("%d results\n%s", len(files), said)
	}
	var checks []check
	if err := json.Unmarshal([]byte(pmltest.ReadFile(t, files[0])), &checks); err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			passed++
		case "FAILURE", "WARNING":
			t.Logf("%s: %s: %s", c.Status, c.ID, c.ErrorMessage)
			failing = append(failing, c.ID)
		}
	}
	slices.Sort(failing)
	return slices.Compact(failing), passed
}

// program writes a program that runs a command line, with its own arguments after it.
func program(m *pmltest.Machine, name string, argv ...string) string {
	m.T.Helper()
	for i, a := range argv {
		argv[i] = "'" + a + "'"
	}
	file := filepath.Join(m.Dir, name)
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexec "+strings.Join(argv, " ")+` "$@"`+"\n"), 0o700); err != nil {
		m.T.Fatal(err)
	}
	return file
}

// take has pml do what the scenario is about. It runs beside the test, so it never ends it.
func (r *clientRun) take() {
	entry := map[string]any{"url": r.URL}
	var beforehand struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if json.Unmarshal([]byte(r.Context), &beforehand) == nil && beforehand.ID != "" {
		entry["oauth"] = map[string]any{"client_id": beforehand.ID, "client_secret": "${FIX_SECRET}"}
		r.m.Setenv("FIX_SECRET", cmp.Or(beforehand.Secret, "none"))
	}
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"fix": entry}, "permissions": map[string]any{"allow": []string{"fix"}}, "expose": []string{"fix"},
	})
	if err != nil {
		r.t.Error(err)
	}
	r.m.Write(".pml.json", string(raw))
	r.pml("trust", "--yes")
	steps, longest := clientSteps[""], ""
	for name, f := range clientSteps {
		if strings.HasPrefix(r.scenario, name) && len(name) > len(longest) {
			steps, longest = f, name
		}
	}
	steps(r)
}

// pml runs a command, which may fail, and returns its exit code.
func (r *clientRun) pml(args ...string) int {
	out := r.m.PML(args...)
	r.t.Logf("pml %q: exit %d\n%s%s", args, out.Exit, out.Stdout, out.Stderr)
	return out.Exit
}

func (r *clientRun) executes(code string) int {
	r.pml("servers", "check")
	return r.pml("execute", "--code", code)
}

// executesContext makes the calls that the suite lists.
func (r *clientRun) executesContext() {
	var context struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(r.Context), &context); err != nil || len(context.ToolCalls) == 0 {
		r.t.Errorf("the suite lists no calls: %v %s", err, r.Context)
	}
	for _, c := range context.ToolCalls {
		r.pml("execute", "--code", fmt.Sprintf("return await mcp.fix[%q](%s)", c.Name, c.Arguments))
	}
}

// connects signs in, calls a tool, and signs in again when that asks for it.
func (r *clientRun) connects() {
	const waits = 8 // the exit code of a run that waits for a person
	for range 3 {
		if r.pml("servers", "connect", "fix", "--open", "--timeout", "20s") != 0 {
			return
		}
		if r.executes(`return await mcp.fix["test-tool"]({})`) != waits {
			return
		}
	}
}

// through connects a client that pml offers the server to. It accepts what it is asked
// with what answer returns.
func (r *clientRun) through(ctx context.Context, answer func(*sdk.ClientSession) map[string]any) (*sdk.ClientSession, error) {
	var session *sdk.ClientSession
	c := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: answer(session)}, nil
		},
	})
	var err error
	session, err = c.Connect(ctx, &sdk.CommandTransport{Command: stdioTarget(r.m).command(ctx)}, nil)
	return session, err
}

// usesAll calls every tool of the server, reads every resource and gets every prompt.
func (r *clientRun) usesAll() {
	r.offered(nil, func(ctx context.Context, s *sdk.ClientSession, tools []*sdk.Tool) {
		for _, tool := range tools {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool.Name, Arguments: argumentsFor(tool)})
			r.t.Logf("%s: %v", tool.Name, err)
		}
		for res, err := range s.Resources(ctx, nil) {
			if err == nil {
				_, err = s.ReadResource(ctx, &sdk.ReadResourceParams{URI: res.URI})
			}
			if err != nil {
				r.t.Logf("a resource: %v", err)
				break
			}
		}
		for p, err := range s.Prompts(ctx, nil) {
			if err == nil {
				_, err = s.GetPrompt(ctx, &sdk.GetPromptParams{Name: p.Name})
			}
			if err != nil {
				r.t.Logf("a prompt: %v", err)
				break
			}
		}
	})
}

// echoesSchema gives the schema of one tool, as pml offers it, to another one.
func (r *clientRun) echoesSchema() {
	r.offered(nil, func(ctx context.Context, s *sdk.ClientSession, tools []*sdk.Tool) {
		for _, tool := range tools {
			if tool.Name == "json_schema_2020_12_tool" {
				_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "json_schema_echo", Arguments: map[string]any{"schema": tool.InputSchema}})
				r.t.Logf("json_schema_echo: %v", err)
			}
		}
	})
}

// answersInBetween answers the questions of calls, and makes another call before the
// first of the answers.
func (r *clientRun) answersInBetween() {
	var once sync.Once
	answer := func(s *sdk.ClientSession) map[string]any {
		once.Do(func() {
			_, err := s.CallTool(r.t.Context(), &sdk.CallToolParams{Name: "test_mrtr_unrelated"})
			r.t.Logf("test_mrtr_unrelated, in between: %v", err)
		})
		return map[string]any{"confirmed": true}
	}
	r.offered(answer, func(ctx context.Context, s *sdk.ClientSession, _ []*sdk.Tool) {
		for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: name})
			r.t.Logf("%s: %v", name, err)
		}
	})
}

// offered connects a client and hands out the tools that come from the server.
func (r *clientRun) offered(answer func(*sdk.ClientSession) map[string]any, use func(context.Context, *sdk.ClientSession, []*sdk.Tool)) {
	if answer == nil {
		answer = func(*sdk.ClientSession) map[string]any { return map[string]any{} }
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), pmltest.Patience)
	defer cancel()
	s, err := r.through(ctx, answer)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer func() { _ = s.Close() }()
	var tools []*sdk.Tool
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			r.t.Error(err)
			return
		}
		if !slices.Contains(ownTools, tool.Name) {
			tools = append(tools, tool)
		}
	}
	use(ctx, s, tools)
}

// argumentsFor are values for what a tool requires.
func argumentsFor(tool *sdk.Tool) map[string]any {
	schema, _ := tool.InputSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	args := map[string]any{}
	for _, name := range required {
		key, _ := name.(string)
		property, _ := properties[key].(map[string]any)
		kind, _ := property["type"].(string)
		args[key] = map[string]any{"string": "a", "integer": 1, "number": 1.5, "boolean": true, "object": map[string]any{}, "array": []any{}}[kind]
	}
	return args
}
