package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// flashFor is how long a message stays that no key takes away, and badFor how long one
// does that says what went wrong.
const (
	flashFor = 5 * time.Second
	badFor   = time.Minute
)

// span is a piece of a line.
type span struct {
	text  string
	style paint.Style
}

// putSpans writes pieces one after the other into w columns.
func putSpans(a paint.Area, x, y, w int, spans []span) {
	used := 0
	for _, s := range spans {
		used += a.Text(x+used, y, w-used, s.style, s.text)
	}
}

func spansWidth(spans []span) int {
	n := 0
	for _, s := range spans {
		n += paint.Width(s.text)
	}
	return n
}

// drawTiny says on one line that there is no room, and what waits.
func drawTiny(a paint.Area, e *Env) {
	waiting := e.State.Waiting(e.Now)
	text := fmt.Sprintf("pml: %d waiting", len(waiting))
	if len(e.State.Halts) > 0 {
		text = "HALTED " + text
	}
	if left, ok := nextTTL(waiting, e.Now); ok {
		text += ", next " + ttlText(left)
	}
	a.Text(0, 0, a.W, paint.Style{}, fmt.Sprintf("%s (terminal %dx%d, need 40x10)", text, a.W, a.H))
}

// nextTTL is how long the approval that expires first can still be decided.
func nextTTL(waiting []core.Approval, now time.Time) (time.Duration, bool) {
	if len(waiting) == 0 || waiting[0].ExpiresAt == nil {
		return 0, false
	}
	return waiting[0].ExpiresAt.Sub(now), true
}

// drawHeader draws the two lines above the panels: who, where and how live; and
// what waits.
func (s *Screen) drawHeader(a paint.Area, e *Env) {
	if s.panes.mode() == dashboard {
		s.drawTop(a, e)
		putSpans(a, 1, 1, a.W-2, bannerSpans(e, a.W-2))
		return
	}
	room := a.W - 2
	banner := bannerSpans(e, room)
	links, lost := linkSpans(e, room*6/10)
	s.drawTabs(a, lost, e)
	if w := spansWidth(links); lost || spansWidth(banner)+w+3 <= room {
		w = min(w, room*6/10)
		putSpans(a, a.W-1-w, 1, w, links)
		room -= w + 2
	}
	putSpans(a, 1, 1, room, banner)
}

// drawTop is the first line where there is room for words.
func (s *Screen) drawTop(a paint.Area, e *Env) {
	links, _ := linkSpans(e, a.W/2)
	right := fmt.Sprintf("%s  %s", clockText(e.Now, e), hintText(e, keys.Help, keys.Palette, keys.Quit))
	w := paint.Width(right)
	a.Put(a.W-1-w, 0, paint.Style{Role: paint.Muted}, right)
	spans := []span{
		{"pml " + core.Visible(s.o.Version, 30, false), paint.Style{Role: paint.Accent}.Bold()},
		{"   " + core.Visible(s.o.Workspace, 40, false) + "   ", paint.Style{}},
	}
	spans = append(append(spans, links...), span{"   ", paint.Style{}})
	putSpans(a, 1, 0, a.W-w-4, append(spans, countSpans(countRuns(e))...))
}

// runCounts are how many runs are in which state, as the header tells them; no
// word counts runs of another state than it says.
type runCounts struct{ running, waiting, failed, done, interrupted int }

func countRuns(e *Env) runCounts {
	return runCounts{
		running: e.State.CountRuns(core.RunRunning),
		waiting: e.State.CountRuns(core.RunWaiting),
		failed:  e.State.CountRuns(core.RunFailed),
		done:    e.State.CountRuns(core.RunComplete),

		interrupted: e.State.CountRuns(core.RunInterrupted),
	}
}

func countSpans(c runCounts) []span {
	one := func(label string, n int, role paint.Role) span {
		style := paint.Style{Role: paint.Muted}
		if n > 0 {
			style.Role = role
		}
		return span{fmt.Sprintf("%s %d  ", label, n), style}
	}
	out := []span{one("run", c.running, paint.Info), one("wait", c.waiting, paint.Warn), one("fail", c.failed, paint.Danger), one("done", c.done, paint.OK)}
	if c.interrupted > 0 {
		out = append(out, one("interrupted", c.interrupted, paint.Warn))
	}
	return out
}

