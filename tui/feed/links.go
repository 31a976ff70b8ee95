package feed

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// errRunes is how much of an error is shown.
const errRunes = 300

// linkTable is how the connections stand.
type linkTable struct {
	client, server linkInfo
}

type linkInfo struct {
	state.Link
	told    bool  // by Options.Links
	live    bool  // it has been, ever
	lostSeq int64 // newest event when it was lost
}

func (t *linkTable) of(side core.Side) *linkInfo {
	if side == core.SideServer {
		return &t.server
	}
	return &t.client
}

func (t *linkTable) begin(o Options) {
	now := o.Clock.Now()
	for _, side := range bothSides {
		t.of(side).Link = state.Link{State: state.LinkConnecting, Since: now}
	}
}

var bothSides = [...]core.Side{core.SideClient, core.SideServer}

// concluded reports whether the link of a half follows from how its reads go.
// Only of a server something else can tell: the own half is there as long as it
// can be read.
func (l *loop) concluded(side core.Side) bool {
	return side == core.SideClient || !l.links.of(side).told
}

// tellLinks hands over how the links stand.
func (l *loop) tellLinks() {
	client, server := l.links.client.Link, l.links.server.Link
	l.push(func(s *state.State) {
		s.SetLink(core.SideClient, client)
		s.SetLink(core.SideServer, server)
	})
}

// heard notes that something arrived from a half.
func (l *loop) heard(side core.Side) {
	k := l.links.of(side)
	if now := l.o.Clock.Now(); now.Sub(k.AsOf) >= time.Second || now.Before(k.AsOf) {
		k.AsOf = now
		l.tellLinks()
	}
}

// link takes a change of a connection.
func (l *loop) link(k Link) {
	l.links.of(k.Side).told = true
	l.setLink(k)
}

// setLink takes a change of a connection.
func (l *loop) setLink(k Link) {
	cur := l.links.of(k.Side)
	before, now := cur.State, l.o.Clock.Now()
	old := cur.Link
	if k.Name != "" {
		cur.Name = core.Visible(k.Name, errRunes, false)
	}
	cur.Err = ""
	switch {
	case k.Connecting:
		cur.State = state.LinkConnecting
	case k.Up:
		cur.State = state.LinkLive
	case k.None:
		cur.State = state.LinkNone
	default:
		cur.State = state.LinkLost
		if k.Err != nil {
			cur.Err = core.Visible(core.AsError(k.Err).Message, errRunes, false)
		}
	}
	since := cur.Since
	if cur.State != before {
		cur.Since = now
	}
	switch {
	case cur.State == state.LinkLost && before == state.LinkLive:
		cur.lostSeq = l.marks.of(k.Side).seq
	case cur.State == state.LinkLive && before != state.LinkLive:
		l.back(k.Side, before, since)
	}
	cur.live = cur.live || k.Up
	if cur.Link != old { // who is away is told to be so again and again
		l.tellLinks()
	}
}

// back goes on with a half that is there (again).
func (l *loop) back(side core.Side, before state.LinkState, since time.Time) {
	cur := l.links.of(side)
	if cur.live && before == state.LinkLost {
		cur.Resumed = cur.lostSeq
		gap := state.Gap{Side: side, At: cur.Since, Away: cur.Since.Sub(since), Seq: cur.lostSeq}
		l.push(func(s *state.State) { s.AddGap(gap) })
	}
	// Where nobody tells of the links, what works again has been begun already; and
	// begin has begun what a half needs that is there from the start.
	switch {
	case !cur.told || before == state.LinkConnecting && side == core.SideClient:
	case before == state.LinkConnecting && l.marks.locating:
		l.marks.unlessFound = true
	case before != state.LinkConnecting || !l.begun():
		l.locate()
	}
}

// begun reports whether the server had answered when its events were asked for and the
// runs were read: who says afterwards that it is there tells nothing new.
func (l *loop) begun() bool { return l.marks.server != (mark{}) && len(l.lists.warnings) == 0 }

// attempt is something that is tried again and again.
type attempt string

// The attempts. All but the last concern all of a half.
const (
	listing   attempt = "the runs could not be read"
	looking   attempt = "the runs that go on could not be read"
	asking    attempt = "the approvals could not be read"
	following attempt = "the events could not be followed"
	opening   attempt = "a run could not be read"
)

// attempts are all of them, in the order in which they are shown.
var attempts = [...]attempt{listing, looking, asking, following, opening}

// problem is why an attempt failed.
type problem struct {
	text string
	side core.Side // that is to blame
}

// trouble notes that an attempt failed.
func (l *loop) trouble(what attempt, err error) {
	p := problem{side: core.SideClient, text: string(what) + ": " + core.Visible(core.AsError(err).Message, errRunes, false)}
	switch core.CodeOf(err) {
	case core.CodeAuth, core.CodeInvalidConfig, core.CodeServerUnreachable, core.CodeRateLimited:
		p.side = core.SideServer
	default:
	}
	l.problems[what] = p
	if what != opening && l.concluded(p.side) {
		l.setLink(Link{Side: p.side, Err: err})
	}
	l.warn()
}

// well notes that an attempt worked.
func (l *loop) well(what attempt) {
	p, was := l.problems[what]
	delete(l.problems, what)
	if was {
		l.warn()
	}
	for _, side := range bothSides {
		k := l.links.of(side)
		lost := k.State == state.LinkLost && was && p.side == side
		begun := k.State == state.LinkConnecting && what == listing && (side == core.SideClient || l.o.Links == nil)
		if l.concluded(side) && (lost || begun) && !l.blamed(side) {
			l.setLink(Link{Side: side, Up: true})
		}
	}
}

// blamed reports whether something still goes wrong with all of a half.
func (l *loop) blamed(side core.Side) bool {
	for what, p := range l.problems {
		if what != opening && p.side == side {
			return true
		}
	}
	return false
}

// warn hands over what a person should know of what is shown.
func (l *loop) warn() {
	list := slices.Clone(l.lists.warnings)
	for _, what := range attempts {
		if p, ok := l.problems[what]; ok {
			list = append(list, p.text)
		}
	}
	if slices.Equal(list, l.warned) {
		return
	}
	l.warned = list
	l.push(func(s *state.State) { s.SetWarnings(list) })
}

// pause is how long to wait after failures in a row: longer each time, 0.25 s to
// 8 s.
func pause(failures int) time.Duration {
	return 250 * time.Millisecond << min(max(failures-1, 0), 5)
}
