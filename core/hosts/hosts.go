// Package hosts reads the configuration files of the programs that run agents
// (Claude Code, Claude Desktop, VS Code, Cursor, Codex), to take their MCP
// servers over, and changes their text, and that of opencode, Gemini CLI and
// Qwen Code, so that they know pml itself. All text
// of an entry is that of a foreign file: whoever shows it makes it visible
// first. Nothing here writes a file.
package hosts

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/casys-ai/pml/core"
)

// maxFile bounds a file; ~/.claude.json holds histories and grows large.
const maxFile = 16 << 20

// Place says where a person's files are.
type Place struct {
	Home      string // the person's home folder
	Workspace string
	GOOS      string
	Environ   func(string) (string, bool) // APPDATA, XDG_CONFIG_HOME, CLAUDE_CONFIG_DIR, CODEX_HOME
}

// Entry is one server of a host's configuration, in the words of .pml.json:
// the host's own variables are rewritten to ${NAME}.
type Entry struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string
	URL     string
	Headers map[string]string
	Cwd     string
	OAuth   *core.OAuthClient
	// Secrets are values that stood in the file in clear, by the name under
	// which the entry now refers to them: they belong into .env. Among all that
	// one Find or Read returns, a name stands for one value.
	Secrets map[string]string
	// Keys are names that the person was asked for by the host and must give
	// again (inputs of VS Code).
	Keys []string
}

// Found is one file with what it names.
type Found struct {
	Host    string // claude-code, claude-desktop, vscode, cursor, codex, mcp.json
	File    string
	Entries []Entry // by name
	// Skipped are entries that cannot be taken over, each with why.
	Skipped []string
	// Notes are what changed on the way, such as a name.
	Notes []string
}

// The hosts, as Found.Host names them.
const (
	claudeCode    = "claude-code"
	claudeDesktop = "claude-desktop"
	vscode        = "vscode"
	cursor        = "cursor"
	codex         = "codex"
	mcpJSON       = "mcp.json"
)

// Find reads the files that hosts are known to keep at a place, those of the
// workspace first; those that are not there or name no server are left out. A
// file that cannot be read is a fault beside what was found. pml itself is
// never among the entries.
func Find(p Place) (found []Found, faults []core.Fault) {
	names, seen := newNames(), map[string]bool{}
	for _, k := range p.known() {
		if seen[k.file] {
			continue // the workspace is the home folder
		}
		seen[k.file] = true
		f, _, err := p.read(k.host, k.file, names)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			e := core.AsError(err)
			if len(e.Faults) == 0 {
				e.Faults = []core.Fault{{File: k.file, Message: e.Message}}
			}
			faults = append(faults, e.Faults...)
		case len(f.Entries)+len(f.Skipped) > 0:
			found = append(found, f)
		}
	}
	return found, faults
}

// Read reads one file, of whichever host its name and content are. Errors:
// core.CodeInvalidArguments for one that is not there, core.CodeInvalidConfig
// with the faults of one that cannot be read or lists no servers.
func Read(p Place, file string) (Found, error) {
	f, listed, err := p.read("", file, newNames())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Found{}, core.Errorf(core.CodeInvalidArguments, "there is no file %s", core.Visible(file, 200, false))
	case err == nil && !listed:
		err = invalid(file, core.Fault{Message: `lists no MCP servers: there is neither "mcpServers" nor "servers"`})
	}
	return f, err
}

// known is a file that a host keeps.
type known struct{ host, file string }

