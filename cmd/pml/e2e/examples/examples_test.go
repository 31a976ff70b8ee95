// Package examples_test runs the programs of docs/examples as their first lines say, and decides what they ask.
package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }

// results has a text that must be in the result of each example.
var results = map[string]string{
	"count-words.ts":      `"notes/bees.md":18`,
	"fall-back.ts":        `"used":"notes/apples.md"`,
	"page-by-page.ts":     `"pages":3`,
	"with-input.ts":       `["notes/bees.md"]`,
	"write-index.ts":      `2 lines in out/todo.md`,
	"notes.yaml":          `"out/copy.md"`,
	"layer-by-layer.yaml": `"files_searched":3`,
	"npm-filesystem.ts":   `11 degrees`,
	"npm-memory.ts":       `weak in autumn`,
	"npm-everything.ts":   `is 42`,
}

// maxSteps bounds how often one example may stop.
const maxSteps = 6

// TestExamples: each example ends as its first lines say, and asks for no more and no less than these name.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("docs/examples/*.[ty][sa]*")
	if err != nil || len(files) != len(results) {
		t.Fatalf("%d examples, %d results: %v", len(files), len(results), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "npm-") {
				skiptest.Long(t, "installs from the npm registry")
				skiptest.Tool(t, "npm")
			}
			e := newExample(t, name)
			e.pml("trust", "--yes")
			r := e.result(append([]string{"execute"}, e.args...)...)
			asked, pauses := e.decide(r)
			want := strings.Fields(strings.ReplaceAll(e.line("asks"), ",", " "))
			if diff := cmp.Diff(want, asked, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("asked for other things (-want +got):\n%s", diff)
			}
			if got := strings.Repeat("1", pauses); got != e.line("pauses") {
				t.Errorf("it paused %d times, and says %q", pauses, e.line("pauses"))
			}
		})
	}
}

// example is one program in a copy of the folder, with a home of its own.
type example struct {
	t    *testing.T
	name string
	dir  string
	env  []string
	text string
	args []string // of pml execute, as the example says
}

func newExample(t *testing.T, name string) *example {
	t.Helper()
	e := &example{t: t, name: name, dir: filepath.Join(t.TempDir(), "examples")}
	if err := os.CopyFS(e.dir, os.DirFS("docs/examples")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	e.text = string(raw)
	e.env = append(os.Environ(), "PML_HOME="+t.TempDir(), "PML_NO_AUTOSTART=1", "PWD="+e.dir)
	command := regexp.MustCompile(`pml execute (\S+)(?: --input '([^']*)')?( --per-layer)?`).FindStringSubmatch(e.text)
	if command == nil || command[1] != name {
		t.Fatalf("%s does not say how it is run", name)
	}
	e.args = []string{name}
	if command[2] != "" {
		e.args = append(e.args, "--input", command[2])
	}
	if command[3] != "" {
		e.args = append(e.args, "--per-layer")
	}
	return e
}

// line returns what the example says of itself behind a word; empty if it says nothing.
func (e *example) line(word string) string {
	m := regexp.MustCompile(`(?m)^(?://|#) ` + word + `: (.*)$`).FindStringSubmatch(e.text)
	if m == nil {
		return ""
	}
	return m[1]
}

// decide approves what the example asks for until it ends, and returns the types in order and how often it paused.
func (e *example) decide(r api.Result) (asked []string, pauses int) {
	e.t.Helper()
	for range maxSteps {
		id := string(r.WorkflowID)
		switch r.Status {
		case api.StatusSuccess, api.StatusComplete:
			var plain bytes.Buffer
			if err := json.Compact(&plain, r.Result); err != nil || !strings.Contains(plain.String(), results[e.name]) {
				e.t.Errorf("its result has no %s: %s", results[e.name], r.Result)
			}
			return asked, pauses
		case api.StatusApprovalRequired:
			asked = append(asked, string(r.ApprovalType))
			r = e.result("continue", id, "--approve", "--approval", string(r.CheckpointID))
		case api.StatusLayerComplete:
			pauses++
			r = e.result("continue", id)
		default:
			e.t.Fatalf("it ended with %s: %s", r.Status, r.Result)
		}
	}
	e.t.Fatalf("it asked for %q and goes on asking", asked)
	return nil, 0
}

// result runs pml and returns what it has printed.
func (e *example) result(args ...string) (r api.Result) {
	e.t.Helper()
	out := e.pml(append(args, "--json")...)
	if err := json.Unmarshal(out, &r); err != nil {
		e.t.Fatalf("pml %q prints no result: %v\n%s", args, err, out)
	}
	return r
}

// pml runs a command in the folder of the example. Exit code 8 asks for a decision; another one fails the test.
func (e *example) pml(args ...string) []byte {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, pmltest.PML(e.t), args...)
	cmd.Dir, cmd.Env = e.dir, e.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 8) {
		e.t.Fatalf("pml %q: %v\n%s%s", args, err, &stderr, &stdout)
	}
	return stdout.Bytes()
}
