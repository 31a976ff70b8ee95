// Package trial knows how the agent hosts that pml is tried with are set up, so
// that they talk to a scripted model on this machine and to nobody else.
// Versions stand in package.json in the folder above.
package trial

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Host is an agent host.
type Host struct {
	Name  string // as pml init --host has it
	Title string
	// Package is its name in npm.
	Package string
	// Tests are those in cmd/pml/e2e/stdio that try this host, as go test -run takes
	// them. TestHosts tries all.
	Tests string
	// Program is its path in node_modules; one that ends in js is for node.
	Program string
	// Files are written under the home folder, before pml init. MODEL stands for
	// the address of the model and WORKSPACE for that of the workspace.
	Files map[string]string
	// More are lines to append to such files after pml init: what a person adds
	// to the entry of pml.
	More map[string]string
	// Env are variables, with MODEL as in Files.
	Env []string
	// Headless are the arguments before the prompt, for work without a person.
	Headless []string
	// Interactive are the arguments for work in a terminal.
	Interactive []string
}

// Hosts are those that are tried.
var Hosts = []Host{claudeCode, codex, openCode, geminiCLI, qwenCode}

var claudeCode = Host{
	Name: "claude-code", Title: "Claude Code", Program: "@anthropic-ai/claude-code/cli-wrapper.cjs",
	Package: "@anthropic-ai/claude-code", Tests: "^TestHosts$/^claude-code$|^TestHosts_Hook$",
	// Without these it first asks for a theme and a login, and whether the key in
	// its environment may be used.
	Files: map[string]string{".claude.json": `{
  "hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": {"approved": ["scripted"], "rejected": []}
}
`},
	Env: []string{
		"ANTHROPIC_BASE_URL=MODEL", "ANTHROPIC_API_KEY=scripted", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
	},
	Headless:    []string{"--model", "scripted-1", "--allowedTools", "mcp__pml", "-p"},
	Interactive: []string{"--model", "scripted-1", "--allowedTools", "mcp__pml", "--"},
}

var codex = Host{
	Name: "codex", Title: "Codex", Program: ".bin/codex",
	Package: "@openai/codex", Tests: "^TestHosts$/^codex$|^TestHosts_CodexAsks$|^TestHosts_Form$",
	Files: map[string]string{".codex/config.toml": `model = "scripted-1"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[projects."WORKSPACE"]
trust_level = "trusted"
[model_providers.scripted]
name = "scripted"
base_url = "MODEL/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
`},
	More:     map[string]string{".codex/config.toml": "default_tools_approval_mode = \"approve\"\n"},
	Env:      []string{"SCRIPTED_KEY=scripted"},
	Headless: []string{"exec", "--skip-git-repo-check", "--json"},
	// Else it starts a server that outlives it.
	Interactive: []string{"--no-daemon"},
}

var openCode = Host{
	Name: "opencode", Title: "opencode", Program: openCodeProgram(),
	Package: "opencode-ai", Tests: "^TestHosts$/^opencode$",
	Files: map[string]string{".config/opencode/opencode.json": `{
  "model": "scripted/scripted-1", "small_model": "scripted/scripted-1", "autoupdate": false, "share": "disabled",
  "provider": {"scripted": {
    "npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": {"baseURL": "MODEL/v1", "apiKey": "scripted"},
    "models": {"scripted-1": {"name": "scripted", "tool_call": true, "limit": {"context": 200000, "output": 8000}}}
  }}
}
`},
	Env: []string{
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
	},
	Headless: []string{"run", "--format", "json"}, Interactive: []string{"--prompt"},
}

// openCodeProgram is the program that opencode's own step after an installation,
// which is left out here, would put into place.
func openCodeProgram() string {
	system, arch := runtime.GOOS, strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	return "opencode-" + system + "-" + arch + "/bin/opencode"
}

var geminiCLI = Host{
	Name: "gemini", Title: "Gemini CLI", Program: ".bin/gemini",
	Package: "@google/gemini-cli", Tests: "^TestHosts$/^gemini$",
	Files: map[string]string{
		".gemini/settings.json": `{
  "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}, "general": {"enableAutoUpdate": false},
  "security": {"auth": {"selectedType": "gemini-api-key"}}
}
`,
		".gemini/trustedFolders.json": `{"WORKSPACE": "TRUST_FOLDER"}`,
	},
	Env:      []string{"GEMINI_API_KEY=scripted", "GOOGLE_GEMINI_BASE_URL=MODEL", "NO_BROWSER=1"},
	Headless: []string{"-y", "-m", "gemini-2.5-flash", "-p"}, Interactive: []string{"-y", "-m", "gemini-2.5-flash", "-i"},
}

var qwenCode = Host{
	Name: "qwen", Title: "Qwen Code", Program: ".bin/qwen",
	Package: "@qwen-code/qwen-code", Tests: "^TestHosts$/^qwen$",
	Files: map[string]string{".qwen/settings.json": `{
  "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}, "general": {"enableAutoUpdate": false},
  "security": {"auth": {"selectedType": "openai"}}
}
`},
	Env:      []string{"OPENAI_API_KEY=scripted", "OPENAI_BASE_URL=MODEL/v1", "OPENAI_MODEL=scripted-1"},
	Headless: []string{"-y", "-p"}, Interactive: []string{"-y", "-i"},
}

// Place is where a host is tried.
type Place struct {
	Packages  string // node_modules
	Home      string
	Workspace string
	Model     string // the address of the model, without a path
}

func (p Place) fill(text string) string {
	return strings.NewReplacer("MODEL", p.Model, "WORKSPACE", p.Workspace).Replace(text)
}

// Settle writes the files of a host; pml init comes after it.
func (p Place) Settle(h Host) error {
	for name, text := range h.Files {
		file := filepath.Join(p.Home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(p.fill(text)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Loosen appends to a host's files what a person adds to the entry of pml.
func (p Place) Loosen(h Host) error {
	for name, text := range h.More {
		f, err := os.OpenFile(filepath.Join(p.Home, filepath.FromSlash(name)), os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err = f.WriteString(text); err != nil {
			_ = f.Close() // the error of writing says more
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Env are the variables of a host, HOME among them.
func (p Place) Env(h Host) []string {
	out := []string{"HOME=" + p.Home}
	for _, e := range h.Env {
		out = append(out, p.fill(e))
	}
	return out
}

// Args is the command line of a host that is to do what a prompt says.
func (p Place) Args(h Host, before []string, prompt string) []string {
	program := filepath.Join(p.Packages, filepath.FromSlash(h.Program))
	args := append([]string{program}, before...)
	if strings.HasSuffix(program, "js") {
		args = append([]string{"node"}, args...)
	}
	return append(args, prompt)
}