// known lists the files of all hosts; the order says which of two servers of
// one name a caller meets first.
func (p Place) known() []known {
	var out []known
	if ws := p.Workspace; ws != "" {
		out = append(out, known{mcpJSON, filepath.Join(ws, ".mcp.json")},
			known{vscode, filepath.Join(ws, ".vscode", "mcp.json")}, known{cursor, filepath.Join(ws, ".cursor", "mcp.json")})
	}
	if dir := p.env("CLAUDE_CONFIG_DIR"); dir != "" {
		out = append(out, known{claudeCode, filepath.Join(dir, ".claude.json")})
	} else if p.Home != "" {
		out = append(out, known{claudeCode, filepath.Join(p.Home, ".claude.json")})
	}
	if dir := p.applications(); dir != "" {
		out = append(out, known{claudeDesktop, filepath.Join(dir, "Claude", "claude_desktop_config.json")},
			known{vscode, filepath.Join(dir, "Code", "User", "mcp.json")},
			known{vscode, filepath.Join(dir, "Code - Insiders", "User", "mcp.json")})
	}
	if p.Home != "" {
		out = append(out, known{cursor, filepath.Join(p.Home, ".cursor", "mcp.json")})
	}
	if dir := p.codexDir(); dir != "" {
		out = append(out, known{codex, filepath.Join(dir, codexFile)})
	}
	return out
}

// applications is the folder in which programs keep their settings, empty when
// it is not known.
func (p Place) applications() string {
	switch {
	case p.GOOS == "windows" && p.env("APPDATA") != "":
		return p.env("APPDATA")
	case p.Home == "":
		return ""
	case p.GOOS == "windows":
		return filepath.Join(p.Home, "AppData", "Roaming")
	case p.GOOS == "darwin":
		return filepath.Join(p.Home, "Library", "Application Support")
	case p.env("XDG_CONFIG_HOME") != "":
		return p.env("XDG_CONFIG_HOME")
	}
	return filepath.Join(p.Home, ".config")
}

func (p Place) env(name string) string {
	if p.Environ == nil {
		return ""
	}
	if value, ok := p.Environ(name); ok {
		return value
	}
	return ""
}

// read reads a file of a host; without a host pml recognises it by name and content.
// listed is false for a file that has no list of servers, not even an empty one.
func (p Place) read(host, file string, names *names) (found Found, listed bool, err error) {
	data, err := load(file)
	if err != nil {
		return Found{}, false, err
	}
	if host == codex || host == "" && strings.EqualFold(filepath.Ext(file), ".toml") {
		return p.readCodex(file, data, names)
	}
	root, doc, fault := parse(data)
	if fault == nil && root.kind != '{' {
		f := doc.Fault(root.at, "must be an object, not %s", root.what())
		fault = &f
	}
	if fault != nil {
		return Found{}, false, invalid(file, *fault)
	}
	if host == "" {
		host = hostOf(file, root)
	}
	r := &reader{place: p, host: host, src: doc.Source, names: names, found: Found{Host: host, File: file}}
	listed = r.servers(root)
	r.finish()
	return r.found, listed, nil
}

func invalid(file string, f core.Fault) error {
	f.File = file
	return &core.Error{
		Code: core.CodeInvalidConfig, Faults: []core.Fault{f},
		Message: "MCP servers cannot be taken over from " + core.Visible(file, 200, false) + "; correct the file and try again",
	}
}

// load reads a whole file. It keeps fs.ErrNotExist; only plain files are read,
// since a pipe would wait for ever.
func load(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, unreadable(file, err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalid(file, core.Fault{Message: "is not a plain file"})
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, unreadable(file, err)
	}
	if len(data) > maxFile {
		return nil, invalid(file, core.Fault{Message: "is larger than 16 MiB; that much is not read"})
	}
	return data, nil
}

// unreadable says why a file cannot be read, its path left out.
func unreadable(file string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return invalid(file, core.Fault{Message: "cannot be read: " + err.Error()})
}

// hostOf tells the host of a file from its name, or else from its content.
func hostOf(file string, root value) string {
	dir, base := filepath.Base(filepath.Dir(file)), strings.ToLower(filepath.Base(file))
	switch {
	case base == ".claude.json":
		return claudeCode
	case base == "claude_desktop_config.json":
		return claudeDesktop
	case dir == ".cursor":
		return cursor
	case dir == ".vscode":
		return vscode
	case root.get("projects").kind == '{':
		return claudeCode
	case root.get("servers").kind == '{', root.get("mcp").kind == '{':
		return vscode
	}
	return mcpJSON
}
