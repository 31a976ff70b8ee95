//go:build unix

package stdio_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/testdata/clients/hosts/trial"
)

// questions are what docs/hosts.md says of a question in a host without a person
// before it, and whether pml asks the host, which the agent then reads in its result.
var questions = map[string]bool{"dismissed at once": true, "declined at once": true, "not declared": false}

// row is what docs/hosts.md says of a host that was tried.
type row struct{ command, question string }

// documented is the row of a host in the version that is installed.
func documented(t *testing.T, h trial.Host) row {
	t.Helper()
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	raw, err := os.ReadFile(filepath.Join("testdata", hostFiles, "package.json")) // from the root, see TestMain
	if err == nil {
		err = json.Unmarshal(raw, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("docs", "hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	titled := regexp.QuoteMeta(h.Title + " " + manifest.Dependencies[h.Package])
	cells := regexp.MustCompile("(?m)^\\| " + titled + " \\| `([^`]+)` \\| [^|]+ \\| ([a-z ]+[a-z])[^|]*\\|$").FindSubmatch(text)
	if cells == nil {
		t.Fatalf("docs/hosts.md has no row of %s %q", h.Title, manifest.Dependencies[h.Package])
	}
	return row{string(cells[1]), string(cells[2])}
}

// TestHosts_Documented: docs/hosts.md has each host in the version that is tried,
// with the command that is tried and a question whose end the trial can tell.
func TestHosts_Documented(t *testing.T) {
	t.Parallel()
	for _, h := range trial.Hosts {
		r := documented(t, h)
		if _, ok := questions[r.question]; !ok {
			t.Errorf("%s: nobody can tell a question that is %q", h.Title, r.question)
		}
		words := strings.Fields(r.command)
		if len(words) < 2 || words[len(words)-1] != "PROMPT" {
			t.Fatalf("%s: %s", h.Title, r.command)
		}
		for _, word := range words[1 : len(words)-1] {
			if !slices.Contains(h.Headless, word) {
				t.Errorf("%s is tried with %q, not with %s", h.Title, h.Headless, r.command)
			}
		}
	}
}

// checksQuestion holds whether the host was asked to what docs/hosts.md says.
func (p *hosted) checksQuestion() {
	p.T.Helper()
	result := p.results()[1]
	if asked := strings.Contains(result, "so nothing was decided"); asked != questions[p.documented.question] {
		p.T.Errorf("docs/hosts.md says of a question: %s; the agent got %s", p.documented.question, result)
	}
}
