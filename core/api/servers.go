package api

import (
	"time"

	"github.com/casys-ai/pml/core"
)

// ServerState is how a configured MCP server stands.
type ServerState string

// The states of a server. Only one that is ready can be called without a
// decision first.
const (
	ServerReady      ServerState = "ready"       // may be started; checked, or nothing speaks against it
	ServerNotTrusted ServerState = "not_trusted" // its workspace is not trusted on this machine
	ServerNeeds      ServerState = "needs"       // somebody must decide first: see Needs
	ServerFailed     ServerState = "failed"      // it was tried and does not work: see Error
)

// ServerNeed is something that a person must decide or do before a server can
// be called. Context is that of an approval of the type.
type ServerNeed struct {
	Type        core.ApprovalType `json:"approval_type"`
	Description string            `json:"description"`
	Context     any               `json:"context,omitempty"`
	Digest      string            `json:"digest,omitempty"`
}

// ServerInfo is one configured server, what it runs and how it stands.
type ServerInfo struct {
	Name   string      `json:"name"`
	State  ServerState `json:"state"`
	Origin string      `json:"origin"` // workspace, home or builtin
	File   string      `json:"file,omitempty"`
	// Kind is what the command is: npm, uvx, docker, script, file, other; http
	// or builtin for a server without a command.
	Kind    string   `json:"kind"`
	Command []string `json:"command,omitempty"` // as configured, nothing expanded
	URL     string   `json:"url,omitempty"`
	Package string   `json:"package,omitempty"`
	Range   string   `json:"range,omitempty"`
	Version string   `json:"version,omitempty"` // pinned in pml.lock
	Digest  string   `json:"digest,omitempty"`  // of the pinned tree
	// Installed is set when that tree is on this machine.
	Installed bool `json:"installed,omitempty"`
	// Warning says what its configuration leaves open (an image without a
	// digest, a command that is looked up anew each time), and that the
	// workspace, which is not trusted, has another entry of this name.
	Warning string       `json:"warning,omitempty"`
	Needs   []ServerNeed `json:"needs,omitempty"`
	// Tools is how many it offers, as pml.lock has them until it is started; Changed are
	// those that are not what was approved, once it was.
	Tools   int          `json:"tools,omitempty"`
	Changed []ToolChange `json:"changed,omitempty"`
	Error   string       `json:"error,omitempty"`
	Code    core.Code    `json:"error_code,omitempty"`
	// FailedAt is when the start failed of which Error speaks, where that was earlier,
	// maybe in another process.
	FailedAt *time.Time    `json:"failed_at,omitempty"`
	Next     []string      `json:"next,omitempty"`
	Health   *ServerHealth `json:"health,omitempty"`
	// Served is what pml's own server knows of the process that it runs.
	Served *ServerHealth `json:"served,omitempty"`
	// Elsewhere are processes of it that other pml processes have started, the oldest
	// first.
	Elsewhere []ServerProcess `json:"elsewhere,omitempty"`
}

// ServerProcess is a process of a server, and the pml process that it belongs to.
type ServerProcess struct {
	Server    string    `json:"server"`
	Workspace string    `json:"workspace"`
	PID       int       `json:"pid"`
	Owner     int       `json:"owner_pid"`
	Since     time.Time `json:"since"`
	// Client is the host of an agent that the owner works for, if it does.
	Client core.Client `json:"client,omitzero"`
	// Serves says that the owner is the pml server of this home, and Log is the file in
	// which that one logs, where it runs in the background.
	Serves bool   `json:"owner_serves,omitempty"`
	Log    string `json:"owner_log,omitempty"`
}

// ServerHealth is what is known of a server's process or connection.
type ServerHealth struct {
	State     string     `json:"state"` // running, starting, stopped, failing
	PID       int        `json:"pid,omitempty"`
	StartMS   float64    `json:"start_ms,omitempty"` // from its start to the end of the handshake
	Protocol  string     `json:"protocol,omitempty"`
	Server    string     `json:"server,omitempty"`   // its own name and version
	Failures  int        `json:"failures,omitempty"` // in a row
	LastError string     `json:"last_error,omitempty"`
	RetryAt   *time.Time `json:"retry_at,omitempty"`
	Stderr    string     `json:"stderr,omitempty"` // its last lines, behind its first error if it has ended
}

// ToolChange is one tool that differs from what was recorded.
type ToolChange struct {
	Tool string `json:"tool"`
	// Kind is changed, added or removed.
	Kind string `json:"kind"`
	// Diff is readable lines: what the tool says of itself, before and now.
	Diff    []string `json:"diff,omitempty"`
	OldHash string   `json:"old_hash,omitempty"`
	NewHash string   `json:"new_hash,omitempty"`
}

