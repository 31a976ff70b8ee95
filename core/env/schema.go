package env

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/casys-ai/pml/core/jsonc"

	"github.com/casys-ai/pml/core"
)

// sch is a fragment of a JSON Schema.
type sch = map[string]any

func schString(doc string) sch { return sch{"type": "string", "description": doc} }

func schStrings(doc string) sch {
	return sch{"type": "array", "items": sch{"type": "string"}, "description": doc}
}

func schPatterns(doc string) sch {
	return sch{"type": "array", "items": sch{"type": "string", "minLength": 1, "maxLength": 512}, "description": doc}
}

// schRules are patterns, some of them with a condition.
func schRules(doc string) sch {
	s := schPatterns(doc + " An entry is a pattern on server:tool, or an object with a condition on the call.")
	rule := schObject("", new(ruleEntry).fields())
	rule["required"] = []string{"tool", "where"}
	s["items"] = sch{"anyOf": []any{s["items"], rule}}
	return s
}

func schDuration(doc string) sch {
	return sch{
		"type": "string", "description": doc + ` A duration such as "5m", "12h" or "30d".`,
		"pattern": `^(0|[0-9]+d|([0-9]+d)?([0-9.]+(ns|us|µs|ms|s|m|h))+)$`,
	}
}

func schInt(least, most int64, doc string) sch {
	s := sch{"type": "integer", "minimum": least, "description": doc}
	if most < math.MaxInt64 {
		s["maximum"] = most
	}
	return s
}

func schEnum(doc string, values ...string) sch {
	return sch{"type": "string", "enum": values, "description": doc}
}

func schMap(doc string) sch {
	return sch{"type": "object", "additionalProperties": sch{"type": "string"}, "description": doc}
}

func schObject(doc string, fields []field) sch {
	props := sch{}
	for _, f := range fields {
		props[f.name] = f.schema
	}
	s := sch{"type": "object", "properties": props, "additionalProperties": false}
	if doc != "" {
		s["description"] = doc
	}
	return s
}

// maxCount bounds counts in a configuration; it is far above any use.
const maxCount = 1_000_000

func (l *layer) fields(origin Origin) []field {
	server, limits := l.Server.fields(), l.Limits.fields()
	terminal := l.Terminal.fields()
	permissions, approvals, routing := l.Permissions.fields(), l.Approvals.fields(origin), l.Routing.fields()
	hooks := l.Hooks.fields()
	entry := schObject("", new(ServerEntry).fields())
	entry["oneOf"] = []sch{{"required": []string{"command"}}, {"required": []string{"url"}}}
	return []field{
		{"$schema", schString("Where this schema is; for editors."), readString(&l.Schema)},
		{"version", schInt(1, 1, "The version of this file's format."), readInt(&l.Version, 1, 1)},
		{"server", schObject("The server that runs are sent to; none by default.", server), readServer(&l.Server)},
		{"permissions", schObject("Which tools may be called. Deny always wins; otherwise the most specific pattern does, a tie asks, no match asks.", permissions), readObject(permissions)},
		{"approvals", schObject("How decisions are made.", approvals), readObject(approvals)},
		{"hooks", schObject("How pml hook answers the permission hooks of agents' hosts.", hooks), readObject(hooks)},
		{"routing", schObject("Which half of pml runs a tool.", routing), readObject(routing)},
		{"mcpServers", sch{"type": "object", "additionalProperties": entry, "description": "The MCP servers, by name."}, readServers(&l.Servers)},
		{"flows", schString("The folder of hook flows: within the workspace, default .pml/flows. In the home's config.json that of the flows for all workspaces, default flows beside that file."), readString(&l.Flows)},
		{"models", modelsSchema(), readModels(&l.Models)},
		{"limits", schObject("What bounds a run.", limits), readObject(limits)},
		{"retention", schDuration(`How long finished runs are kept. Default 30d; "0" for ever.`), readDuration(&l.Retention)},
		{"expose", exposeSchema(), readExpose(&l.Expose)},
		{"tui", schObject("How pml tui looks and behaves. Only in the home's config.json.", terminal), readTerminal(terminal, origin)},
	}
}

func (p *serverPart) fields() []field {
	return []field{{"url", schString("Its URL. ${VAR} is expanded."), func(d *decoder, v jsonc.Value, at string) {
		if s, ok := d.str(v, at); ok {
			d.checkRefs(v, at, s)
			p.URL = &s
		}
	}}}
}

func (p *permissionsPart) fields() []field {
	return []field{
		{"allow", schRules("Tools that may be called without asking, e.g. filesystem:read_*."), readRules(&p.Allow)},
		{"deny", schRules("Tools that are never called."), readRules(&p.Deny)},
		{"ask", schRules("Tools that ask each time."), readRules(&p.Ask)},
		{"readonly", schEnum(`"allow" lets tools that only read through where no pattern matches.`, "allow", "ask"), readEnum(&p.ReadOnly, "allow", "ask")},
	}
}

