package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/diff"
)

// granted is what files of a workspace grant, as a machine writes it down.
func granted(t *testing.T, args []string, version string, packages int) string {
	t.Helper()
	var list []any
	for n := range packages {
		list = append(list, map[string]any{"name": fmt.Sprint("dep", n), "integrity": version})
	}
	type flow = map[string]any
	raw, err := json.MarshalIndent(struct {
		Permissions any   `json:"permissions"`
		Servers     any   `json:"mcpServers"`
		Models      any   `json:"models"`
		Expose      []any `json:"expose"`
		Flows       any   `json:"flow files"`
		Lock        any   `json:"pml.lock"`
	}{
		flow{"allow": []string{"s:*"}}, flow{"s": flow{"command": "npx", "args": args}}, flow{"default": "a", "a": flow{"b": flow{"c": flow{"d": args}}}}, []any{"s:a"},
		flow{"f.json": flow{"sha256": "f00", "content": flow{"deep": "flow"}}},
		flow{"sha256": "abc", "content": flow{"version": 1, "servers": flow{"s": flow{"version": version, "packages": list, "tools": flow{"a": "sha256:t"}}}}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

// What a person reads is everything that is granted but what only programs
// write; --full is every line.
func TestTrust_Folded(t *testing.T) {
	t.Parallel()
	content := granted(t, []string{"steal"}, "1.2.3", 2000)
	state := api.TrustState{Workspace: "/w", Digest: hashA, Content: content}
	shown := (&shell{fake: &fake{trust: state}}).run("trust", "--show").want(t, 0).has(t, "out",
		hashA, `"steal"`, `"s:*"`, `"s:a"`, `"f00"`, `"abc"`, `"version": "1.2.3"`, "1 flow, 1 model\npml.lock pins: 1 server, 2000 packages, 1 tool\n", "not shown: ", "--full").out
	if n := strings.Count(shown, "\n"); n > 70 || strings.Contains(shown, "dep7") || strings.Count(shown, `"steal"`) != 2 {
		t.Errorf("%d lines:\n%s", n, shown)
	}
	whole := (&shell{fake: &fake{trust: state}}).run("trust", "--show", "--full").want(t, 0).out
	if !strings.HasSuffix(whole, content) {
		t.Errorf("%s", whole)
	}
	asked := (&shell{tty: true, stdin: "yes\n", fake: &fake{trust: state}}).run("trust")
	asked.has(t, "err", `"steal"`, "not shown: ", "in short:\n  s starts npx steal\n  allows s:* without a question\ntrust this?")
	if asked.fake.trusted != hashA {
		t.Errorf("trusted %q, which is not the digest of the whole", asked.fake.trusted)
	}
	if strings.Contains(asked.err, "dep7") {
		t.Error("nobody has asked for all of it")
	}
	read := (&shell{tty: true, stdin: "a\na\nno\n", fake: &fake{trust: state}}).run("trust")
	read.has(t, "err", "trust this? [y]es / [n]o / show [a]ll: ", `"dep1999"`, "that is no answer: type y or n")
	if n := strings.Count(read.err, `"dep1999"`); n != 1 || read.fake.trusted != "" {
		t.Errorf("shown %d times, trusted %q", n, read.fake.trusted)
	}
}

// TestTrust_Page: who asks for all of it reads that in their pager, and is asked again; where the
// pager fails, it is printed.
func TestTrust_Page(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{nil, errors.New("no pager")} {
		paged, times := "", 0
		s := (&shell{
			tty: true, stdin: "a\na\nyes\n", fake: &fake{trust: api.TrustState{Workspace: "/w", Digest: hashA, Content: granted(t, []string{"steal"}, "1.2.3", 2000)}},
			page: func(_ context.Context, text string) error { paged, times = text, times+1; return failed },
		}).run("trust").want(t, 0).has(t, "err", "the digest is of all of them; a shows them")
		if !strings.Contains(paged, `"dep1999"`) || strings.Contains(s.err, `"dep1999"`) == (failed == nil) || s.fake.trusted != hashA || (times == 2) != (failed == nil) {
			t.Errorf("%v: paged %d bytes %d times, trusted %q", failed, len(paged), times, s.fake.trusted)
		}
	}
}

// Of which tools it is accepted that they only read is shown in any case: to trust
// the lock is to accept it.
func TestTrust_ReadOnlyShown(t *testing.T) {
	t.Parallel()
	const list = "          \"readonly\": [\n            \"list_everything\"\n          ]"
	whole := granted(t, []string{"run"}, "1.2.3", 1)
	for name, content := range map[string]string{
		"Between": strings.Replace(whole, `          "tools": {`, list+",\n          \"tools\": {", 1),
		"Last":    strings.Replace(whole, `          "version": "1.2.3"`, `          "version": "1.2.3",`+"\n"+list, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !json.Valid([]byte(content)) {
				t.Fatal(content)
			}
			state := api.TrustState{Workspace: "/w", Digest: hashA, Content: content}
			s := (&shell{fake: &fake{trust: state}}).run("trust", "--show").want(t, 0).has(t, "out", `"list_everything"`, "not shown: ")
			if strings.Contains(s.out, "sha256:t") {
				t.Errorf("what else is in pml.lock is not folded:\n%s", s.out)
			}
		})
	}
}

// Of what changed nothing that is granted is folded, wherever it stands: also
// where lines of pml.lock were replaced by it.
func TestTrust_FoldedChanges(t *testing.T) {
	t.Parallel()
	before := granted(t, []string{"run"}, "1.2.3", 30)
	for name, now := range map[string]string{
		"Changed":    granted(t, []string{"steal"}, "1.2.4", 31),
		"Everything": strings.ReplaceAll(granted(t, []string{"steal", "more"}, "1.2.4", 31), `": `, `" : `),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := strings.ReplaceAll(now, `" : `, `": `)
			d := diff.Lines(before, now)
			if name == "Everything" {
				d = "@@ line 1 @@\n"
				for line := range strings.Lines(before) {
					d += "-" + line
				}
				for line := range strings.Lines(now) {
					d += "+" + line
				}
			}
			state := api.TrustState{Workspace: "/w", Digest: hashA, Content: now, Diff: d}
			shown := (&shell{fake: &fake{trust: state}}).run("trust", "--show").want(t, 0).has(t, "out", "it changed", `+          "version": "1.2.4"`).out
			if strings.Count(shown, `"steal"`) != 2 || strings.Contains(shown, "dep7") {
				t.Errorf("%s", shown)
			}
		})
	}
}

// A flow that has changed in a few lines shows them: whether it is enabled is what a person
// trusts. One that is new in many is folded.
func TestTrust_FoldedFlow(t *testing.T) {
	t.Parallel()
	flows := func(content map[string]any) string {
		raw, err := json.MarshalIndent(map[string]any{"flow files": map[string]any{"f.json": map[string]any{"sha256": "f00", "content": content}}}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw) + "\n"
	}
	var nodes []string
	for n := range 30 {
		nodes = append(nodes, fmt.Sprint("node", n))
	}
	before, now := map[string]any{"enabled": true, "id": "f"}, map[string]any{"enabled": false, "id": "f"}
	shown := func() string {
		state := api.TrustState{Workspace: "/w", Digest: hashA, Content: flows(now), Diff: diff.Lines(flows(before), flows(now))}
		return (&shell{fake: &fake{trust: state}}).run("trust", "--show").want(t, 0).out
	}
	if out := shown(); !strings.Contains(out, `-        "enabled": true`) || !strings.Contains(out, `+        "enabled": false`) || strings.Contains(out, `"id"`) {
		t.Error(out)
	}
	now["nodes"] = nodes
	if out := shown(); strings.Contains(out, "node7") {
		t.Error(out)
	}
}
