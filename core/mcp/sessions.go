package mcp

import (
	"encoding/hex"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// sessions are those over HTTP.
type sessions struct {
	clock   core.Clock
	random  io.Reader
	log     *slog.Logger
	most    int           // of all callers
	ofOwner int           // of one
	idle    time.Duration // without a message, until one is forgotten

	mu      sync.Mutex
	open    map[string]*session
	owned   map[string]int // how many, by owner
	sweeper *time.Timer    // ends idle sessions; nil: there are none at all
}

func newSessions(o Options) *sessions {
	return &sessions{
		clock: o.Clock, random: o.Random, log: o.Log, most: o.MaxSessions, ofOwner: o.OwnerSessions, idle: o.SessionIdle,
		open: map[string]*session{}, owned: map[string]int{},
	}
}

// count is how many there are.
func (all *sessions) count() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.open)
}

// begin makes a session for a holder. Its id cannot be guessed. When its owner, or
// all together, have too many, the owner's own that was idle longest makes room:
// never one of somebody else that may still be used.
func (all *sessions) begin(h holder) (*session, error) {
	var random [24]byte
	if _, err := io.ReadFull(all.random, random[:]); err != nil {
		return nil, core.Errorf(core.CodeInternal, "no random numbers for a session: %w", err)
	}
	s := newSession(hex.EncodeToString(random[:]), h, all.clock.Now())
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.hasRoom(h.owner) && !all.makeRoom(h.owner) {
		return nil, core.Errorf(core.CodeBudget, "too many MCP sessions are in use (%d, %d of this caller); try again later", len(all.open), all.owned[h.owner])
	}
	all.open[s.id] = s
	all.owned[h.owner]++
	if all.sweeper == nil {
		all.sweeper = time.AfterFunc(all.sweepEvery(), all.sweep)
	}
	return s, nil
}

// hasRoom reports whether an owner may open one more session. The caller holds
// the lock.
func (all *sessions) hasRoom(owner string) bool {
	return all.owned[owner] < all.ofOwner && len(all.open) < all.most
}

// makeRoom removes what is too old and, if that is nothing, one idle session of
// the owner. It reports whether there is room now. The caller holds the lock.
func (all *sessions) makeRoom(owner string) bool {
	all.dropOld()
	if all.hasRoom(owner) {
		return true
	}
	now := all.clock.Now()
	var oldest *session
	var since time.Time
	for _, s := range all.open {
		if s.holder.owner != owner {
			continue
		}
		if used, _, busy := s.idleSince(now, all.idle); !busy && (oldest == nil || used.Before(since)) {
			oldest, since = s, used
		}
	}
	if oldest != nil {
		all.drop(oldest)
	}
	return all.hasRoom(owner)
}

// dropOld ends the sessions that nobody uses any more. The caller holds the lock.
func (all *sessions) dropOld() {
	now := all.clock.Now()
	for _, s := range all.open {
		if _, over, _ := s.idleSince(now, all.idle); over {
			all.drop(s)
		}
	}
}

// sweepEvery is the time between two looks for sessions that nobody uses.
func (all *sessions) sweepEvery() time.Duration { return max(all.idle/8, time.Millisecond) }

// sweep ends what nobody uses, and comes again while there are sessions.
func (all *sessions) sweep() {
	defer core.Recover(all.log, "sessions that nobody uses were ended", nil)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.dropOld()
	if all.sweeper != nil {
		all.sweeper.Reset(all.sweepEvery())
	}
}

// find gives a holder's session. There is none for anybody else's id.
func (all *sessions) find(id string, h holder) (*session, bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	s, ok := all.open[id]
	if !ok || s.holder != h {
		return nil, false
	}
	now := all.clock.Now()
	if _, over, _ := s.idleSince(now, all.idle); over {
		all.drop(s)
		return nil, false
	}
	s.touch(now)
	return s, true
}

// remove ends a session.
func (all *sessions) remove(s *session) {
	all.mu.Lock()
	all.drop(s)
	all.mu.Unlock()
}

// drop ends a session and forgets it. The caller holds the lock.
func (all *sessions) drop(s *session) {
	if all.open[s.id] != s {
		return
	}
	delete(all.open, s.id)
	if all.owned[s.holder.owner]--; all.owned[s.holder.owner] <= 0 {
		delete(all.owned, s.holder.owner)
	}
	if len(all.open) == 0 && all.sweeper != nil {
		all.sweeper.Stop()
		all.sweeper = nil
	}
	s.end()
	beside(all.log, "it was told that a client has gone", s.leave) // it may tell servers
}

// ownerLimit bounds the calls of one owner that are made at the same time.
type ownerLimit struct {
	most int

	mu    sync.Mutex
	calls map[string]int // by owner
}

// enter counts one more call of an owner that may take its time, in whatever
// session, if there may be one.
func (l *ownerLimit) enter(owner string) bool {
	if owner == "" {
		return true // this user: a session's limit is enough
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[owner] >= l.most {
		return false
	}
	l.calls[owner]++
	return true
}

func (l *ownerLimit) leave(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[owner]--; l.calls[owner] <= 0 {
		delete(l.calls, owner)
	}
}
