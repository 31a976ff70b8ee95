package corpus_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// corpusScript is a script of testdata/corpus with what its header says.
type corpusScript struct {
	Name       string // file name without extension
	File       string
	Source     string
	Constructs string
	Partial    bool   // concurrent calls may come in any order among themselves
	Free       bool   // and no two of its calls are bound, although most runs look as if
	Throws     string // the message of the uncaught error that it ends with
	Input      json.RawMessage
}

// golden is what plain node does with a script: the truth that pml is compared
// with. go test ./cmd/pml/e2e/corpus -run TestCorpus_Node -update writes the goldens.
type golden struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *goldenError    `json:"error,omitempty"`
	// Order is "total" when each call is made after the one before it has
	// settled; otherwise After has the pairs [i, j] where call j is made only
	// after call i has settled, whatever the timing.
	Order string   `json:"order"`
	After [][2]int `json:"after,omitempty"`
	// Issue is "fixed" when the script always makes its calls in the order of
	// Calls, and "varies" when that depends on which answers come first.
	Issue string       `json:"issue"`
	Calls []goldenCall `json:"calls"`
	Logs  []string     `json:"logs,omitempty"`
}

type goldenError struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Code      string `json:"code,omitempty"` // of tool errors
	Tool      string `json:"tool,omitempty"`
	Unhandled bool   `json:"unhandled,omitempty"`
}

type goldenCall struct {
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
}

// key names a call by what it asks for.
func (c goldenCall) key() string { return c.Server + ":" + c.Tool + string(compact(c.Args)) }

// compact brings JSON into one form: sorted keys, no spaces, Go's numbers.
func compact(raw json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

func loadCorpus(t *testing.T) []corpusScript {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.js", "*.ts"} {
		found, err := filepath.Glob(filepath.Join("testdata", "corpus", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	sort.Strings(files)
	scripts := make([]corpusScript, 0, len(files))
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, parseHeader(f, string(src)))
	}
	return scripts
}

func parseHeader(file, src string) corpusScript {
	base := filepath.Base(file)
	s := corpusScript{Name: strings.TrimSuffix(base, filepath.Ext(base)), File: file, Source: src}
	for line := range strings.Lines(src) {
		text, ok := strings.CutPrefix(line, "// ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(text), ": ")
		switch key {
		case "constructs":
			s.Constructs = value
		case "order":
			s.Free = value == "free"
			s.Partial = value == "partial" || s.Free
		case "throws":
			s.Throws = value
		case "input":
			s.Input = json.RawMessage(value)
		}
	}
	return s
}

// stripTypes makes JavaScript of a script: the body of an async function.
// This is the test's own way, apart from the sandbox's.
func stripTypes(t *testing.T, s corpusScript) string {
	t.Helper()
	r := api.Transform("async function __body() {\n"+s.Source+"\n}", api.TransformOptions{
		Loader: api.LoaderTS, Target: api.ESNext, Charset: api.CharsetUTF8, Sourcefile: s.File,
	})
	for _, e := range r.Errors {
		t.Errorf("%s:%d: %s", s.File, e.Location.Line-1, e.Text)
	}
	return string(r.Code) + "\nreturn await __body();"
}

func goldenPath(name string) string {
	return filepath.Join("testdata", "corpus", "golden", name+".json")
}

func loadGolden(t *testing.T, name string) golden {
	t.Helper()
	raw, err := os.ReadFile(goldenPath(name))
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("no golden for %s: run go test ./cmd/pml/e2e/corpus -run TestCorpus_Node -update", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatalf("%s: %v", goldenPath(name), err)
	}
	return g
}

func writeGolden(t *testing.T, name string, g golden) {
	t.Helper()
	raw, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenPath(name), append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCorpus_Headers checks what a script of the corpus promises: a header,
// 40 lines at most, a golden, and that every construct of scenario 19 is there.
func TestCorpus_Headers(t *testing.T) {
	t.Parallel()
	scripts := loadCorpus(t)
	if len(scripts) < 120 {
		t.Errorf("%d scripts; at least 120 are needed", len(scripts))
	}
	var all strings.Builder
	for _, s := range scripts {
		if s.Constructs == "" {
			t.Errorf("%s: no // constructs: header", s.File)
		}
		if n := strings.Count(s.Source, "\n"); n > 40 {
			t.Errorf("%s: %d lines; at most 40", s.File, n)
		}
		if (loadGolden(t, s.Name).Error != nil) != (s.Throws != "") {
			t.Errorf("%s: golden and // throws: header disagree", s.File)
		}
		all.WriteString(s.Constructs + "\n")
	}
	for _, want := range []string{
		"write then read", "Promise.all then use", "map with a call inside", "for…of with await", "if/else with a call",
		"try/catch/finally", `const p = "a.txt"`, "template strings", "nested object arguments", "destructuring",
		"[await A(), await B()]", "reassigned variables", "return in the middle", "types", "enum", "generics",
		"non-ASCII text", "function, class, export", "hyphenated server names",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no script has the construct %q", want)
		}
	}
}
