package hosts

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// ownName is the name under which hosts know pml.
const ownName = "pml"

// workspaceVariable tells pml its workspace, whatever folder it is started in.
const workspaceVariable = "PML_WORKSPACE"

// Target is a file in which a host finds its MCP servers, and so pml.
type Target struct {
	Host  string // as a person names it
	Title string
	File  string
	// Shared is set for a file of the workspace, which others may get with it.
	Shared bool
	// Mine is set for a file of the workspace that is one person's alone.
	Mine bool
	// Hook is the name by which pml answers the host's permission hooks, where the file
	// has these; empty: it has MCP servers.
	Hook string
	// Found says that the host seems to be used here.
	Found bool
	// Pinned is set where the host starts pml in no certain folder, so that the
	// entry is for one workspace only.
	Pinned bool
	// NoPath is set where the host does not look programs up as a shell does.
	NoPath bool
	// Hint is what a person does for the host to see the entry.
	Hint string

	key       string // of the table of servers
	kind      string // the type that each entry has to name, if any
	joined    bool   // "command" is one list with the program and its arguments
	workspace string // what PML_WORKSPACE is; empty: it is not set
}

// Targets lists the files in which pml can be registered, those of the
// workspace first. They need not exist.
func (p Place) Targets() []Target {
	var out []Target
	if p.Workspace != "" {
		out = append(out, p.projectTargets()...)
	}
	if dir := p.codexDir(); dir != "" {
		out = append(out, Target{
			Host: codex, Title: "Codex", File: filepath.Join(dir, codexFile), Found: isThere(dir), Pinned: true,
			key: codexKey, workspace: p.Workspace, Hint: "start Codex again",
		})
	}
	if dir := p.applications(); dir != "" {
		dir = filepath.Join(dir, "Claude")
		out = append(out, Target{
			Host: claudeDesktop, Title: "Claude Desktop", File: filepath.Join(dir, "claude_desktop_config.json"), Found: isThere(dir),
			Pinned: true, NoPath: true, key: "mcpServers", workspace: p.Workspace, Hint: "quit Claude Desktop and start it again",
		})
	}
	if file := p.claudeFile(); file != "" {
		out = append(out, Target{
			Host: claudeCode + "-user", Title: "Claude Code (every folder)", File: file, Found: isThere(file),
			key: "mcpServers", kind: "stdio", Hint: "/mcp in a new session shows it",
		})
	}
	return out
}

func (p Place) projectTargets() []Target {
	in := func(names ...string) string { return filepath.Join(append([]string{p.Workspace}, names...)...) }
	const folder = "${workspaceFolder}"
	code := p.applications()
	targets := []Target{
		{
			Host: claudeCode, Title: "Claude Code (this workspace)", File: in(".mcp.json"), Shared: true, key: "mcpServers",
			Found: isThere(in(".mcp.json"), in(".claude"), p.claudeFile()), Hint: "Claude Code asks once whether it may use the file",
		},
		{
			Host: vscode, Title: "VS Code", File: in(".vscode", "mcp.json"), Shared: true, key: "servers", kind: "stdio", workspace: folder,
			Found: isThere(in(".vscode")) || code != "" && isThere(filepath.Join(code, "Code"), filepath.Join(code, "Code - Insiders")),
			Hint:  "the command MCP: List Servers starts it",
		},
		{
			Host: cursor, Title: "Cursor", File: in(".cursor", "mcp.json"), Shared: true, key: "mcpServers", workspace: folder,
			Found: isThere(in(".cursor")) || p.Home != "" && isThere(filepath.Join(p.Home, ".cursor")), Hint: "turn it on in the settings, under MCP",
		},
		{
			Host: "gemini", Title: "Gemini CLI", File: in(".gemini", "settings.json"), Shared: true, key: "mcpServers",
			Found: isThere(in(".gemini")) || p.Home != "" && isThere(filepath.Join(p.Home, ".gemini")),
			Hint:  "Gemini CLI starts it in a folder that you have told it to trust",
		},
		{
			Host: "qwen", Title: "Qwen Code", File: in(".qwen", "settings.json"), Shared: true, key: "mcpServers",
			Found: isThere(in(".qwen")) || p.Home != "" && isThere(filepath.Join(p.Home, ".qwen")), Hint: "/mcp in a new session shows it",
		},
	}
	return append(targets, p.openCode(in))
}

