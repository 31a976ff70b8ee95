package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

var _ upstream.LocalServer = (*workspace.Server)(nil)

// folder makes a workspace with files, inside a folder with a secret beside it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "ws")
	if err := os.WriteFile(filepath.Join(base, "outside.txt"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func link(t *testing.T, dir, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
}

func run(t *testing.T, dir, tool string, args any) (map[string]any, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	s := workspace.New()
	out, err := s.Call(context.Background(), dir, tool, raw)
	if err != nil {
		return nil, err
	}
	var v map[string]any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	conforms(t, s, tool, raw, v)
	return v, nil
}

// conforms checks arguments and result against the tool's own schemas.
func conforms(t *testing.T, s *workspace.Server, tool string, args json.RawMessage, result any) {
	t.Helper()
	for _, d := range s.Tools() {
		if d.Name != tool {
			continue
		}
		in, err := jsonschema.UnmarshalJSON(strings.NewReader(string(args)))
		if err != nil {
			t.Fatal(err)
		}
		for schema, v := range map[string]any{string(d.InputSchema): in, string(d.OutputSchema): result} {
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
			if err != nil {
				t.Fatal(tool, err)
			}
			c := jsonschema.NewCompiler()
			if err := c.AddResource("s.json", doc); err != nil {
				t.Fatal(err)
			}
			if err := c.MustCompile("s.json").Validate(v); err != nil {
				t.Errorf("%s: %v", tool, err)
			}
		}
		return
	}
	t.Errorf("no tool %s", tool)
}

type args = map[string]any

// Scenario 32.
func TestServer_Refuses(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		".env": "KEY=hunter2", "sub/.env.local": "KEY=hunter2", ".ENV": "KEY=hunter2", ".pml.json": "{}", "pml.lock": "{}",
		".git/config": "[core]", ".pml/flow.json": "{}", "a.txt": "a", "sub/b.txt": "b",
	})
	link(t, dir, ".env", "innocent.txt")
	link(t, dir, "../outside.txt", "out")
	link(t, dir, "..", "up")
	link(t, dir, "/etc", "etc")
	link(t, dir, ".git", "repo")
	link(t, dir, "sub", "alias")
	link(t, dir, "loop2", "loop1")
	link(t, dir, "loop1", "loop2")
	link(t, dir, ".pml.json", "config.json")
	reads := []string{
		".env", "./.env", "sub/../.env", "sub/.env.local", ".Env", ".e\u200dnv", ".env.", ".env ", ".env/x", "alias/.env.local", "innocent.txt",
		"../outside.txt", "sub/../../outside.txt", "..", "/etc/passwd", "out", "up/outside.txt", "etc/passwd", "loop1", "a\x00b", "",
	}
	writes := append([]string{
		".pml.json", "PML.Lock", "pml.loc\u212a", "sub/.pml.json", ".pml/flow.json", ".git/hooks/pre-commit", ".GIT/config", "sub/.git/config", "repo/hooks/post-checkout",
		"config.json", "new/.env", ".envrc", "pml.lock.",
	}, reads...)
	before := snapshot(t, dir)
	for _, p := range reads {
		for _, tool := range []string{"read_file", "stat"} {
			if v, err := run(t, dir, tool, args{"path": p}); err == nil {
				t.Errorf("%s %q gave %v", tool, p, v)
			} else {
				coded(t, tool+" "+p, err)
			}
		}
		if strings.Contains(p, "..") || strings.HasPrefix(p, "/") {
			for tool, a := range map[string]args{"list_directory": {"path": p}, "search": {"path": p, "query": "x"}, "find": {"path": p, "pattern": "*"}} {
				if v, err := run(t, dir, tool, a); err == nil {
					t.Errorf("%s %q gave %v", tool, p, v)
				}
			}
		}
	}
	for _, p := range writes {
		calls := map[string]args{
			"write_file": {"path": p, "content": "x"}, "edit_file": {"path": p, "old": "{", "new": "["},
			"move_file": {"from": "a.txt", "to": p},
		}
		if p != "config.json" && p != "out" && p != "innocent.txt" && p != "loop1" { // deleting a link deletes the link
			calls["delete_file"] = args{"path": p}
		}
		for tool, a := range calls {
			_, err := run(t, dir, tool, a)
			if err == nil {
				t.Errorf("%s %q was done", tool, p)
				continue
			}
			coded(t, tool+" "+p, err)
		}
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

// coded checks that an error has a tool's code and tells no secret.
func coded(t *testing.T, what string, err error) {
	t.Helper()
	if c := core.CodeOf(err); c != core.CodeToolFailed && c != core.CodeInvalidArguments {
		t.Errorf("%s: %s: %v", what, c, err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s tells the key: %v", what, err)
	}
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Dir(dir), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&os.ModeSymlink != 0 {
			all[p], err = os.Readlink(p)
			return err
		}
		b, err := os.ReadFile(p)
		all[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestServer_SecretsStayOutOfSearchAndLists(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{".env": "KEY=hunter2", "sub/.env.prod": "KEY=hunter2", "a.txt": "KEY=public", "bin": "KEY\x00", ".git/x": "KEY", "node_modules/m/i.js": "KEY"})
	link(t, dir, ".env", "b.txt")
	v, err := run(t, dir, "search", args{"query": "KEY"})
	if err != nil {
		t.Fatal(err)
	}
	want := args{"matches": []any{args{"path": "a.txt", "line": 1.0, "text": "KEY=public"}}, "files_searched": 1.0, "truncated": false}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	v, err = run(t, dir, "list_directory", args{})
	if err != nil {
		t.Fatal(err)
	}
	first := v["entries"].([]any)[0]
	if diff := cmp.Diff(args{"name": ".env", "type": "file"}, first); diff != "" {
		t.Error(diff)
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("é", 1<<20)
	dir := folder(t, map[string]string{"a.txt": "grüße", "big.txt": big, "bin": "\x00\x01", "latin": "\xe9t\xe9", ".git/HEAD": "ref"})
	link(t, dir, "a.txt", "to-a")
	for name, tt := range map[string]struct {
		args args
		want args
	}{
		"whole":   {args{"path": "a.txt"}, args{"path": "a.txt", "content": "grüße", "size": 7.0, "truncated": false}},
		"link":    {args{"path": "to-a"}, args{"path": "a.txt", "content": "grüße", "size": 7.0, "truncated": false}},
		"part":    {args{"path": "a.txt", "limit": 3}, args{"path": "a.txt", "content": "gr", "size": 7.0, "truncated": true, "next_offset": 2.0}},
		"rest":    {args{"path": "a.txt", "offset": 2}, args{"path": "a.txt", "content": "üße", "size": 7.0, "truncated": false}},
		"beyond":  {args{"path": "a.txt", "offset": 99}, args{"path": "a.txt", "content": "", "size": 7.0, "truncated": false}},
		"of .git": {args{"path": ".git/HEAD"}, args{"path": ".git/HEAD", "content": "ref", "size": 3.0, "truncated": false}},
		"big":     {args{"path": "big.txt"}, args{"path": "big.txt", "content": big[:1<<20], "size": float64(2 << 20), "truncated": true, "next_offset": float64(1 << 20)}},
	} {
		v, err := run(t, dir, "read_file", tt.args)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(tt.want, v); diff != "" {
			t.Errorf("%s:\n%s", name, diff[:min(len(diff), 500)])
		}
	}
	for path, word := range map[string]string{"bin": "not text", "latin": "not text", "gone": "does not exist", ".git": "folder"} {
		_, err := run(t, dir, "read_file", args{"path": path})
		if core.CodeOf(err) != core.CodeToolFailed || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWriteEditMoveDelete(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"run.sh": "echo one one"})
	script := filepath.Join(dir, "run.sh")
	if err := os.Chmod(script, 0o750); err != nil {
		t.Fatal(err)
	}
	link(t, dir, "run.sh", "link.sh")
	steps := []struct {
		tool  string
		args  args
		fails string
	}{
		{"write_file", args{"path": "new/deep/a.txt", "content": "a"}, ""},
		{"write_file", args{"path": "new/deep/a.txt", "content": "b", "create_only": true}, "exists already"},
		{"write_file", args{"path": "new/deep/b.txt", "content": "b", "create_only": true}, ""},
		{"write_file", args{"path": "new", "content": "b"}, "not a regular file"},
		{"edit_file", args{"path": "run.sh", "old": "one", "new": "two"}, "occurs 2 times"},
		{"edit_file", args{"path": "run.sh", "old": "three", "new": "two"}, "does not occur"},
		{"edit_file", args{"path": "link.sh", "old": "one", "new": "two", "all": true}, ""},
		{"move_file", args{"from": "new/deep/a.txt", "to": "run.sh"}, "exists already"},
		{"move_file", args{"from": "new/deep/a.txt", "to": "moved/a.txt"}, ""},
		{"move_file", args{"from": "new", "to": "old"}, "not a regular file"},
		{"delete_file", args{"path": "new"}, "folder"},
		{"delete_file", args{"path": "new/deep/b.txt"}, ""},
		{"delete_file", args{"path": "new/deep/b.txt"}, "does not exist"},
	}
	for i, s := range steps {
		_, err := run(t, dir, s.tool, s.args)
		if s.fails == "" && err != nil || s.fails != "" && (core.CodeOf(err) != core.CodeToolFailed || !strings.Contains(err.Error(), s.fails)) {
			t.Errorf("step %d %s: %v", i, s.tool, err)
		}
	}
	all := snapshot(t, dir)
	want := map[string]string{
		filepath.Join(filepath.Dir(dir), "outside.txt"): "outside", script: "echo two two",
		filepath.Join(dir, "link.sh"): "run.sh", filepath.Join(dir, "moved", "a.txt"): "a",
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(script)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o750 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

func TestEditFile_ConcurrentEditsAllCount(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"list": "end"})
	s := workspace.New()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := s.Call(context.Background(), dir, "edit_file", json.RawMessage(`{"path":"list","old":"end","new":"x,end"}`))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(filepath.Join(dir, "list"))
	if err != nil || string(b) != strings.Repeat("x,", 20)+"end" {
		t.Errorf("%s, %v", b, err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.go": "", "x/b.go": "", "x/y/c.go": "", "x/y/d.txt": "", "node_modules/e.go": ""})
	for pattern, want := range map[string][]any{
		"*.go":     {"a.go", "x/b.go", "x/y/c.go"},
		"./*.go":   {"a.go"},
		"**/*.go":  {"a.go", "x/b.go", "x/y/c.go"},
		"x/**":     {"x/b.go", "x/y/c.go", "x/y/d.txt"},
		"x/*/?.go": {"x/y/c.go"},
		"nothing":  {},
	} {
		v, err := run(t, dir, "find", args{"pattern": pattern})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(args{"paths": want, "truncated": false}, v); diff != "" {
			t.Errorf("%s:\n%s", pattern, diff)
		}
	}
	v, err := run(t, dir, "find", args{"pattern": "*.go", "max_results": 2})
	if err != nil || v["truncated"] != true {
		t.Errorf("%v, %v", v, err)
	}
}

func TestServer_ErrorsAndCancel(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a": "a"})
	for tool, a := range map[string]args{
		"read_file": {"path": "a", "more": 1}, "search": {"query": "(", "regexp": true}, "find": {"pattern": "[", "max_results": 1},
		"edit_file": {"path": "a", "old": "", "new": "x"}, "stat": {"path": 7},
	} {
		if _, err := run(t, dir, tool, a); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if _, err := run(t, dir, "reed_file", args{}); core.CodeOf(err) != core.CodeNoSuchTool || !strings.Contains(err.Error(), "read_file") {
		t.Error(err)
	}
	if _, err := run(t, filepath.Join(dir, "gone"), "stat", args{"path": "a"}); core.CodeOf(err) != core.CodeToolFailed {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := workspace.New().Call(ctx, dir, "search", json.RawMessage(`{"query":"a"}`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
