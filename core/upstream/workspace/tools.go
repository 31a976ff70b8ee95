package workspace

import (
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
)

// definition is a tool as this file writes it: the members of its input and
// output schemas, and which of them are required.
type definition struct {
	name, title, about string
	changes            bool
	input, required    string
	output, outputAll  string
}

const (
	pathProp  = `"path":{"type":"string","minLength":1,"description":"Relative to the workspace folder."}`
	dirProp   = `"path":{"type":"string","description":"The folder to start in; the workspace itself if left out."}`
	limitProp = `"max_results":{"type":"integer","minimum":1,"maximum":2000,"description":"200 if left out."}`
	truncated = `"truncated":{"type":"boolean"}`
	outPath   = `"path":{"type":"string"}`
)

var definitions = []definition{
	{
		name: "read_file", title: "Read a file",
		about:    "Read a text file of the workspace: at most 1 MiB at once; truncated says that there is more, next_offset where. Files named .env* are never read.",
		input:    pathProp + `,"offset":{"type":"integer","minimum":0,"description":"The byte to start at."},"limit":{"type":"integer","minimum":1,"maximum":1048576,"description":"At most so many bytes."}`,
		required: `"path"`,
		output:   outPath + `,"content":{"type":"string"},"size":{"type":"integer"},` + truncated + `,"next_offset":{"type":"integer"}`, outputAll: `"path","content","size","truncated"`,
	},
	{
		name: "list_directory", title: "List a folder",
		about:  "List the names in a folder of the workspace, sorted.",
		input:  dirProp,
		output: outPath + `,"entries":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"type":{"enum":["file","directory","symlink","other"]},"size":{"type":"integer"}},"required":["name","type"],"additionalProperties":false}},` + truncated, outputAll: `"path","entries","truncated"`,
	},
	{
		name: "search", title: "Search in files",
		about: "Find the lines of text files that contain a text. Leaves out binary files, .git, node_modules and .env*.",
		input: `"query":{"type":"string","minLength":1,"maxLength":1000},"glob":{"type":"string","description":"Only files that match, such as **/*.go."},` + dirProp +
			`,"regexp":{"type":"boolean","description":"query is a regular expression (RE2)."},"ignore_case":{"type":"boolean"},` + limitProp,
		required: `"query"`,
		output:   `"matches":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"},"text":{"type":"string"}},"required":["path","line","text"],"additionalProperties":false}},"files_searched":{"type":"integer"},` + truncated, outputAll: `"matches","files_searched","truncated"`,
	},
	{
		name: "find", title: "Find files by name",
		about:    "Find files whose path matches a pattern: * and ? inside a name, ** for any folders. A pattern without a slash is about the name alone.",
		input:    `"pattern":{"type":"string","minLength":1,"maxLength":1000},` + dirProp + `,` + limitProp,
		required: `"pattern"`,
		output:   `"paths":{"type":"array","items":{"type":"string"}},` + truncated, outputAll: `"paths","truncated"`,
	},
	{
		name: "stat", title: "Look at a file",
		about: "Say whether a path exists, and its type, size and time of change.",
		input: pathProp, required: `"path"`,
		output: outPath + `,"exists":{"type":"boolean"},"type":{"enum":["file","directory","symlink","other"]},"size":{"type":"integer"},"mode":{"type":"string"},"modified":{"type":"string","format":"date-time"}`, outputAll: `"path","exists"`,
	},
	{
		name: "write_file", title: "Write a file", changes: true,
		about:    "Write a whole file, replacing what it held. Folders are created. create_only refuses an existing file.",
		input:    pathProp + `,"content":{"type":"string"},"create_only":{"type":"boolean"}`,
		required: `"path","content"`,
		output:   outPath + `,"bytes":{"type":"integer"},"created":{"type":"boolean"}`, outputAll: `"path","bytes","created"`,
	},
	{
		name: "edit_file", title: "Edit a file", changes: true,
		about:    "Replace a text in a file. It must occur exactly once, unless all is set.",
		input:    pathProp + `,"old":{"type":"string","minLength":1},"new":{"type":"string"},"all":{"type":"boolean"}`,
		required: `"path","old","new"`,
		output:   outPath + `,"replacements":{"type":"integer"}`, outputAll: `"path","replacements"`,
	},
	{
		name: "move_file", title: "Move a file", changes: true,
		about:    "Rename a file. The new name must be free.",
		input:    `"from":{"type":"string","minLength":1},"to":{"type":"string","minLength":1}`,
		required: `"from","to"`,
		output:   `"from":{"type":"string"},"to":{"type":"string"}`, outputAll: `"from","to"`,
	},
	{
		name: "delete_file", title: "Delete a file", changes: true,
		about: "Delete a file or a symbolic link.",
		input: pathProp, required: `"path"`,
		output: outPath, outputAll: `"path"`,
	},
}

// Tools lists the tools, with complete schemas and annotations.
func (s *Server) Tools() []core.Tool {
	tools := make([]core.Tool, 0, len(definitions))
	for _, d := range definitions {
		readOnly, destructive, closed := !d.changes, d.changes, false
		tools = append(tools, core.Tool{
			Server: "workspace", Name: d.name, Title: d.title, Description: d.about,
			InputSchema: object(d.input, d.required), OutputSchema: object(d.output, d.outputAll),
			Annotations: core.Annotations{ReadOnly: &readOnly, Destructive: &destructive, Idempotent: &readOnly, OpenWorld: &closed},
		})
	}
	return tools
}

func object(properties, required string) json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, properties, required)
}