// openCode is the file of opencode: of the two names that it reads the one that
// is there, else the plain one.
func (p Place) openCode(in func(...string) string) Target {
	file := in("opencode.json")
	if long := in("opencode.jsonc"); isThere(long) && !isThere(file) {
		file = long
	}
	settings := p.env("XDG_CONFIG_HOME")
	if settings == "" && p.Home != "" {
		settings = filepath.Join(p.Home, ".config")
	}
	return Target{
		Host: "opencode", Title: "opencode", File: file, Shared: true, key: "mcp", kind: "local", joined: true,
		Found: isThere(file, in(".opencode")) || settings != "" && isThere(filepath.Join(settings, "opencode")), Hint: "start opencode again",
	}
}

// claudeFile is the settings of Claude Code for all folders, empty when it is
// not known where they are.
func (p Place) claudeFile() string {
	dir := cmp.Or(p.env("CLAUDE_CONFIG_DIR"), p.Home)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, ".claude.json")
}

// isThere reports whether one of some files or folders exists.
func isThere(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if name == "" {
			return false
		}
		_, err := os.Stat(name)
		return err == nil
	})
}

// Own is the entry with which this host starts pml, as a program of this name
// or path.
func (t Target) Own(program string) Entry {
	e := Entry{Name: ownName, Command: program, Args: []string{"stdio"}}
	if t.Hook != "" {
		e.Args = []string{"hook", t.Hook}
	}
	if t.workspace != "" {
		e.Env = map[string]string{workspaceVariable: t.workspace}
	}
	return e
}

// starts reports whether an entry starts pml as another one does: what else it
// sets, and where the program is, is the person's own affair.
func (t Target) starts(have, want Entry) bool {
	same := have.Command == want.Command || programName(have.Command) == "pml" && !missingFile(have.Command)
	return same && slices.Equal(have.Args, want.Args) && have.Env[workspaceVariable] == want.Env[workspaceVariable]
}

// missingFile reports whether a command is a path to nothing.
func missingFile(command string) bool { return filepath.IsAbs(command) && !isThere(command) }

// entryOf reads an entry as the host wrote it. ok is false for one that starts
// nothing: malformed, disabled or remote.
func (t Target) entryOf(name string, v value) (e Entry, ok bool) {
	f := &fields{v: v}
	e = Entry{Name: name}
	if t.joined {
		e.Command, e.Args = split(f.texts("command"))
		e.Env = maps.Clone(f.table("environment"))
	} else {
		e.Command, e.Args, e.Env = f.text("command"), f.texts("args"), maps.Clone(f.table("env"))
	}
	return e, v.kind == '{' && f.why == "" && unusable(v) == "" && e.Command != "" && f.address() == ""
}

// split takes a command line apart.
func split(line []string) (command string, args []string) {
	if len(line) == 0 {
		return "", nil
	}
	return line[0], line[1:]
}

// Knows reports whether a text of Claude Code's own settings has pml among what
// it keeps for the workspace alone, as "claude mcp add" does by default.
func (p Place) Knows(text []byte) bool {
	root, _, fault := parse(text)
	if fault != nil {
		return false
	}
	for _, project := range root.get("projects").members {
		if p.Workspace == "" || !samePath(project.name, p.Workspace) {
			continue
		}
		for _, m := range project.get("mcpServers").members {
			if e, runs := (Target{}).entryOf(m.name, m.value); runs && isPML(e) {
				return true
			}
		}
	}
	return false
}
