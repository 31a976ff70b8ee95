package registrytest

import "encoding/json"

// Tool is one tool of a Server, as MCP lists it.
type Tool struct {
	Name        string         `json:"name"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	InputSchema map[string]any `json:"inputSchema"`           // nil: any object
	Annotations map[string]any `json:"annotations,omitempty"` // readOnlyHint and its likes
}

// Server returns a package whose only program, named like the package's last
// part, is an MCP server on stdio without dependencies. Each tool answers with a
// JSON text of "tool", "version" (of the package), "args" and "argv" (of the
// process). A tool named "become" also takes the definitions in its argument
// "tools" for the server's own from then on and says so with
// notifications/tools/list_changed.
func Server(name, version string, tools ...Tool) Package {
	for i := range tools {
		if tools[i].InputSchema == nil {
			tools[i].InputSchema = map[string]any{"type": "object"}
		}
	}
	if tools == nil {
		tools = []Tool{}
	}
	list, err := json.Marshal(tools)
	if err != nil {
		panic("registrytest: tools that are no JSON: " + err.Error())
	}
	return Package{
		Name: name, Version: version,
		Bin:   map[string]string{short(name): "server.js"},
		Files: map[string]string{"server.js": serverJS, "tools.json": string(list)},
	}
}

func short(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

const serverJS = `#!/usr/bin/env node
'use strict';
const { name, version } = require('./package.json');
let tools = require('./tools.json');
const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
const answers = {
  initialize: (p) => ({
    protocolVersion: p.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name, version },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools }),
  'tools/call': (p) => {
    const args = p.arguments || {};
    if (!tools.some((t) => t.name === p.name)) {
      return { isError: true, content: [{ type: 'text', text: 'no tool ' + p.name }] };
    }
    if (p.name === 'become') {
      tools = args.tools;
      send({ method: 'notifications/tools/list_changed' });
    }
    const text = JSON.stringify({ tool: p.name, version, args, argv: process.argv.slice(2) });
    return { content: [{ type: 'text', text }] };
  },
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const m = JSON.parse(line);
  if (m.id === undefined) return;
  const answer = answers[m.method];
  if (answer) send({ id: m.id, result: answer(m.params || {}) });
  else send({ id: m.id, error: { code: -32601, message: 'no method ' + m.method } });
});
`
