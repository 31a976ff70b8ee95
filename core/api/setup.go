package api

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// What follows is the part of the contract that only this machine has: it
// arranges what runs may use. Methods that return a Change or a ChangeSet write
// nothing: Write does.

// Setup is all of it.
type Setup interface {
	Upstream
	Workspace
	Changes
	People
	Hosts
	Doctor
	Permissions
}

// Upstream arranges what runs talk to: MCP servers, their packages, and models.
type Upstream interface {
	Servers
	Packages
	Models
}

// Servers looks at MCP servers and changes which are configured.
type Servers interface {
	// Servers lists the configured servers without starting anything.
	Servers(ctx context.Context) ([]ServerInfo, error)
	// CheckServers starts those that may be started (all without names) and
	// compares their tools. A server that fails is no error of the call.
	CheckServers(ctx context.Context, names ...string) ([]ServerInfo, error)
	AddServer(ctx context.Context, e ServerEntry) (ChangeSet, error)
	// RemoveServers prepares the removal of all of these servers, or of none.
	RemoveServers(ctx context.Context, names ...string) (ChangeSet, error)
	// Purge removes what this machine keeps of a server: approvals, credentials
	// and installed trees that nobody else uses.
	Purge(ctx context.Context, name string) (Removed, error)
	ImportServers(ctx context.Context, req ImportRequest) (Import, error)
	// ConnectServer takes a person through OAuth: show gets the URL to open.
	// It returns once the server is connected, or the context ends.
	ConnectServer(ctx context.Context, name string, show func(url string)) error
}

// Packages pins, updates and accepts what MCP servers run.
type Packages interface {
	// LockServers resolves servers (all without names) and pins them in pml.lock;
	// with check it only compares. It approves and installs nothing.
	LockServers(ctx context.Context, check bool, names ...string) (LockReport, error)
	// UpdateServer looks for a newer version; with the digest of an update that
	// was shown it installs and approves exactly that.
	UpdateServer(ctx context.Context, req UpdateRequest, progress func(string)) (Update, error)
	// AcceptServer accepts what a server is now, if that is still what was shown (else
	// core.CodeDigestMismatch). Only a person does: at a terminal, or by the PIN.
	AcceptServer(ctx context.Context, req AcceptRequest) error
}

// Deciders is who decides what pml asks in a workspace.
type Deciders struct {
	// Agents: an agent may pass on a yes to what is not of high risk. Otherwise only
	// people decide.
	Agents bool
	// Dialog: what a person answers in the dialog of the agent's host counts.
	Dialog bool
}

// Workspace is what the files of the workspace and this machine say.
type Workspace interface {
	Trust(ctx context.Context) (TrustState, error)
	// SetTrust trusts the content that has the digest (else core.CodeDigestMismatch).
	// pin is needed where approvals.pin is set.
	SetTrust(ctx context.Context, digest, pin string) error
	// Init writes a first .pml.json and returns the path; an existing one is an error.
	// trust keeps a workspace trusted whose files granted nothing before; where a PIN
	// is set that takes SetTrust.
	Init(ctx context.Context, who Deciders, trust bool) (path string, err error)
	// DecidersChange prepares who decides in the .pml.json that is there.
	DecidersChange(ctx context.Context, who Deciders) (ChangeSet, error)
	// Config is the effective configuration, secrets left out.
	Config(ctx context.Context) (json.RawMessage, error)
	// Paths says where things are kept; a file need not exist.
	Paths(ctx context.Context) (Paths, error)
}

// Changes writes what was shown, if the files are still those it was made from
// (else core.CodeDigestMismatch). With keepTrust a workspace that is trusted stays
// trusted with exactly this change; trusted says whether it is now. A PIN, where
// one is set, is needed for keepTrust.
type Changes interface {
	Write(ctx context.Context, set ChangeSet, keepTrust bool, pin string) (trusted bool, err error)
}

// Pin reports whether approvals need a PIN here.
type Pin interface {
	NeedsPin(ctx context.Context) (bool, error)
	// ShowsPerson reports whether that PIN shows that somebody is a person: not one that came
	// from a configuration after there were runs, until a person has typed it at a terminal.
	ShowsPerson(ctx context.Context) (bool, error)
}

// How long a PIN is.
const (
	MinPinLetters = 6
	MaxPinBytes   = 72 // more would not count in a bcrypt hash
)

// CheckPin refuses what can be no PIN: core.CodeInvalidArguments.
func CheckPin(pin string) error {
	if !utf8.ValidString(pin) || core.Visible(pin, 0, false) != pin || utf8.RuneCountInString(pin) < MinPinLetters || len(pin) > MaxPinBytes {
		return core.Errorf(core.CodeInvalidArguments, "a PIN has at least %d characters that can be typed, and at most %d bytes", MinPinLetters, MaxPinBytes)
	}
	return nil
}

// PinSetup sets the PIN.
type PinSetup interface {
	Pin
	// PinChange sets the PIN of approvals.pin in the home's configuration, or
	// removes it when the new one is empty. An existing PIN must be given.
	PinChange(ctx context.Context, old, new string) (ChangeSet, error)
	// AdoptPin makes the stores want the PIN that the configuration has now, none
	// where it has none; old is the one that they want so far.
	AdoptPin(ctx context.Context, old string, atTerminal bool) error
}

// People is what concerns those who decide: their PIN, and how they are told.
type People interface {
	PinSetup
	Notify
}

// Hosts tells the programs of agents of pml.
type Hosts interface {
	// HostChanges prepares changes of their files and writes nothing.
	HostChanges(ctx context.Context, req HostRequest) ([]HostChange, error)
	// HostWorkspaces are the folders from which pml was put into files of hosts.
	HostWorkspaces(ctx context.Context) ([]string, error)
	// WriteHost writes one that was shown (else core.CodeDigestMismatch).
	WriteHost(ctx context.Context, change HostChange) error
	// ConnectedHosts are those that are connected over stdio to processes of this
	// home, who came first in front.
	ConnectedHosts(ctx context.Context) ([]ConnectedHost, error)
}

// Doctor looks for what is wrong.
type Doctor interface {
	Doctor(ctx context.Context) ([]Check, error)
}