func (p *approvalsPart) fields(origin Origin) []field {
	return []field{
		{"ttl", schDuration(`How long an approval stays open; then it has expired, and a decision has pml check first that the question is the same. Default 5m; "0" never expires.`), readDuration(&p.TTL)},
		{"resume_ttl", schDuration(`How long a waiting run can be continued. Default 24h; "0" never expires.`), readDuration(&p.ResumeTTL)},
		{"decider", schEnum(`Who may decide. "human": no agent.`, string(DeciderAny), string(DeciderHuman)), readEnum(&p.Decider, string(DeciderAny), string(DeciderHuman))},
		{"agent_may", schEnum(`What an agent may approve unless decider is human. Default "medium": nothing of high risk, nothing that leaves the workspace. "high": everything; a workspace's needs trust.`, string(AgentMayMedium), string(AgentMayHigh)), readEnum(&p.AgentMay, string(AgentMayMedium), string(AgentMayHigh))},
		{"pin", schString("The hash of the PIN that decisions need, as pml writes it. Only in the home's config.json."), readPin(&p.Pin, origin)},
		{"trust_host", sch{"type": "boolean", "description": "An elicitation of the agent's host counts as a person's answer although decider is human."}, readBool(&p.TrustHost)},
		{"notify", p.Notify.schema(), readNotify(&p.Notify, origin)},
	}
}

func (p *hooksPart) fields() []field {
	return []field{
		{"wait", schDuration(`How long pml hook waits for a person, before the host asks by itself. Default 50s; "0" asks nobody.`), readDuration(&p.Wait)},
	}
}

// readPin refuses a PIN in clear text, and one that a workspace would bring.
func readPin(to **string, origin Origin) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		s, ok := d.str(v, at)
		switch {
		case !ok:
		case origin == FromWorkspace:
			d.fault(v, at, "a PIN belongs to this machine: put it in config.json of pml's home")
		case len(s) < 20:
			d.fault(v, at, "must be the hash of a PIN, never the PIN itself")
		default:
			*to = &s
		}
	}
}

func (p *routingPart) fields() []field {
	return []field{
		{"client", schPatterns("Tools that run on this machine."), readStrings(&p.Client)},
		{"server", schPatterns("Tools that run on the server."), readStrings(&p.Server)},
		{"default", schEnum("Where the others run. Default client.", "client", "server"), readEnum(&p.Default, "client", "server")},
	}
}

func (p *limitsPart) fields() []field {
	return []field{
		{"concurrency", schInt(1, maxCount, "Calls at once in a run. Default 16."), readInt(&p.Concurrency, 1, maxCount)},
		{"per_server", schInt(1, maxCount, "Calls at once to one MCP server, of all runs of a process. Default 32."), readInt(&p.PerServer, 1, maxCount)},
		{"calls", schInt(1, maxCount, "Calls in a run. Default 10000."), readInt(&p.Calls, 1, maxCount)},
		{"timeout", schDuration(`Of a run, time spent waiting for a person not counted. Default 10m; "0" none.`), readDuration(&p.Timeout)},
		{"call_timeout", schDuration(`Of a call without an answer or progress. Default 60s; "0" none.`), readDuration(&p.CallTimeout)},
		{"call_total", schDuration(`Of a call in all, progress or not. Default "0": none.`), readDuration(&p.CallTotal)},
		{"cpu", schDuration(`Processor time of a script between two waits. Default 30s, also for "0".`), readDuration(&p.CPU)},
		{"install", schDuration(`Of what npm does to resolve a package, and for each 200 packages begun of one installation. Default 15m; "0" none.`), readDuration(&p.Install)},
		{"result_bytes", schInt(1024, 1<<40, "The size of one result of a tool; of a script at most 33554432 of them. Default 16777216."), readInt(&p.ResultBytes, 1024, 1<<40)},
		{"memory_bytes", schInt(1<<20, 1<<40, "The memory of all scripts of a process at once, as it is configured where the process starts; scripts that wait give theirs back. Default 2147483648."), readInt(&p.MemoryBytes, 1<<20, 1<<40)},
		{"runs", schInt(1, maxCount, "Runs of one owner on a server that have not ended, those that wait included; one more is refused. Default 1000."), readInt(&p.Runs, 1, maxCount)},
	}
}

// revisions are those of MCP that an entry can name: core/upstream speaks them.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

