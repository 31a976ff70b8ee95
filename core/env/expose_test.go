package env_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

func TestExpose_Forms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, home, work string
		mode             env.ExposeMode
		tools            []string
		shown            string
	}{
		{"Nothing", `{}`, `{}`, env.ExposeList, nil, `[]`},
		{"List", `{}`, `{"expose": ["a", "b:*"]}`, env.ExposeList, []string{"a", "b:*"}, `["a","b:*"]`},
		{"Search", `{}`, `{"expose": {"mode": "search", "tools": ["a"]}}`, env.ExposeSearch, []string{"a"}, `{"mode":"search","tools":["a"]}`},
		{"NamedList", `{}`, `{"expose": {"mode": "list", "tools": ["a"]}}`, env.ExposeList, []string{"a"}, `["a"]`},
		{"Home", `{"expose": {"mode": "search", "tools": ["h"]}}`, `{}`, env.ExposeSearch, []string{"h"}, `{"mode":"search","tools":["h"]}`},
		{"WorkspaceReplaces", `{"expose": {"mode": "search", "tools": ["h"]}}`, `{"expose": ["w"]}`, env.ExposeList, []string{"w"}, `["w"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write(b.home.Config(), c.home)
			b.write(".pml.json", c.work)
			cfg := b.load()
			equal(t, c.tools, cfg.Expose)
			equal(t, c.mode, cfg.ExposeMode)
			var shown struct {
				Expose json.RawMessage `json:"expose"`
			}
			if err := json.Unmarshal(cfg.Show(), &shown); err != nil {
				t.Fatal(err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, shown.Expose); err != nil {
				t.Fatal(err)
			}
			equal(t, c.shown, compact.String())
		})
	}
}

// A fault is found in the file that a pattern came from, in either form.
func TestExpose_Places(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"expose": {"mode": "search", "tools": ["a", "b:["]}}`)
	cfg := b.load()
	err := cfg.Locate(&core.Error{Code: core.CodeInvalidConfig, Faults: []core.Fault{{Path: "/expose/1", Message: "bad"}}})
	equal(t, []string{".pml.json:1:46:/expose/tools/1: bad"}, b.lines(err))
}

func TestExpose_Faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{"expose": "a"}`: {".pml.json:1:12:/expose: must be a list of patterns, or an object of \"mode\" and \"tools\", not a string"},
		`{"expose": {"mode": "find", "tools": []}}`: {".pml.json:1:21:/expose/mode: must be list or search, not \"find\""},
		`{"expose": {"mode": "search"}}`:            {".pml.json:1:12:/expose: needs \"tools\", a list of patterns"},
		`{"expose": {"tool": ["a"]}}`: {
			".pml.json:1:12:/expose: needs \"tools\", a list of patterns", ".pml.json:1:13:/expose/tool: unknown key \"tool\" (did you mean tools?)",
		},
	} {
		b := newBox(t)
		b.write(".pml.json", text)
		equal(t, want, b.faults())
	}
}
