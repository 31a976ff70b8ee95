package repository_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/mcp"
	"github.com/casys-ai/pml/core/server"
	"github.com/casys-ai/pml/core/skiptest"
)

var update = flag.Bool("update", false, "write docs/reference.md from the code")

// TestReference: docs/reference.md says what the code says. After a change of
// a flag, a route, a tool or a word, write it anew:
//
//	go test ./cmd/pml/e2e/repository -run TestReference -update
func TestReference(t *testing.T) {
	t.Parallel()
	want := reference(t)
	const file = "docs/reference.md"
	if *update {
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what the code says; go test ./cmd/pml/e2e/repository -run TestReference -update writes it (-code +file):\n%s", file, diff)
	}
}

func reference(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("# Reference\n\n`go test ./cmd/pml/e2e/repository -run TestReference -update` writes this page from the code, and a test compares the two.\n")
	writeWords(t, &b)
	writeCodes(t, &b)
	writeRoutes(t, &b)
	writeTools(t, &b)
	b.WriteString("\n## Configuration\n\nThe keys of `.pml.json` and of `config.json` in pml's home; `pml config schema` prints the whole schema.\n\n| key | what |\n|---|---|\n")
	var schema schemaNode
	if err := json.Unmarshal(env.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	writeKeys(&b, "", schema)
	b.WriteString("\n## Commands\n\n")
	if err := cli.WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// wordsOf reads the values of a type's constants out of the source of a package,
// in their order there.
func wordsOf(t *testing.T, dir, typ string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, ok := spec.Type.(*ast.Ident)
			lit, isLit := spec.Values[0].(*ast.BasicLit)
			if !ok || !isLit || name.Name != typ || lit.Kind != token.STRING {
				return true
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, value)
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("%s has no constants of type %s", dir, typ)
	}
	return out
}

func writeWords(t *testing.T, b *bytes.Buffer) {
	b.WriteString("\n## Words\n\n| of | in JSON | words |\n|---|---|---|\n")
	for _, of := range []struct{ what, field, dir, typ string }{
		{"a result", "status", "core/api", "Status"},
		{"a run", "state", "core", "RunState"},
		{"the kind of a run", "kind", "core", "Kind"},
		{"a task", "state", "core", "TaskState"},
		{"an outcome of a call", "outcome", "core", "Outcome"},
		{"an approval", "state", "core", "ApprovalState"},
		{"the type of an approval", "approval_type", "core", "ApprovalType"},
		{"a risk", "risk", "core", "Risk"},
		{"the way of a decision", "via", "core", "Via"},
		{"an event", "type", "core", "EventType"},
	} {
		var words []string
		for _, w := range wordsOf(t, of.dir, of.typ) {
			words = append(words, "`"+w+"`")
		}
		fmt.Fprintf(b, "| %s | `%s` | %s |\n", of.what, of.field, strings.Join(words, ", "))
	}
}

func writeCodes(t *testing.T, b *bytes.Buffer) {
	b.WriteString("\n## Error codes\n\nWhat `error_code` may be, the HTTP status that goes with it, and the exit code of a command that ends with it. A run that failed ends with 1 where the table has 2, 3 or 13: those say that nothing was run.\n\n| code | HTTP | exit |\n|---|---|---|\n")
	codes := wordsOf(t, "core", "Code")
	slices.Sort(codes)
	for _, w := range codes {
		fmt.Fprintf(b, "| `%s` | %d | %d |\n", w, server.StatusCode(core.Code(w)), app.ExitCode(core.Code(w)))
	}
	b.WriteString("\nOf results that are no error:\n\n| status | exit |\n|---|---|\n")
	for _, w := range wordsOf(t, "core/api", "Status") {
		if api.Status(w) != api.StatusError {
			fmt.Fprintf(b, "| `%s` | %d |\n", w, app.StatusExit(api.Status(w)))
		}
	}
}

func writeRoutes(t *testing.T, b *bytes.Buffer) {
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s := server.New(server.Options{Version: "reference", MCP: none, Metrics: none})
	defer s.Close()
	raw, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Summary string `json:"summary"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n## HTTP\n\n`GET /api/v1/openapi.json` describes all of it.\n\n| request | what |\n|---|---|\n")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			fmt.Fprintf(b, "| `%s %s` | %s |\n", strings.ToUpper(method), path, doc.Paths[path][method].Summary)
		}
	}
}

// schemaNode is what this page needs of a JSON Schema.
type schemaNode struct {
	Description string                `json:"description"`
	Type        any                   `json:"type"`
	Enum        []any                 `json:"enum"`
	Required    []string              `json:"required"`
	Properties  map[string]schemaNode `json:"properties"`
	Additional  json.RawMessage       `json:"additionalProperties"`
}

func writeTools(t *testing.T, b *bytes.Buffer) {
	var tools []struct {
		Name        string     `json:"name"`
		Description string     `json:"description"`
		Input       schemaNode `json:"inputSchema"`
	}
	if err := json.Unmarshal(mcp.Definitions(), &tools); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n## MCP tools\n")
	for _, tool := range tools {
		fmt.Fprintf(b, "\n### `%s`\n\n%s\n\n| argument | what |\n|---|---|\n", tool.Name, tool.Description)
		writeKeys(b, "", tool.Input)
	}
}

// writeKeys writes a line for each value that a schema describes.
func writeKeys(b *bytes.Buffer, prefix string, s schemaNode) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		about := p.Description
		if len(p.Enum) > 0 {
			var words []string
			for _, w := range p.Enum {
				words = append(words, "`"+strings.Trim(strconv.Quote(fmt.Sprint(w)), `"`)+"`")
			}
			about = strings.TrimSpace(about + " One of " + strings.Join(words, ", ") + ".")
		}
		if slices.Contains(s.Required, name) {
			about += " Required."
		}
		fmt.Fprintf(b, "| `%s%s` | %s |\n", prefix, name, strings.ReplaceAll(strings.TrimSpace(about), "|", `\|`))
		writeKeys(b, prefix+name+".", p)
		var each schemaNode
		if json.Unmarshal(p.Additional, &each) == nil {
			writeKeys(b, prefix+name+".NAME.", each)
		}
	}
}

