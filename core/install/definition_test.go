package install_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
)

func TestKeepTool(t *testing.T) {
	t.Parallel()
	home, yes := t.TempDir(), true
	in := newFake(home, nil)
	tool := core.Tool{Server: "a", Name: "t", Description: "d\x00", InputSchema: json.RawMessage(`{"b":1, "a":2}`), Annotations: core.Annotations{ReadOnly: &yes}}
	digest := install.ToolDigest(tool)
	if _, ok := in.Definitions.Known(digest); ok {
		t.Error("known before")
	}
	if err := in.Definitions.Keep(tool); err != nil {
		t.Fatal(err)
	}
	got, ok := newFake(home, nil).Definitions.Known(digest)
	if !ok || install.ToolDigest(got) != digest || got.Description != tool.Description || got.Server != "" {
		t.Error(got, ok)
	}
	files, err := filepath.Glob(filepath.Join(home, ".tools/*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(raw), `"t"`, `"u"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := in.Definitions.Known(digest); ok {
		t.Error("another tool under this digest", got)
	}
	if err := in.Definitions.Keep(tool); err != nil {
		t.Fatal(err)
	}
	if _, ok := in.Definitions.Known(digest); !ok {
		t.Error("not written again")
	}
	big := core.Tool{Name: "big", Description: strings.Repeat("x", 1<<20)}
	if err := in.Definitions.Keep(big); err != nil {
		t.Error(err)
	}
	if _, ok := in.Definitions.Known(install.ToolDigest(big)); ok {
		t.Error("kept a megabyte")
	}
	for _, digest := range []string{"", "sha256:../../x", "x"} {
		if _, ok := in.Definitions.Known(digest); ok {
			t.Error(digest)
		}
	}
}

func TestDescribeChange(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	schema := func(s string) json.RawMessage { return json.RawMessage(s) }
	base := core.Tool{
		Name: "read", Description: "Reads a file from the disk and returns what stands in it as a text of one or more lines.",
		InputSchema: schema(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"},"old":{"type":"string"}},"required":["path"]}`),
		Annotations: core.Annotations{ReadOnly: &yes},
	}
	change := func(f func(*core.Tool)) core.Tool {
		now := base
		f(&now)
		return now
	}
	for name, c := range map[string]struct {
		old, now core.Tool
		want     string
	}{
		"Same": {base, base, ""},
		"Annotations": {base, change(func(t *core.Tool) { t.Annotations = core.Annotations{ReadOnly: &no, Destructive: &yes} }), `
+ readOnlyHint: true → false
+ destructiveHint: not given → true`},
		"Description": {base, change(func(t *core.Tool) {
			t.Description = "Reads a file from the disk, sends it away and returns what stands in it as a text of one or more\u202e lines."
		}), `
  description:
    Reads a file from the 
-   disk 
+   disk, sends it away 
    and returns what stands in it as a text of one or 
-   more 
+   more\u{202e} 
    lines.`},
		"Parameters": {base, change(func(t *core.Tool) {
			t.InputSchema = schema(`{"type":"object","properties":{"path":{"type":"string","description":"Where\nit is"},"n":{"type":"string","enum":["a","b"]},"to":{"type":"string"}},"required":["n","to"]}`)
		}), `
+ parameter n: optional → required
+ parameter n: integer → string
  parameter n:
+   {
+     "enum": [
+       "a"
+       "b"
+     ]
+   }
- parameter old (string, optional): {"type":"string"}
+ parameter path: required → optional
+ parameter path, description: Where\nit is
+ parameter to (string, required): {"type":"string"}`},
		"RestOfSchema": {base, change(func(t *core.Tool) {
			t.InputSchema = schema(strings.Replace(string(base.InputSchema), `"type":"object"`, `"type":"object","additionalProperties":false`, 1))
			t.OutputSchema = schema(`true`)
		}), `
  input schema:
    {
+     "additionalProperties": false
      "type": "object"
    }
  output schema:
+   true`},
		"NoSchemaOfAnObject": {base, change(func(t *core.Tool) { t.InputSchema = schema(`{"properties":[]}`) }), ""},
		"EmptySchemaGone": {core.Tool{Name: "t", InputSchema: schema(`{}`)}, core.Tool{Name: "t"}, `
  input schema:
-   {}`},
		"EmptySchemaNew": {core.Tool{Name: "t"}, core.Tool{Name: "t", InputSchema: schema(`{"properties":{}}`)}, `
  input schema:
+   {
+     "properties": {}
+   }`},
		"OrderOfRequired": {core.Tool{Name: "t", InputSchema: schema(`{"required":["a","b"]}`)}, core.Tool{Name: "t", InputSchema: schema(`{"required":["b","a"]}`)}, `
  input schema:
    {
      "required": [
-       "a"
        "b"
+       "a"
      ]
    }`},
		"EmptyDescriptionOfAParameter": {
			core.Tool{Name: "t", InputSchema: schema(`{"properties":{"p":{"description":""}}}`)},
			core.Tool{Name: "t", InputSchema: schema(`{"properties":{"p":{}}}`)}, `
  parameter p:
-   {
-     "description": ""
-   }
+   {}`,
		},
		"SpaceAtTheEnd": {core.Tool{Name: "t", Description: "Reads a file."}, core.Tool{Name: "t", Description: "Reads a file. "}, `
  description: only spaces differ (shown as ·)
    Reads a 
-   file.
+   file.·`},
		"NoJSON": {core.Tool{Name: "t", OutputSchema: schema(`{} x`)}, core.Tool{Name: "t", OutputSchema: schema(`{} y`)}, `
  output schema:
-   {} x
+   {} y`},
		"New": {core.Tool{}, core.Tool{Name: "x", Description: "Does\tit.", InputSchema: schema(`{"type":"object"}`)}, `
+ name: x
+ description: Does\tit.
  input schema:
+   {
+     "type": "object"
+   }`},
	} {
		got := strings.Join(install.DescribeChange(c.old, c.now), "\n")
		if name == "NoSchemaOfAnObject" {
			if !strings.Contains(got, `+     "properties": []`) {
				t.Errorf("%s: %s", name, got)
			}
			continue
		}
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), got); diff != "" {
			t.Errorf("%s: %s\n%s", name, diff, got)
		}
	}
}