// idleSpans say that nothing can be decided as it is: what has expired is asked again, and
// its runs wait on; what was interrupted goes on when somebody says so.
func idleSpans(e *Env) []span {
	switch n := e.State.ExpiredRuns(e.Now); n {
	case 0:
		text := "nothing is waiting for you"
		interrupted, alone := e.State.CountRuns(core.RunInterrupted), runsLeftAlone(e)
		switch {
		case alone > 0:
			text = fmt.Sprintf("nothing to decide; %s stopped: %s goes on", plural(interrupted+alone, "run"), keyOf(e, keys.Again))
		case interrupted > 0:
			text = fmt.Sprintf("nothing to decide; %s interrupted: %s goes on", plural(interrupted, "run"), keyOf(e, keys.Again))
		}
		return []span{{text, paint.Style{Role: paint.Muted}}}
	case 1:
		return []span{{e.Theme.Glyph.Waiting + " 1 run waits for what has expired: " + keyOf(e, keys.Again) + " asks again", paint.Style{Role: paint.Warn}}}
	default:
		return []span{{fmt.Sprintf("%s %d runs wait for what has expired: %s asks again", e.Theme.Glyph.Waiting, n, keyOf(e, keys.Again)), paint.Style{Role: paint.Warn}}}
	}
}

// runsLeftAlone counts the runs that wait and ask nothing, and go on when somebody says so.
func runsLeftAlone(e *Env) (n int) {
	left := e.State.CountRuns(core.RunWaiting)
	if left == 0 {
		return 0
	}
	for _, id := range e.State.Runs() {
		r, _ := e.State.Run(id)
		if r.State != core.RunWaiting {
			continue
		}
		if againWord(r, e) == goOn {
			n++
		}
		if left--; left == 0 {
			break
		}
	}
	return n
}

// bannerSpans say what waits for a person.
func bannerSpans(e *Env, w int) []span {
	halt := haltSpans(e)
	if halt == nil {
		return waitingSpans(e, w)
	}
	if len(e.State.Waiting(e.Now)) > 0 { // what waits can be decided all the same
		return append(halt[:2], waitingSpans(e, w)...)
	}
	return halt
}

// waitingSpans are the banner while calls are not halted.
func waitingSpans(e *Env, w int) []span {
	waiting := e.State.Waiting(e.Now)
	if len(waiting) == 0 {
		if !e.State.Loaded {
			return []span{{"reading what there is", paint.Style{Role: paint.Muted}}}
		}
		return idleSpans(e)
	}
	long := w > 96
	text := fmt.Sprintf("%s %d waiting", e.Theme.Glyph.Waiting, len(waiting))
	if long {
		text = fmt.Sprintf("%s %s waiting", e.Theme.Glyph.Waiting, plural(len(waiting), "approval"))
	}
	if n := e.State.ExpiredRuns(e.Now); n > 0 {
		text += fmt.Sprintf(", %d expired", n)
	}
	style := paint.Style{Role: paint.Warn}.Bold()
	if left, ok := nextTTL(waiting, e.Now); ok {
		if long {
			text += ", next expires in " + ttlText(left)
		} else {
			text += ", next " + ttlText(left)
		}
		if left < 20*time.Second {
			style.Role = paint.Danger
		}
	}
	next := waiting[0]
	format := " %s (%s)"
	if long {
		format = " (%s, %s)"
	}
	review := "   " + keyOf(e, keys.Panel2) + " review"
	text += fmt.Sprintf(format, aboutText(next, " "), e.State.Name(next.RunID))
	if room := w - paint.Width(review); paint.Width(text) > room { // the key is what must not be cut off
		text = paint.Clip(text, room, e.Theme.Glyph.More)
	}
	return []span{{text, style}, {review, paint.Style{Role: paint.Muted}}}
}

// warningText is what the last lists lack, and what a person has to know of the
// workspace.
func warningText(list []string) string {
	text := core.Visible(list[0], 300, false)
	if n := len(list); n > 1 {
		text += fmt.Sprintf(" (and %d more)", n-1)
	}
	return text
}

// trustKey has a notice name the key that looks and trusts, in the panels that have it.
func trustKey(text string, at PanelID, e *Env) string {
	notice, ok := strings.CutSuffix(text, api.LookAndTrust)
	if !ok || at != PanelFlows && at != PanelServers {
		return text
	}
	return notice + ": " + keyOf(e, keys.TrustFlows) + " shows it and trusts it"
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// subjectOf is what an approval is about, in one word.
func subjectOf(a core.Approval) string {
	if a.Tool != "" {
		return core.Visible(a.Tool, 60, false)
	}
	if n, ok := gateLayer(&a); ok {
		return "layer " + itoa(n+1)
	}
	return core.Visible(a.Subject, 60, false)
}

// aboutText is the type of an approval and what it is about.
func aboutText(a core.Approval, between string) string {
	if _, ok := gateLayer(&a); ok && a.Tool == "" {
		return subjectOf(a) // names the type
	}
	return typeName(a.Type) + between + subjectOf(a)
}

// keyOf is the key of an action to show, or a dash where it has none.
func keyOf(e *Env, act keys.Action) string {
	if k := e.Keys.Keys(act); len(k) > 0 {
		return k[0]
	}
	return "-"
}

// hintText is actions with their keys: "? help  q quit".
func hintText(e *Env, acts ...keys.Action) string {
	var b strings.Builder
	for _, act := range acts {
		if len(e.Keys.Keys(act)) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("  ")
		}
		b.WriteString(keyOf(e, act) + " " + shortLabel(act))
	}
	return b.String()
}