// TestReference_Document keeps what redocly's lint wants of the OpenAPI document
// without npm: servers, a license, answers of the 400s, and no schema that
// nothing refers to.
func TestReference_Document(t *testing.T) {
	t.Parallel()
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s := server.New(server.Options{Version: "reference", MCP: none, Metrics: none})
	defer s.Close()
	raw, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Info    struct{ License map[string]string }
		Servers []map[string]string
		Paths   map[string]map[string]struct {
			Responses map[string]json.RawMessage
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Info.License["name"] == "" || len(doc.Servers) == 0 {
		t.Errorf("license %v, servers %v", doc.Info.License, doc.Servers)
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(op.Responses)), func(status string) bool { return status[0] == '4' }) {
				t.Errorf("%s %s has no answer of the 400s", method, path)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !bytes.Contains(raw, []byte(`"#/components/schemas/`+name+`"`)) {
			t.Errorf("nothing refers to the schema %s", name)
		}
	}
}

// TestReference_Redocly: the lint that users of OpenAPI documents run finds no
// error and no warning.
func TestReference_Redocly(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs @redocly/cli from npm")
	npx := skiptest.Tool(t, "npx")
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s := server.New(server.Options{Version: "reference", MCP: none, Metrics: none})
	defer s.Close()
	raw, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npx, "--yes", "@redocly/cli@2.77.0", "lint", "--format=json", "openapi.json")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	out, err := cmd.Output()
	var found struct {
		Totals   map[string]int
		Problems json.RawMessage
	}
	if decodeErr := json.Unmarshal(out, &found); err != nil || decodeErr != nil || found.Totals == nil || found.Totals["errors"]+found.Totals["warnings"] > 0 {
		t.Errorf("%v, %v: %v %s", err, decodeErr, found.Totals, found.Problems)
	}
}