func (e *ServerEntry) fields() []field {
	text := func(to *string) func(*decoder, jsonc.Value, string) {
		return func(d *decoder, v jsonc.Value, at string) {
			if s, ok := d.str(v, at); ok {
				d.checkRefs(v, at, s)
				*to = s
			}
		}
	}
	oauth := e.oauthFields()
	return []field{
		{"type", schEnum("How it is reached. Default stdio, http where url is given.", string(TypeStdio), string(TypeHTTP)), func(d *decoder, v jsonc.Value, at string) {
			var t *string
			if readEnum(&t, string(TypeStdio), string(TypeHTTP))(d, v, at); t != nil {
				e.Type = ServerType(*t)
			}
		}},
		{"command", schString("The program. ${VAR} is expanded here and in all that follows."), text(&e.Command)},
		{"args", schStrings("Its arguments."), func(d *decoder, v jsonc.Value, at string) { e.Args = d.expandable(v, at) }},
		{"env", schMap("Its environment. A variable that is unset, empty or a placeholder is asked for."), func(d *decoder, v jsonc.Value, at string) { e.Env = d.strMap(v, at) }},
		{"url", schString("The URL of a server reached over HTTP."), text(&e.URL)},
		{"headers", schMap("Headers sent to it."), func(d *decoder, v jsonc.Value, at string) { e.Headers = d.strMap(v, at) }},
		{"cwd", schString("The folder it runs in; a relative one counts from the workspace, the default."), text(&e.Cwd)},
		{"protocol", schEnum("The revision of MCP that it is spoken to in. Default: what is agreed on.", revisions...), func(d *decoder, v jsonc.Value, at string) {
			var p *string
			if readEnum(&p, revisions...)(d, v, at); p != nil {
				e.Protocol = *p
			}
		}},
		{"oauth", oauthSchema(oauth), func(d *decoder, v jsonc.Value, at string) {
			e.OAuth = &core.OAuthClient{}
			d.object(v, at, oauth)
		}},
	}
}

func oauthSchema(fields []field) sch {
	s := schObject("pml's registration at the authorization server of a url, made by hand. Without it pml registers itself.", fields)
	s["required"] = []string{"client_id"}
	return s
}

// oauthFields read into e.OAuth, which is there by then.
func (e *ServerEntry) oauthFields() []field {
	return []field{
		{"client_id", schString("The client id, as it was given out. It is public: ${VAR} is not expanded here."), func(d *decoder, v jsonc.Value, at string) {
			if s, ok := d.str(v, at); ok {
				e.OAuth.ClientID = s
			}
		}},
		{"client_secret", schString("The client secret, if there is one, as ${VAR} with its value in .env."), func(d *decoder, v jsonc.Value, at string) {
			if s, ok := d.str(v, at); ok {
				d.checkRefs(v, at, s)
				e.OAuth.ClientSecret = s
			}
		}},
		{"scopes", schStrings("The scopes to ask for, instead of those that the server lists."), func(d *decoder, v jsonc.Value, at string) {
			e.OAuth.Scopes = d.strs(v, at)
			for _, s := range e.OAuth.Scopes {
				if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
					d.fault(v, at, "%q cannot be a scope: it is one word of printable ASCII characters, without quotes", core.Visible(s, 60, false))
				}
			}
		}},
		{"redirect_port", schInt(1, math.MaxUint16, "The port of the callback http://127.0.0.1:PORT/callback that was registered. Default: any free one."), func(d *decoder, v jsonc.Value, at string) {
			var port *int64
			if readInt(&port, 1, math.MaxUint16)(d, v, at); port != nil {
				e.OAuth.RedirectPort = int(*port)
			}
		}},
	}
}

// Schema returns the JSON Schema (2020-12) of .pml.json and config.json.
func Schema() json.RawMessage {
	s := schObject("The configuration of pml. Comments are allowed, trailing commas are not.", new(layer).fields(FromHome))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = ".pml.json"
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		// Maps of strings, numbers and lists always encode; an empty schema
		// accepts everything, which is the least harmful answer.
		return json.RawMessage("{}")
	}
	return raw
}

// Starter returns the .pml.json that pml init writes: valid, and granting nothing but
// reading, and what was chosen of who decides. With agents an agent may pass on a yes;
// with dialog, which does not go with it, what is answered in its host's dialog counts.
func Starter(agents, dialog bool) []byte {
	chosen := `"decider": "human"
    // With "trust_host": true an answer in your agent's own dialog counts, too.`
	switch {
	case agents:
		chosen = `"decider": "any"
    // With "agent_may": "high" it may approve what is of high risk as well.`
	case dialog:
		chosen = `"decider": "human",
    // An answer in your agent's own dialog counts, too.
    "trust_host": true`
	}
	return []byte(strings.Replace(`{
  // Settings of pml for this folder. "pml config schema" prints every key.
  // What this file grants counts once you have trusted it: "pml trust".
  "version": 1,
  "permissions": {
    // Patterns on server:tool; a server's name alone means all its tools.
    "allow": [],
    "ask": [],
    "deny": [],
    // Tools that only read may run without asking.
    "readonly": "allow"
  },
  "approvals": {
    // "human": people decide, no agent. That is recommended, since hosts without a
    // person before them let the agent approve itself. "any": an agent may pass on a
    // yes to what is not of high risk.
    CHOSEN
  },
  // Keys go into .env, never in here: "env": {"API_KEY": "${API_KEY}"}.
  "mcpServers": {
    // "filesystem": {
    //   "command": "npx",
    //   "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]
    // }
  }
}
`, "CHOSEN", chosen, 1))
}
