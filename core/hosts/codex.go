package hosts

import (
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/casys-ai/pml/core"
)

// codexServer is an MCP server as Codex has it in config.toml.
type codexServer struct {
	Command string            `toml:"command"`
	Args    []string          `toml:"args"`
	Env     map[string]string `toml:"env"`
	URL     string            `toml:"url"`
}

// codexServers reads the tables [mcp_servers.NAME] of Codex's config.toml.
func codexServers(data []byte) (map[string]codexServer, error) {
	var file struct {
		Servers map[string]codexServer `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "config.toml of Codex cannot be read: %w", err)
	}
	return file.Servers, nil
}

// tables gives the byte ranges of the headers of tables, for edits that leave
// the rest of a file as it is.
func tables(data []byte) []unstable.Range {
	var p unstable.Parser
	p.Reset(data)
	var out []unstable.Range
	for p.NextExpression() {
		if e := p.Expression(); e.Kind == unstable.Table {
			out = append(out, e.Raw)
		}
	}
	return out
}
