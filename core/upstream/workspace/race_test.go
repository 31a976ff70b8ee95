package workspace_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core/upstream/workspace"
)

// While a folder and a link to .git/hooks take each other's place all the time,
// nothing gets into .git/hooks, out of it, or off it.
func TestServer_SwappedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, name := range []string{"a", "gone", ".git/hooks"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{".git/hooks/pre-push": "old", ".git/hooks/secret": "of git"} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			// a/d is a folder, nothing, the link, nothing, a folder… A call may make
			// it, too, which is then moved away as well.
			_ = os.Mkdir(at("a/d"), 0o700)
			_ = os.Rename(at("a/d"), at(fmt.Sprintf("gone/%d", n)))
			_ = os.Symlink("../.git/hooks", at("a/d"))
			_ = os.Remove(at("a/d"))
		}
	})
	s := workspace.New()
	call := func(tool, args string) json.RawMessage {
		got, _ := s.Call(t.Context(), dir, tool, json.RawMessage(args)) // most are refused
		return got
	}
	for n := range 40 {
		call("write_file", fmt.Sprintf(`{"path":"a/d/w%d","content":"x"}`, n))
		call("write_file", fmt.Sprintf(`{"path":"a/d/c%d","content":"x","create_only":true}`, n))
		call("write_file", fmt.Sprintf(`{"path":"a/d/sub%d/f","content":"x"}`, n))
		call("edit_file", `{"path":"a/d/pre-push","old":"old","new":"old and new"}`)
		call("write_file", `{"path":"m","content":"x"}`)
		call("move_file", fmt.Sprintf(`{"from":"m","to":"a/d/m%d"}`, n))
		call("delete_file", `{"path":"a/d/pre-push"}`)
	}
	close(done)
	swapping.Wait()
	entries, err := os.ReadDir(at(".git/hooks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "pre-push" && e.Name() != "secret" {
			t.Errorf("%s got into .git/hooks", e.Name())
		}
	}
	if text, err := os.ReadFile(at(".git/hooks/pre-push")); err != nil || string(text) != "old" {
		t.Errorf("pre-push is %q, %v", text, err)
	}
}

// A .env is neither read nor written under another name.
func TestServer_HardLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(old, name string) {
		t.Helper()
		if err := os.Link(filepath.Join(dir, old), filepath.Join(dir, name)); err != nil {
			t.Skipf("no hard links: %v", err)
		}
	}
	write("app/.env.local", "KEY=s3cr3t")
	link("app/.env.local", "notes.txt")
	write("plain.txt", "s3cr3t of nobody")
	link("plain.txt", "same.txt")
	s := workspace.New()
	for _, c := range [][2]string{
		{"read_file", `{"path":"notes.txt"}`}, {"edit_file", `{"path":"notes.txt","old":"KEY","new":"K"}`}, {"move_file", `{"from":"notes.txt","to":"app/x.txt"}`},
		{"write_file", `{"path":"notes.txt","content":"KEY=mine"}`}, {"move_file", `{"from":"plain.txt","to":"notes.txt"}`}, {"delete_file", `{"path":"notes.txt"}`},
	} {
		if got, err := s.Call(t.Context(), dir, c[0], json.RawMessage(c[1])); err == nil || !strings.Contains(err.Error(), "another name of a .env") {
			t.Errorf("%s %s: %s %v", c[0], c[1], got, err)
		}
	}
	for _, name := range []string{"notes.txt", "app/.env.local"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "KEY=s3cr3t" {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
	if got, err := s.Call(t.Context(), dir, "write_file", json.RawMessage(`{"path":"same.txt","content":"s3cr3t of nobody"}`)); err != nil {
		t.Errorf("a file with two names is not written: %s %v", got, err)
	}
	if got, err := s.Call(t.Context(), dir, "read_file", json.RawMessage(`{"path":"same.txt"}`)); err != nil {
		t.Errorf("a file with two names is refused: %s %v", got, err)
	}
	var found struct {
		Matches []struct{ Path string }
	}
	got, err := s.Call(t.Context(), dir, "search", json.RawMessage(`{"query":"s3cr3t"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &found); err != nil || len(found.Matches) != 2 {
		t.Errorf("%s %v", got, err)
	}
}

// What hosts and tools execute is named, in all spellings; by a link it is not
// written at all.
func TestExecuted(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		".mcp.json": true, "sub/.mcp.json": true, ".claude/settings.json": true, ".vscode/tasks.json": true, ".VSCode/tasks.json": true, ".cursor/mcp.json": true,
		".husky/pre-commit": true, ".github/workflows/ci.yml": true, "Makefile": true, "a/b/GNUmakefile": true, "justfile": true, "rules.mk": true, "package.json": true,
		"./.claude/../.claude/x": true, ".claude": true, ".envrc": true, "x/conftest.py": true, ".github/x/../workflows/ci.yml": true,
		"vite.config.ts": true, "web/jest.config.JS": true, ".eslintrc.cjs": true, ".cargo/config.toml": true, "Dockerfile": true, "docker-compose.yml": true, ".mise.toml": true,
		"CLAUDE.md": true, "docs/AGENTS.md": true, "GEMINI.md": true, ".cursorrules": true, "pyproject.toml": true, "tox.ini": true, "x.code-workspace": true,
		".github/copilot-instructions.md": true, ".github/prompts/a.prompt.md": true, ".clinerules/a.md": true, "Cargo.toml": true, "setup.cfg": true,
		".lintstagedrc": true, ".pnp.cjs": true, "WORKSPACE": true,
		"agents.txt": false, "my-claude.md": false, ".github/README.md": false, "go.mod": false,
		"config.ts": false, "src.js": false, "src/app.config.json": false, "docker.md": false,
		"README.md": false, ".github/CODEOWNERS": false, "src/main.go": false, "makefile.md": false, "claude/settings.json": false, "workflows/ci.yml": false,
	} {
		for tool, args := range map[string]string{"write_file": `{"path":%q,"content":""}`, "edit_file": `{"path":%q}`, "delete_file": `{"path":%q}`, "move_file": `{"from":"x","to":%q}`} {
			if got := workspace.Executed(tool, fmt.Appendf(nil, args, path)) != ""; got != want {
				t.Errorf("%s of %s: %v, want %v", tool, path, got, want)
			}
		}
		if workspace.Executed("read_file", fmt.Appendf(nil, `{"path":%q}`, path)) != "" {
			t.Errorf("reading %s executes nothing", path)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".vscode"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".vscode", filepath.Join(dir, "docs")); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	s := workspace.New()
	if got, err := s.Call(t.Context(), dir, "write_file", json.RawMessage(`{"path":"docs/tasks.json","content":""}`)); err == nil {
		t.Errorf("written by a link: %s", got)
	}
	if _, err := s.Call(t.Context(), dir, "write_file", json.RawMessage(`{"path":".vscode/tasks.json","content":""}`)); err != nil {
		t.Error(err)
	}
}
