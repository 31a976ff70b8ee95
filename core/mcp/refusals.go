package mcp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

// maxSaid bounds, in characters, what an error repeats of what a client sent.
const maxSaid = 300

// maxName is the length in bytes from which on the name of a tool is none: it
// is not looked for, nor are names that are like it.
const maxName = 256

// unknownTool is the answer to a call of a tool that there is not.
func (e *Edge) unknownTool(id json.RawMessage, name string) *reply {
	if name == "" {
		return refused(id, mcp.INVALID_PARAMS, "params.name must be the name of a tool, as tools/list has it")
	}
	hint := ""
	if len(name) <= maxName {
		hint = core.Suggest(name, slices.Collect(maps.Keys(e.tools)))
	}
	return refused(id, mcp.INVALID_PARAMS, "there is no tool "+core.Visible(name, 120, false)+hint)
}

// unknownRevision is the revision that a message names and that there is not,
// empty if it names one that there is, or none.
func (m *message) unknownRevision() string {
	if v := m.Params.Meta.Version; v != "" && !mcp.IsValidProtocolVersion(v) {
		return v
	}
	return ""
}

// unsupported is the answer to a message of a revision that there is not.
func unsupported(id json.RawMessage, version string) *reply {
	said := mcp.UnsupportedProtocolVersionError{Version: core.Visible(version, 40, false), Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
	r := refused(id, said.Code, core.Visible(said.Message, maxSaid, false))
	r.Error.Data = said.Data
	return r
}

// plainly is an answer of mcp-go, which repeats names, methods and URIs as they
// came, with what they hide made visible.
func plainly(answer any, m *message) any {
	bad, ok := answer.(mcp.JSONRPCError)
	if !ok {
		return answer
	}
	bad.Error.Message = core.Visible(bad.Error.Message, maxSaid, false)
	if m.Method == string(mcp.MethodResourcesRead) && bad.Error.Data == nil {
		bad.Error.Data = map[string]any{"uri": core.Visible(m.Params.URI, 2000, false)}
	}
	return bad
}