// shortLabels are what keys do, in fewer words than in the help.
var shortLabels = map[keys.Action]string{
	keys.Filter: "filter", keys.Abort: "abort", keys.Replan: "replan", keys.CopyID: "copy id", keys.CopyCommand: "copy command",
	keys.CopyAll: "copy JSON", keys.OnlyThis: "this run", keys.Again: "retry", keys.NextPanel: "panel", keys.Approve: "approve",
	keys.ApproveRemember: "remember", keys.Message: "message", keys.MoreTime: "more time", keys.Edit: "view", keys.Save: "save",
	keys.Zoom: "zoom", keys.SortReverse: "reverse", keys.MarkRange: "range", keys.Refresh: "refresh",
	keys.Restart: "restart", keys.Install: "decide needs", keys.Connect: "sign in", keys.ServerLog: "log", keys.Wrap: "wrap", keys.Trail: "trail",
	keys.Palette: "command", keys.Halt: "halt", keys.Bounds: "loop", keys.Alike: "unfold", keys.SwitchFlow: "on/off", keys.NewFlow: "new", keys.AddNode: "add", keys.AddBefore: "before", keys.ConnectTo: "link",
	keys.Disconnect: "cut", keys.MoveNode: "move", keys.LabelNode: "name", keys.DeleteNode: "del", keys.EditFlow: "text", keys.TrustFlows: "trust", keys.TryFlow: "test", keys.NextMatch: "next match", keys.PreviousTab: "previous", keys.NextTab: "next", keys.FlowLink: "flow run/call", keys.RunResult: "result",
}

func shortLabel(act keys.Action) string {
	if s, ok := shortLabels[act]; ok {
		return s
	}
	return keys.Label(act)
}

// drawFooter draws the message and the keys below the panels.
func (s *Screen) drawFooter(a paint.Area, e *Env) {
	spans := s.flash.spans(e)
	if known := slices.Concat(e.State.Warnings, e.State.Notices); spans == nil && len(known) > 0 {
		spans = []span{{e.Theme.Glyph.Waiting + " " + trustKey(warningText(known), s.panes.acting(), e), paint.Style{Role: paint.Warn}}}
	}
	rest := wholeFlash(a, s.flash, spans)
	putSpans(a, 1, a.H-2, a.W-2, spans)
	if rest != "" { // the keys are there again once it was read
		a.Text(2, a.H-1, a.W-3, paint.Style{}, rest)
		return
	}
	if len(s.overlay) > 0 { // it has the keys, and says which
		return
	}
	end := hintText(e, keys.Help, keys.Quit)
	acts := s.panels[s.panes.focus].hints(e)
	if s.panes.mode() == dashboard {
		end = hintText(e, keys.Palette, keys.Help, keys.Quit)
		acts = append([]keys.Action{keys.NextPanel}, slices.DeleteFunc(slices.Clone(acts), func(a keys.Action) bool { return a == keys.Palette })...)
	}
	more := unseen(s)
	x, room := 1, a.W-2-paint.Width(end)-2
	if more != "" {
		room -= paint.Width(more) + 3
	}
	for _, act := range acts {
		text := hintText(e, act)
		if word := s.panelWord(act, e); word != "" && text != "" {
			text = keyOf(e, act) + " " + word
		}
		if w := paint.Width(text); text == "" || act == keys.Help || act == keys.Quit || x+w > room {
			continue
		}
		key := keyOf(e, act)
		n := a.Put(x, a.H-1, paint.Style{Role: paint.Accent}, key)
		x += n + a.Put(x+n, a.H-1, paint.Style{Role: paint.Muted}, text[len(key):]) + 2
	}
	x += a.Put(x, a.H-1, paint.Style{Role: paint.Muted}, end) + 3
	if x+paint.Width(more) <= a.W-1 {
		a.Right(x, a.H-1, a.W-1-x, paint.Style{Role: paint.Muted}, more)
	}
}

