package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// ConnectedHost is the host of an agent that is connected to a pml process of this
// machine.
type ConnectedHost struct {
	Client    core.Client `json:"client"`
	Who       string      `json:"who"`       // the user that the process belongs to
	Workspace string      `json:"workspace"` // the folder that it works in
	Transport string      `json:"transport"` // stdio
	PID       int         `json:"pid"`       // of the pml process
	Since     time.Time   `json:"since"`
}

// HostState is how a host's configuration stands to pml.
type HostState string

// The states of a host. A change goes with HostNew, HostDiffers, HostAdded and
// HostChanged.
const (
	HostNew        HostState = "new"        // it does not know pml yet
	HostRegistered HostState = "registered" // it does
	HostDiffers    HostState = "differs"    // what it knows by that name is another entry
	HostUnusable   HostState = "unusable"   // its file is left as it is: see Reason
	HostAdded      HostState = "added"      // pml's entry stands there as pml wrote it
	HostChanged    HostState = "changed"    // somebody has changed it since
	HostGone       HostState = "gone"       // it is not there any more
	HostByHand     HostState = "by_hand"    // an entry of pml stands there that pml has not added
)

// HostRequest says which hosts are meant: those of these names, or without any
// those that are found. Undo asks for what pml has added to be taken out.
type HostRequest struct {
	Hosts []string
	Undo  bool
	Hooks bool // without names: the permission hooks of hosts, not their MCP servers
	// ByHand asks for nothing but the entries of pml that pml has not added: a person has
	// written them, and pml changes none.
	ByHand bool
}

// HostChange is what telling one host of pml, or taking pml out again, would
// do.
type HostChange struct {
	Host   string    `json:"host"`
	Title  string    `json:"title"`
	File   string    `json:"file"`
	State  HostState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Entry  string    `json:"entry,omitempty"` // the name of the entry, with HostByHand
	// Change is what would be written. A file that pml made and that nobody else
	// has used is removed: then its After is nil.
	Change *Change `json:"change,omitempty"`
	// Covered names a host whose entry does for this one.
	Covered string `json:"covered_by,omitempty"`
	// Hint says what a person does for the host to see the change.
	Hint    string `json:"hint,omitempty"`
	Written bool   `json:"written"`
}

// HostCall is a call that an agent's host is about to make by itself, of a tool of its
// own.
type HostCall struct {
	Host   string // one of core.AskingHosts
	Tool   string // as the host calls it
	Args   json.RawMessage
	Client core.Client
	Folder string // where the host works
	// Asking says that the host would ask a person now; without it only a rule has a
	// person asked here.
	Asking bool
}

// HostEffect is what a host is to do with a call.
type HostEffect string

// The effects.
const (
	HostAllow  HostEffect = "allow"
	HostDeny   HostEffect = "deny"
	HostAsk    HostEffect = "ask"    // the host asks a person by itself
	HostSilent HostEffect = "silent" // no rule speaks of it: the host goes by its own
)

// HostAnswer is what a host gets for a call.
type HostAnswer struct {
	Effect HostEffect
	Reason string
}

// HostCalls answers agents' hosts.
type HostCalls interface {
	// HostMay says whether a host may make a call. It may wait for a person, until the
	// context ends. An error is no answer: the host asks by itself.
	HostMay(ctx context.Context, call HostCall) (HostAnswer, error)
}
