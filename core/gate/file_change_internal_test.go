package gate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/redact"
)

// TestFileChange_Relative: a relative path is compared only where it is certain that the server
// means the workspace's file. A card must not say of one file what happens to another.
func TestFileChange_Relative(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &settings{
		all: &env.Config{Workspace: env.Workspace{Dir: dir}}, granted: &env.Config{Servers: map[string]env.ServerEntry{}},
		redact: redact.NewSecrets(redact.Options{}),
	}
	for name, folders := range map[string][]string{"here": {"."}, "first": {dir + "/", "/srv"}, "below": {"data", "."}, "elsewhere": {"/srv"}, "none": nil} {
		s.granted.Servers[name] = env.ServerEntry{Command: "npx", Args: append([]string{"-y", "@modelcontextprotocol/server-filesystem@1.0.0"}, folders...)}
	}
	s.granted.Servers["moved"] = env.ServerEntry{Command: "npx", Args: []string{"@modelcontextprotocol/server-filesystem", "."}, Cwd: "data"}
	for tool, want := range map[string]asked.FileState{
		"workspace:write_file": asked.FileSame, "here:write_file": asked.FileSame, "first:write_file": asked.FileSame,
		"below:write_file": asked.FileUnknown, "elsewhere:write_file": asked.FileUnknown, "none:write_file": asked.FileUnknown, "moved:write_file": asked.FileUnknown,
	} {
		for _, path := range []string{"a.txt", filepath.Join(dir, "a.txt")} {
			args, err := json.Marshal(map[string]string{"path": path, "content": "one\n"})
			if err != nil {
				t.Fatal(err)
			}
			if filepath.IsAbs(path) {
				want = asked.FileSame
			}
			if f := s.fileChange(engine.Call{Tool: tool, Args: args, ArgsKnown: true}); f == nil || f.State != want {
				t.Errorf("%s %s: %+v, want %s", tool, path, f, want)
			}
		}
	}
}