// unseen says with which digits the panels come that a dashboard does not show; elsewhere tabs do.
func unseen(s *Screen) string {
	var digits []string
	for id := range tabNames {
		if !slices.ContainsFunc(s.places, func(p place) bool { return p.id == PanelID(id) }) {
			digits = append(digits, itoa(id+1))
		}
	}
	n := len(digits)
	if s.panes.mode() != dashboard || n == 0 {
		return ""
	}
	text := strings.Join(digits, " ")
	if first, last := text[:1], text[len(text)-1:]; n > 2 && int(last[0]-first[0]) == n-1 {
		text = first + "-" + last
	}
	return text + " other panels"
}

// wording is a panel in which keys do something else than elsewhere.
type wording interface {
	// hintWord is what a key does here where that is not what it does elsewhere; empty
	// where it is.
	hintWord(act keys.Action, e *Env) string
}

// panelWord is what a key does in the panel that has the keys, where that is something else
// than elsewhere.
func (s *Screen) panelWord(act keys.Action, e *Env) string {
	if p, ok := s.panels[s.panes.acting()].(wording); ok {
		return p.hintWord(act, e)
	}
	return ""
}

// spans are the message, as long as it is new.
func (f flash) spans(e *Env) []span {
	stays := flashFor
	if f.level == Bad {
		stays = badFor
	}
	if f.text == "" || e.Now.Sub(f.at) > stays {
		return nil
	}
	glyph, role := e.Theme.Glyph.Done, paint.OK
	switch f.level {
	case Note:
		glyph, role = e.Theme.Glyph.Dot, paint.Info
	case Bad:
		glyph, role = e.Theme.Glyph.Failed, paint.Danger
	case Good:
	}
	return []span{{glyph + " ", paint.Style{Role: role}.Bold()}, {clockText(f.at, e) + " ", paint.Style{Role: paint.Muted}}, {f.text, paint.Style{}}}
}

// wholeFlash breaks what says that something did not work, where a line has no room for all of
// it, and returns what the next line says.
func wholeFlash(a paint.Area, f flash, spans []span) (rest string) {
	if f.level == Good || len(spans) != 3 || spans[2].text != f.text {
		return ""
	}
	room := a.W - 2 - paint.Width(spans[0].text) - paint.Width(spans[1].text)
	if paint.Width(f.text) <= room {
		return ""
	}
	lines := paint.Wrap(f.text, room)
	spans[2].text = lines[0]
	return strings.TrimSpace(strings.TrimPrefix(f.text, lines[0]))
}

// drawCard shows the next approval alone.
func (s *Screen) drawCard(a paint.Area, e *Env) {
	waiting := e.State.Waiting(e.Now)
	if len(waiting) == 0 {
		drawIdle(a, e)
	} else {
		next := waiting[0]
		for _, w := range waiting {
			if w.ID == s.sel.Approval {
				next = w
			}
		}
		what := ""
		if p := s.panels[PanelApprovals].(*inboxPanel); p.rows.groups.of[next.ID] != nil {
			what = p.groupText(next.ID, e)
		}
		drawMini(a, e, next, what, len(waiting))
	}
	spans := s.flash.spans(e)
	if links, lost := linkSpans(e, a.W-2); lost && (spans == nil || s.flash.level == Note) {
		spans = links
	}
	if spans != nil {
		a.Sub(0, a.H-1, a.W, 1).Blank()
		putSpans(a, 1, a.H-1, a.W-2, spans)
	}
}

// drawIdle is the card when there is nothing to decide.
func drawIdle(a paint.Area, e *Env) {
	in := a.Frame(paint.Title{Left: "pml", Right: clockText(e.Now, e), Focus: true})
	text := idleSpans(e)[0].text
	if e.State.ExpiredRuns(e.Now) == 0 {
		text = "Nothing is waiting."
	}
	if !e.State.Loaded {
		text = "Reading what there is."
	}
	y := 0
	for _, line := range paint.Wrap(text, in.W) {
		in.Put(0, y, paint.Style{}, line)
		y++
	}
	putSpans(in, 0, y, in.W, haltSpans(e))
	putSpans(in, 0, y+1, in.W, countSpans(countRuns(e)))
	for i, line := range paint.Wrap("Too small for the dashboard (needs 60x15). Approvals show up here; "+keyOf(e, keys.Palette)+" workflows ls lists runs.", in.W) {
		in.Put(0, y+3+i, paint.Style{Role: paint.Muted}, line)
	}
}

// tooSmallFor says what a panel needs where one approval has the whole window: approvals are
// decided there, one after the other.
func tooSmallFor(id PanelID, e *Env) string {
	if id == PanelApprovals && len(e.State.Waiting(e.Now)) > 0 {
		return keyOf(e, keys.Open) + " opens it, " + keyOf(e, keys.Down) + " the next"
	}
	return tabNames[id] + " needs 60x15"
}
