package env

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/policy"
)

// LoadOptions say what Load reads.
type LoadOptions struct {
	Workspace Workspace
	Home      Home
	Environ   Environ
	// Server is the --server flag; empty when it was not given.
	Server string
}

// Origin says where a value of the configuration comes from.
type Origin string

// The origins, weakest first.
const (
	FromDefault     Origin = "default"
	FromHome        Origin = "home"
	FromWorkspace   Origin = "workspace"
	FromEnvironment Origin = "environment"
	FromFlag        Origin = "flag"
)

// Decider says who may decide approvals.
type Decider string

// The deciders.
const (
	DeciderAny   Decider = "any"   // the agent may, too
	DeciderHuman Decider = "human" // no MCP path decides
)

// AgentMay says what an agent may approve where people do not decide alone.
type AgentMay string

// What an agent may approve.
const (
	AgentMayMedium AgentMay = "medium" // what is not of high risk
	AgentMayHigh   AgentMay = "high"   // everything
)

// Config is the configuration that results from all files. It does not
// change; Effective, Keys and Resolve derive from it what is asked for. A
// duration of 0 means never or no limit, as its comment says.
type Config struct {
	Workspace Workspace
	Home      Home
	Version   int
	Server    Server
	// Permissions are the rules of the home, then those of the workspace.
	Permissions policy.Rules
	Approvals   Approvals
	Hooks       Hooks
	Routing     Routing
	Servers     map[string]ServerEntry
	// Flows is the workspace's folder of hook flows, HomeFlows the home's; absolute.
	Flows, HomeFlows string
	Models           map[string]ModelEntry
	// DefaultModel is the one that is meant where none is named; empty: nobody has said.
	DefaultModel string
	Limits       Limits
	Retention    time.Duration // of finished runs; 0: for ever
	// Expose are globs on tools that are offered through; ExposeMode is how.
	Expose     []string
	ExposeMode ExposeMode
	Terminal   Terminal

	environ Environ
	flag    string
	home    *file
	work    *file
	origins map[string]place
	lock    []byte
	trusted bool // whether the workspace's grants are in
	held    restrictions
	taken   []string // of held, what the files do not say any more
	// goneFlows are those of held that are not there any more as they were.
	goneFlows            []heldFlow
	homeFlows, workFlows *flow.Folder
	flowPrograms         map[string]string // digests of files that workFlows start
}

// Server names the server that runs are sent to.
type Server struct {
	URL string // empty: none, runs stay on this machine
}

// Approvals say how decisions are made.
type Approvals struct {
	TTL       time.Duration // of an open approval; 0: never expires
	ResumeTTL time.Duration // of a waiting run; 0: never expires
	Decider   Decider
	AgentMay  AgentMay // what an agent may approve unless Decider is human
	Pin       string   // hashed, never the PIN itself; from the home's file only
	TrustHost bool     // an elicitation counts as a person although Decider is human
	Notify    Notify   // from the home's file only
}

// Hooks says how pml answers the permission hooks of agents' hosts.
type Hooks struct {
	Wait time.Duration // for a person; 0: nobody is asked
}

// Routing says which half of pml runs a tool.
type Routing struct {
	Client, Server []string // globs on tools
	Default        core.Side
}

// Limits bound a run.
type Limits struct {
	Concurrency int           // calls at once in a run
	PerServer   int           // calls at once to an upstream server
	Calls       int           // calls in a run
	Timeout     time.Duration // of a run, human time not counted; 0: none
	CallTimeout time.Duration // of a call without an answer or progress; 0: none
	CallTotal   time.Duration // of a call in all; 0: none
	CPU         time.Duration // processor time of one turn of a script
	Install     time.Duration // of what npm does at once; see InstallFor; 0: none
	ResultBytes int64         // of one result
	MemoryBytes int64         // of all scripts of a process at once
	Runs        int           // that have not ended, of one owner on a server
}

// installPackages is how many packages npm has Limits.Install for.
const installPackages = 200

// InstallFor bounds what npm does for a tree of so many packages: Install for each
// 200 begun, since a tree of a thousand takes a busy machine longer than one of ten;
// 0 is no bound. Packages are 0 while npm resolves.
func (l Limits) InstallFor(packages int) time.Duration {
	return l.Install * time.Duration(max(1, (packages+installPackages-1)/installPackages))
}

// ServerType is how an MCP server is reached.
type ServerType string

// The types of server.
const (
	TypeStdio ServerType = "stdio"
	TypeHTTP  ServerType = "http"
)

// ServerEntry is one of mcpServers as it is written: nothing is expanded.
type ServerEntry struct {
	Name    string            `json:"-"`
	Type    ServerType        `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	OAuth   *core.OAuthClient `json:"oauth,omitempty"` // of a server with a URL
	// Protocol is the revision of MCP that the server is spoken to in; empty: what
	// is agreed on.
	Protocol string        `json:"protocol,omitempty"`
	Origin   Origin        `json:"-"` // FromHome or FromWorkspace
	File     string        `json:"-"` // the file that defines it
	At       core.Position `json:"-"`
}

// KeyState is what gate 4 sees of a server: what is missing, and the values.
type KeyState struct {
	// Missing are the names of variables that are unset, empty or placeholders,
	// sorted. Names only: values are never shown.
	Missing []string
	// Env and Headers are the declared ones, expanded.
	Env, Headers map[string]string
	// ClientSecret is that of the entry's oauth, expanded.
	ClientSecret string
	// Digest covers names and values, so that another value is noticed.
	Digest string
}

// Resolved is a server's entry with everything expanded: what is started.
type Resolved struct {
	Entry   ServerEntry // as written
	Name    string
	Type    ServerType
	Command string
	Args    []string
	Env     map[string]string // declared variables; ChildEnv adds the rest
	URL     string
	Headers map[string]string
	OAuth   *core.OAuthClient // with its secret expanded; nil: pml registers itself
	Dir     string            // absolute; the workspace unless the entry says otherwise
	Cwd     string            // what the entry says, expanded; empty when it says nothing
	// Loader are those of Env that decide which code a process loads or where it
	// sends things, such as NODE_OPTIONS and PATH. What one inherits from the
	// environment of pml under its own name stands in it as ${NAME}. Those that
	// .env filled and that have no name of a key are among them, without value.
	Loader map[string]string
	// FromDotEnv are the places that .env filled and that decide what runs or
	// where keys go, as pointers into the entry: /command, /args/0, /url, /cwd,
	// and variables of Loader such as /env/NODE_OPTIONS. An entry of the home
	// takes nothing from .env there but variables of which nothing is known.
	FromDotEnv []string
	// Missing are the keys that gate 4 asks for; see KeyState.
	Missing []string
	// Digest covers the expanded entry and the values of its environment.
	// Another digest is another process.
	Digest string
}