// PackageChange is one package of a tree that differs.
type PackageChange struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"` // version; empty: it is new
	To   string `json:"to,omitempty"`   // version; empty: it is gone
	// Rebuilt is set when version and name are the same and the bytes are not.
	Rebuilt bool `json:"rebuilt,omitempty"`
	Scripts bool `json:"scripts,omitempty"` // it wants to run something on installation
}

// ServerEntry is an entry to be written into mcpServers.
type ServerEntry struct {
	Name    string            `json:"name"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	OAuth   *core.OAuthClient `json:"oauth,omitempty"`
	// Home writes to the home's configuration instead of the workspace's.
	Home bool `json:"home,omitempty"`
	// Replace puts it in the place of the server that has its name.
	Replace bool `json:"replace,omitempty"`
}

// Change is one change of a file that was prepared and shown, and can be
// written once the person agrees. Secrets in it are left out of Diff.
type Change struct {
	File string `json:"file"`
	// Diff is what changes, as lines with "+", "-" or " ".
	Diff string `json:"diff"`
	// Digest covers the file as it was and as it will be: a change that was
	// shown cannot be written over another one.
	Digest string `json:"digest"`
	// Notes say what else a person should know.
	Notes []string `json:"notes,omitempty"`
	// About says in a few words what changes, for the audit log; empty: the file says it.
	About string `json:"about,omitempty"`

	Before, After []byte `json:"-"`
}

// ChangeSet is what belongs together and is written in its order.
type ChangeSet struct {
	Changes []Change `json:"changes"`
	Notes   []string `json:"notes,omitempty"`
}

// Empty reports whether there is nothing to write.
func (c ChangeSet) Empty() bool { return len(c.Changes) == 0 }

// ImportSource is a configuration of an agent host that names MCP servers.
type ImportSource struct {
	Host    string   `json:"host"` // claude-code, claude-desktop, vscode, cursor, mcp.json
	File    string   `json:"file"`
	Servers []string `json:"servers"`
	// Skipped are entries that cannot be taken over, each with why.
	Skipped []string `json:"skipped,omitempty"`
}

// ImportRequest says what to take over.
type ImportRequest struct {
	// From is a host's name or a file; empty means every host that is found.
	From  string
	Names []string // empty: all
	Home  bool     // into the home's configuration
	// Replace takes entries over that are configured already with other content.
	Replace bool
}

// Import is what an import would do.
type Import struct {
	Sources []ImportSource `json:"sources"`
	ChangeSet
}

// AcceptRequest accepts what a server is now, where that is not what was approved.
type AcceptRequest struct {
	Name string
	// Digest is that of the need of type integrity that was shown.
	Digest string
	Pin    string
	By     core.Actor
	// Presence says how whoever accepts it was asked.
	Presence core.Presence
}

// UpdateRequest asks for a newer version of a server's package.
type UpdateRequest struct {
	Name string
	// Digest of the update that was shown; empty only looks.
	Digest  string
	Scripts bool // its install scripts may run
	Pin     string
	By      core.Actor
}

// Update is a newer tree of a server's package, or one that was installed.
type Update struct {
	Name      string          `json:"name"`
	Package   string          `json:"package"`
	Range     string          `json:"range"`
	From      string          `json:"from,omitempty"`
	To        string          `json:"to"`
	OldDigest string          `json:"old_digest,omitempty"`
	Digest    string          `json:"digest"`
	Packages  []PackageChange `json:"packages"`
	Scripts   []string        `json:"scripts"`
	SizeBytes int64           `json:"size_bytes"`
	// Current is set when there is nothing newer.
	Current bool `json:"current"`
	// Installed is set once it was carried out; Tools are then the tools that
	// differ from those of the version before.
	Installed bool         `json:"installed"`
	Tools     []ToolChange `json:"tools,omitempty"`
}

// LockReport says what servers lock wrote, or would write.
type LockReport struct {
	File string `json:"file"`
	// Changed names the servers whose entry is not up to date.
	Changed []string `json:"changed"`
	// Gone are those of them that the configuration no longer has: their entries are
	// taken out.
	Gone    []string     `json:"gone,omitempty"`
	Servers []ServerInfo `json:"servers"`
	Written bool         `json:"written"`
}

// Removed says what was removed with a server.
type Removed struct {
	Name string `json:"name"`
	// Trees are folders of installed packages that were deleted, Bytes their size.
	Trees []string `json:"trees,omitempty"`
	Bytes int64    `json:"bytes,omitempty"`
	// Kept says what stays because others use it.
	Kept []string `json:"kept,omitempty"`
}

// Rule is a permission rule as it would be written to remember a decision.
type Rule struct {
	Approval core.ID `json:"checkpoint_id"`
	List     string  `json:"list"`
	Pattern  string  `json:"pattern"`
	Change   Change  `json:"change"`
}
