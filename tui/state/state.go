// Package state holds what the terminal knows of runs, approvals and events:
// as last told, by whom, and how old that is. It does no I/O; who reads puts
// what it got here, and screens draw it.
package state

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// LinkState says how much what is shown of one half can be trusted.
type LinkState string

// The states of a link. None is a normal state: there is no server.
const (
	LinkNone       LinkState = "none"
	LinkConnecting LinkState = "connecting"
	LinkLive       LinkState = "live"
	LinkLost       LinkState = "lost" // being looked for again
)

// Link is the connection to one half.
type Link struct {
	State LinkState
	Since time.Time // of the state
	// AsOf is when the half last told something: what is shown is of then.
	AsOf    time.Time
	Seq     int64  // newest event seen
	Resumed int64  // sequence number that was resumed from, 0: never
	Err     string // why it is lost, safe to show
	Name    string // of a server, safe to show
}

// Links are the connections to both halves.
type Links struct{ Client, Server Link }

// Of returns the link of a side.
func (l *Links) Of(side core.Side) *Link {
	if side == core.SideServer {
		return &l.Server
	}
	return &l.Client
}

// State is all that is known. It is used by one goroutine.
type State struct {
	Links Links
	// Loaded is set once the first lists of runs and approvals are here.
	Loaded   bool
	Warnings []string // of the last lists: which part is missing, and why
	Notices  []string // of the workspace: what a person has to know of it
	// Halts say who has halted all calls: of each half that is halted.
	Halts []core.Halt

	runs      runTable
	approvals approvalTable
	details   map[core.ID]*detail
	begun     map[core.ID]core.Begun
	said      said  // what the model of the run that is looked at writes
	puts      int64 // of details, ever
	events    eventRing
	audit     []core.AuditRow
	decisions int64 // approvals that were resolved, ever
	version   int64
}

// New returns a state that knows nothing and keeps up to a number of events.
func New(maxEvents int) *State {
	return &State{
		runs: newRunTable(), approvals: newApprovalTable(), events: newEventRing(maxEvents),
		details: map[core.ID]*detail{}, begun: map[core.ID]core.Begun{},
	}
}

// SetLink says how the connection to a half stands. The number of the newest
// event stays the one that was seen.
func (s *State) SetLink(side core.Side, l Link) {
	link := s.Links.Of(side)
	l.Seq = link.Seq
	if *link != l {
		*link = l
		s.version++
	}
}

// SetNotices takes what a person has to know of the workspace, as lines that are
// safe to show.
func (s *State) SetNotices(list []string) {
	if !slices.Equal(s.Notices, list) {
		s.Notices = list
		s.version++
	}
}

// SetHalts takes who has halted all calls.
func (s *State) SetHalts(list []core.Halt) {
	same := func(a, b core.Halt) bool { return a.Side == b.Side && a.At.Equal(b.At) }
	if !slices.EqualFunc(s.Halts, list, same) {
		s.Halts = list
		s.version++
		s.decisions++
	}
}

// SetWarnings takes what the last lists lack, as lines that are safe to show.
func (s *State) SetWarnings(list []string) {
	if !slices.Equal(s.Warnings, list) {
		s.Warnings = list
		s.version++
	}
}

// SetLoaded says that the first lists are here.
func (s *State) SetLoaded() {
	if !s.Loaded {
		s.Loaded = true
		s.version++
	}
}

// Version grows with every change of what is known.
func (s *State) Version() int64 { return s.version }
