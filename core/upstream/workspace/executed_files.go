package workspace

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// What agents' hosts, editors, git, CI, shells and build tools run, or take
// commands and instructions from, without anybody naming it: a file of one of these names in any
// folder, and anything in one of these folders. The lists are kept by hand, in
// the form that fold gives.
var (
	// Hosts: their settings name servers and hooks. Editors: tasks and settings
	// that name programs. Git hooks under other names than .git, which is never
	// written; containers for development; CI.
	executedFolders = []string{
		".claude", ".codex", ".cursor", ".gemini", ".qwen", ".opencode", ".windsurf", ".continue", ".cline", ".roo", ".kiro", ".amazonq", ".agents",
		".vscode", ".idea", ".zed", ".fleet", ".nvim", ".vim",
		".husky", ".githooks", ".lefthook", ".devcontainer", ".circleci", ".buildkite", ".gitea", ".forgejo", ".cargo", ".github/workflows", ".github/actions",
		".clinerules", ".roorules", ".github/instructions", ".github/prompts", ".github/chatmodes", ".github/agents", ".github/hooks", ".bundle", ".yarn", ".mvn",
	}
	executedNames = []string{
		// hosts
		".mcp.json", "mcp.json", "opencode.json", "opencode.jsonc", ".claude.json", ".cursorrules",
		// what agents are told by files that their hosts read
		"claude.md", "claude.local.md", "agents.md", "agents.override.md", "agent.md", "gemini.md", "qwen.md", "warp.md", "crush.md", "copilot-instructions.md",
		".windsurfrules", ".clinerules", ".roorules", ".rules", ".goosehints", ".aider.conf.yml",
		// make and its likes
		"makefile", "gnumakefile", "bsdmakefile", "justfile", ".justfile", "taskfile.yml", "taskfile.yaml", "rakefile", "magefile.go", "earthfile", "vagrantfile",
		"procfile", "tiltfile", "jenkinsfile", "dodo.py", "noxfile.py", "tasks.py", "fabfile.py", "gruntfile.js", "gulpfile.js", "gulpfile.mjs", "gulpfile.ts", "build.zig",
		"dockerfile", "containerfile", "docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml", "pom.xml", "mise.toml", ".mise.toml",
		".eslintrc.js", ".eslintrc.cjs", ".prettierrc.js", ".prettierrc.cjs", ".prettierrc.mjs", ".babelrc.js", ".babelrc.cjs", ".mocharc.js", ".mocharc.cjs",
		"build.rs", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradlew", "gradlew.bat", "mvnw", "mvnw.cmd", "cmakelists.txt", "meson.build",
		// what package managers and test runners run by themselves
		"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpmfile.js", ".pnp.cjs", ".pnp.loader.mjs", "bunfig.toml", "setup.py", "conftest.py", "sitecustomize.py", "usercustomize.py", "pip.conf",
		"pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "hatch.toml", "cargo.toml", "composer.json", "gemfile", ".irbrc", ".pryrc", ".rspec", "mix.exs",
		"deno.json", "deno.jsonc", "turbo.json", "nx.json", "lerna.json", "flake.nix", "shell.nix", "default.nix", "devbox.json", "build.bazel", "workspace.bazel",
		"module.bazel", "workspace", ".bazelrc", ".babelrc", ".babelrc.json", ".eslintrc", ".eslintrc.json", ".eslintrc.yml", ".eslintrc.yaml", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml",
		// git, hooks and CI
		".gitconfig", ".gitmodules", ".lintstagedrc", ".lintstagedrc.json", ".lintstagedrc.yaml", ".lintstagedrc.yml", ".lintstagedrc.js", ".lintstagedrc.mjs",
		".lintstagedrc.cjs", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml",
		"bitbucket-pipelines.yml", "appveyor.yml", ".drone.yml", ".woodpecker.yml", "cloudbuild.yaml",
		// shells, debuggers, editors
		".envrc", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".gdbinit", ".lldbinit",
		".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el",
	}
	// The settings of bundlers, linters and test runners, which are programs:
	// vite.config.ts.
	executedEndings = []string{".mk", ".code-workspace", ".config.js", ".config.cjs", ".config.mjs", ".config.ts", ".config.cts", ".config.mts"}
)

// executed reports whether something else than a person who names it runs what
// a path holds.
func executed(p string) bool {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = fold(parts[i])
	}
	for i, part := range parts {
		if i < len(parts)-1 && (slices.Contains(executedFolders, part) || slices.Contains(executedFolders, part+"/"+parts[i+1])) {
			return true
		}
	}
	name := parts[len(parts)-1]
	ends := func(ending string) bool { return strings.HasSuffix(name, ending) }
	return slices.Contains(executedNames, name) || slices.Contains(executedFolders, name) || slices.ContainsFunc(executedEndings, ends)
}

// Executed returns which path a call of a tool would change that a host or a
// tool executes; empty for none. Whoever lets calls through asks about such a
// call each time. The path is the one that the arguments name: a call that gets
// to such a file by a link is refused.
func Executed(tool string, args json.RawMessage) string { return changes(tool, args, executed) }

// Guarded returns which path a call of a tool would change that is never changed, such
// as .pml.json, or a flow; empty for none. The call would be refused, so nobody needs to
// be asked about it. A path that gets there by a link is refused when the call is made.
func Guarded(tool string, args json.RawMessage) string { return changes(tool, args, guarded) }

// changes returns the first path that a call of a tool names to change and that is of a
// kind.
func changes(tool string, args json.RawMessage, is func(string) bool) string {
	if i := slices.IndexFunc(definitions, func(d definition) bool { return d.name == tool }); i < 0 || !definitions[i].changes {
		return ""
	}
	var a struct{ Path, From, To string }
	if json.Unmarshal(args, &a) != nil {
		return "" // which the tool refuses
	}
	for _, p := range []string{a.To, a.From, a.Path} {
		if c, err := clean(p); err == nil && is(c) {
			return path.Clean(c)
		}
	}
	return ""
}
