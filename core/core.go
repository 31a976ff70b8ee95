// Package core is the vocabulary of pml: runs, tasks, journal records,
// approvals, events, plans and errors, as every other package names them.
//
// It holds data and pure rules only and imports nothing but the standard
// library. JSON names follow the published contract; readers tolerate unknown
// fields and names do not change within a major version.
package core

import (
	"cmp"
	"encoding/json"
	"time"
)

// ID names a run or an approval: a UUIDv4 in its canonical text form. The
// first 8 digits are its short form on screens.
type ID string

// Short returns the first 8 digits of the id, or the whole of a shorter one.
func (id ID) Short() string {
	if len(id) < 8 {
		return string(id)
	}
	return string(id[:8])
}

// Side says which half of pml owns a run.
type Side string

// The two halves: runs on this machine, and runs of a server.
const (
	SideClient Side = "client"
	SideServer Side = "server"
)

// Kind is the kind of program that a run executes.
type Kind string

// The kinds of program.
const (
	KindCode Kind = "code"
	KindDAG  Kind = "dag"
	// KindReads is a list of calls which only read, made for one client one after the
	// other. It was never a program: nothing of it can be run again.
	KindReads Kind = "reads"
	// KindAgent is a model that works towards a goal.
	KindAgent Kind = "agent"
)

// OfferedTask begins the id of a task whose result is that of the server as it sent
// it, not what a script would get: of the run that makes a proxied call.
const OfferedTask = "offered_call"

// CalledTask begins the id of the only task of a run that calls one tool for a person
// (pml tools call).
const CalledTask = "call"

// HIL says before which layers a person is asked.
type HIL string

// The human-in-the-loop modes. The empty value means HILNever.
const (
	HILAlways      HIL = "always"       // before every layer
	HILSideEffects HIL = "side_effects" // before a layer with a call that is not read-only
	HILNever       HIL = "never"
)

// Valid reports whether h is a known mode or empty.
func (h HIL) Valid() bool {
	return h == "" || h == HILAlways || h == HILSideEffects || h == HILNever
}

// Via is the way a decision or a request came in.
type Via string

// The ways in.
const (
	ViaCLI         Via = "cli"
	ViaTUI         Via = "tui"
	ViaMCP         Via = "mcp"
	ViaHTTP        Via = "http"
	ViaElicitation Via = "elicitation"
	ViaRule        Via = "rule"
	// ViaHook is the permission hook of an agent's host: it asks, and decides nothing.
	ViaHook Via = "hook"
	// ViaPage is a page of pml serve in a browser: of a device, which Client names, or of
	// who has signed in with an API key.
	ViaPage Via = "page"
)

// Actor is who asked for or decided something.
type Actor struct {
	Who string `json:"who"`
	Via Via    `json:"via"`
	// Client is what the client of an agent has said of itself; empty for people and
	// for clients that say nothing.
	Client Client `json:"client,omitzero"`
	// OldAgent is the name of the client as an older pml has kept it; nothing writes it.
	OldAgent string `json:"agent,omitempty"`
}

// Client is what a client of MCP says of itself (clientInfo), fit to be kept and
// shown.
type Client struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Title   string `json:"title,omitempty"`
}

// clientRunes is how long each part of a Client is at most, in characters.
const clientRunes = 60

// NewClient is what a client says of itself made fit to be kept and shown; without a
// name it is none.
func NewClient(name, version, title string) Client {
	c := Client{Name: OneLine(name, clientRunes), Version: OneLine(version, clientRunes), Title: OneLine(title, clientRunes)}
	if c.Name == "" {
		c.Name, c.Title = c.Title, ""
	}
	if c.Name == "" {
		return Client{}
	}
	return c
}

// Host is the name of the agent's host; empty for people and for clients without a
// name.
func (a Actor) Host() string { return cmp.Or(a.Client.Name, a.OldAgent) }

// Name says who it is to people: an agent is never called by its user's name
// alone. It is foreign text.
func (a Actor) Name() string {
	host := a.Host()
	switch {
	case a.Via == ViaPage && host != "":
		return a.Who + " on " + host
	case a.Via == ViaElicitation && host != "":
		return a.Who + " in " + host
	case host != "":
		return "agent " + host + " (" + a.Who + ")"
	case a.Via == ViaMCP && a.Who != "agent" && a.Who != "":
		return "agent (" + a.Who + ")"
	default:
		return a.Who
	}
}

// byItself is pml where nobody has decided and no rule either: what has expired, or what no
// answer is needed to any more.
var byItself = Actor{Who: "pml", Via: ViaRule}

// Label is who it is in a list: "agent claude-code", "ann/cli", "ann in claude-code". It
// is foreign text.
func (a Actor) Label() string {
	switch host := a.Host(); {
	case (a.Via == ViaMCP || a.Via == ViaHook) && host != "":
		return "agent " + host
	case a.Via == ViaMCP || (a.Via == ViaElicitation || a.Via == ViaPage) && host != "" || a.Via == "":
		return a.Name()
	case a == byItself:
		return a.Who
	default:
		return a.Who + "/" + string(a.Via)
	}
}

// Origin is who it is and by what means: "agent claude-code (ann)", "ann via cli", "ann
// in claude-code". It is foreign text.
func (a Actor) Origin() string {
	if a.Via == "" || a.Via == ViaMCP || a == byItself || (a.Via == ViaElicitation || a.Via == ViaHook) && a.Host() != "" {
		return a.Name()
	}
	if a.Via == ViaPage && a.Host() != "" {
		return a.Who + " via " + string(a.Via) + " on " + a.Host()
	}
	return a.Who + " via " + string(a.Via)
}

// Position is a place in a user's source text; both count from 1.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Clock tells the time. Production code takes one instead of calling time.Now.
type Clock interface {
	Now() time.Time
}

// Null is the JSON null.
var Null = json.RawMessage("null")
