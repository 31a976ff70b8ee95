package gate

import (
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/redact"
)

// The risk of what a host does by itself is that of docs/hosts.md.
func TestHostRisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &settings{all: &env.Config{Workspace: env.Workspace{Dir: dir}}, redact: redact.NewSecrets(redact.Options{})}
	small, large := &asked.File{State: asked.FileChanged, Added: 3}, &asked.File{State: asked.FileChanged, Added: 200}
	for _, tt := range []struct {
		tool string
		args map[string]any
		file *asked.File
		want core.Risk
	}{
		{"Bash", map[string]any{"command": "npm test"}, nil, core.RiskMedium},
		{"Bash", map[string]any{"command": "cd x && sudo make"}, nil, core.RiskHigh},
		{"Bash", map[string]any{"command": "rm -rf build"}, nil, core.RiskHigh},
		{"shell", map[string]any{"command": []string{"git", "push"}}, nil, core.RiskHigh},
		{"Edit", map[string]any{"file_path": dir + "/a.go"}, small, core.RiskMedium},
		{"Edit", map[string]any{"file_path": dir + "/a.go"}, large, core.RiskHigh},
		{"Write", map[string]any{"file_path": "/etc/passwd"}, nil, core.RiskHigh},
		{"Write", map[string]any{"file_path": dir + "/../x"}, small, core.RiskHigh},
		{"Write", map[string]any{"file_path": dir + "/.claude/settings.local.json"}, small, core.RiskHigh},
		{"Write", map[string]any{"file_path": dir + "/.pml.json"}, small, core.RiskHigh},
		{"NotebookEdit", map[string]any{"notebook_path": "package.json"}, nil, core.RiskHigh},
		{"Read", map[string]any{"file_path": dir + "/package.json"}, nil, core.RiskLow},
		{"Read", map[string]any{"file_path": "/etc/passwd"}, nil, core.RiskMedium},
		{"WebFetch", map[string]any{"url": "https://x"}, nil, core.RiskMedium},
		{"apply_patch", map[string]any{"command": "*** Begin Patch\n*** Update File: a.go\n+force push\n*** End Patch"}, nil, core.RiskMedium},
		{"apply_patch", map[string]any{"command": "*** Begin Patch\n*** Delete File: a.go\n*** End Patch"}, nil, core.RiskHigh},
		{"apply_patch", map[string]any{"command": "*** Begin Patch\n*** Update File: a.go\n*** Move to: .codex/hooks.json\n*** End Patch"}, nil, core.RiskHigh},
		{"apply_patch", map[string]any{"command": "*** Begin Patch\n*** Add File: ../../x\n*** End Patch"}, nil, core.RiskHigh},
		{"mcp__x__delete_all", map[string]any{}, nil, core.RiskHigh},
		{"mcp__x__list", map[string]any{}, nil, core.RiskMedium},
	} {
		raw, err := json.Marshal(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		if got, why := s.hostRisk(tt.tool, raw, tt.file); got != tt.want || why == "" {
			t.Errorf("%s %s: %s (%s), want %s", tt.tool, raw, got, why, tt.want)
		}
	}
}
