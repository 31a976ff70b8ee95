package mcp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// maxSaid bounds, in characters, what an error repeats of what a client sent.
const maxSaid = 300

// maxName is the length in bytes from which on the name of a tool is none: it
// is not looked for, nor are names that are like it.
const maxName = 256

// unknownTool is the answer to a call of a tool that there is not.
func (e *Edge) unknownTool(id json.RawMessage, name string) *jsonrpc.Response {
	if name == "" {
		return jsonrpc.Refuse(id, mcp.INVALID_PARAMS, "params.name must be the name of a tool, as tools/list has it")
	}
	hint := ""
	if len(name) <= maxName {
		hint = core.Suggest(name, slices.Collect(maps.Keys(e.tools)))
	}
	return jsonrpc.Refuse(id, mcp.INVALID_PARAMS, "there is no tool "+core.Visible(name, 120, false)+hint)
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
func unsupported(id json.RawMessage, version string) *jsonrpc.Response {
	said := mcp.UnsupportedProtocolVersionError{Version: core.Visible(version, 40, false), Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
	return jsonrpc.Refuse(id, said.Code, core.Visible(said.Message, maxSaid, false)).With(said.Data)
}