// FuzzDescribeChange: definitions that differ always have lines, and lines are
// harmless and bounded, whatever a server says.
func FuzzDescribeChange(f *testing.F) {
	f.Add("a b", "a c", `{"properties":{"x":{"type":"string"}}}`, `{"properties":{"x":1},"required":["x","y"]}`)
	f.Add("", strings.Repeat("w ", 9000), `[`, `null`)
	f.Add("", "", `{}`, ``)
	f.Add("", "", `{"required":["a","b"]}`, `{"required":["b","a"]}`)
	f.Add("a\x1b[2J", "a\n\n\nb", `{"properties":{"x":{}}}`, `{"properties":{}}`)
	f.Fuzz(func(t *testing.T, d1, d2, s1, s2 string) {
		old := core.Tool{Name: "t", Description: d1, InputSchema: json.RawMessage(s1)}
		now := core.Tool{Name: "t", Description: d2, InputSchema: json.RawMessage(s2)}
		lines := install.DescribeChange(old, now)
		tells := func(line string) bool { return line[:1] != " " }
		if len(lines) < 60 && !slices.ContainsFunc(lines, tells) && install.ToolDigest(old) != install.ToolDigest(now) {
			t.Errorf("no line tells what changed: %q", lines)
		}
		if len(lines) > 60 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > 400 || core.Visible(line, 0, false) != line || !strings.ContainsAny(line[:1], "+- ") {
				t.Errorf("%q", line)
			}
		}
	})
}

// What is kept of a definition with a secret is what may be shown of it, under
// the digest of the whole, and only under that.
func TestKeepToolAs(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in := newFake(home, nil)
	whole := core.Tool{Server: "a", Name: "t", Description: "signed in with k3y-of-mine"}
	shown := whole
	shown.Description = "signed in with «KEY»"
	digest := install.ToolDigest(whole)
	if err := in.Definitions.Keep(whole); err != nil { // before anybody knew of the key
		t.Fatal(err)
	}
	for range 2 {
		if err := in.Definitions.KeepAs(digest, shown); err != nil {
			t.Fatal(err)
		}
		if got, ok := newFake(home, nil).Definitions.Known(digest); !ok || got.Description != shown.Description || got.Server != "" {
			t.Fatal(got, ok)
		}
	}
	if err := in.Definitions.Keep(whole); err != nil { // the key is not declared any more
		t.Fatal(err)
	}
	if got, _ := in.Definitions.Known(digest); got.Description != shown.Description {
		t.Error("written back:", got)
	}
	if _, ok := in.Definitions.Known(install.ToolDigest(shown)); ok {
		t.Error("it counts for another definition")
	}
	files, err := filepath.Glob(filepath.Join(home, ".tools/*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(raw), "k3y-of-mine") {
		t.Fatalf("%s %v", raw, err)
	}
	other := whole
	other.Description = "another"
	name := strings.TrimPrefix(install.ToolDigest(other), "sha256:") + ".json"
	if err := os.WriteFile(filepath.Join(home, ".tools", name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := in.Definitions.Known(install.ToolDigest(other)); ok {
		t.Error("copied to another digest:", got)
	}
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(raw), "signed in", "logged in", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := in.Definitions.Known(digest); ok {
		t.Error("changed:", got)
	}
}
