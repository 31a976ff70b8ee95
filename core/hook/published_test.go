package hook_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/skiptest"
)

// Hooks that others have published for Claude Code decide about calls as they are.
func TestRunner_PublishedHooks(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "it installs packages from npm")
	npm := skiptest.Tool(t, "npm")
	for _, tool := range []string{"node", "python3", "bash"} {
		skiptest.Tool(t, tool)
	}
	work := t.TempDir()
	for name, content := range map[string]string{".env": "GITHUB_TOKEN=ghp_" + strings.Repeat("0123456789", 3) + "abcdef\n", "notes.md": "hello\n", ".claude/.selfish-active": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pkg, tt := range map[string]struct {
		program string // below the package's folder
		args    map[string]string
	}{
		"@coo-quack/sensitive-canary@0.8.1": {"node PKG/dist/pre-tool-use-hook.js", map[string]string{
			`{"path":"` + work + `/.env"}`: "blocks: secrets and must not be read", `{"path":"` + work + `/notes.md"}`: "passes"}},
		"@torka/claude-qol@0.3.0": {"python3 PKG/hooks/auto_approve_safe.py", map[string]string{
			`{"command":"ls"}`: "asks: Unknown tool"}},
		"selfish-pipeline@1.3.0": {"bash PKG/scripts/selfish-bash-guard.sh", map[string]string{
			`{"command":"git push --force"}`: "blocks: git push --force is blocked", `{"command":"git status"}`: "passes"}},
	} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			install := exec.Command(npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", pkg)
			if out, err := install.CombinedOutput(); err != nil {
				skiptest.Missing(t, "npm installs nothing: "+string(out))
			}
			name := pkg[:strings.LastIndex(pkg, "@")]
			set := setOf(t, line("f", "", program("x", strings.ReplaceAll(tt.program, "PKG", filepath.Join(dir, "node_modules", name)), false)))
			r := newRig(t, func(o *hook.Options) {
				o.Environ = func(name string) (string, bool) {
					if name == "HOME" {
						return dir, true
					}
					return os.LookupEnv(name)
				}
			})
			for args, want := range tt.args {
				req := request(args)
				req.Workspace, req.Tool = work, "files:read"
				p, err := r.Before(context.Background(), set, req)
				got := "passes"
				switch {
				case core.CodeOf(err) == core.CodeDenied:
					got = "blocks: " + err.Error()
				case err != nil:
					got = err.Error()
				case len(p.Asks) > 0:
					got = "asks: " + p.Asks[0].Message
				case len(p.Args) > 0:
					got = "changes " + string(p.Args)
				}
				for _, part := range strings.SplitAfter(want, ": ") {
					if !strings.Contains(got, part) {
						t.Errorf("%s %s, want %s", args, got, want)
					}
				}
			}
		})
	}
}
