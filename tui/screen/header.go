package screen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
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
func (s *Screen) drawTiny(a paint.Area, e *Env) {
	waiting := e.State.Waiting(e.Now)
	text := fmt.Sprintf("pml: %d waiting", len(waiting))
	if left, ok := nextTTL(waiting, e.Now); ok {
		text += ", next " + ttlText(left)
	}
	a.Text(0, 0, a.W, paint.Style{}, fmt.Sprintf("%s (terminal %dx%d, need 40x10)", text, s.w, s.h))
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
	if s.mode() == dashboard {
		s.drawTop(a, e)
		putSpans(a, 1, 1, a.W-2, s.bannerSpans(e, a.W-2))
		return
	}
	room := a.W - 2
	banner := s.bannerSpans(e, room)
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

// tabNames are the panels as their tabs call them.
var tabNames = [panels]string{"Runs", "Approve", "DAG", "Task", "Events", "Audit", "Servers", "Hosts"}

// drawTabs is the first line where panels lie behind each other.
func (s *Screen) drawTabs(a paint.Area, lost bool, e *Env) {
	glyph, style := e.Theme.Glyph.Live, paint.Style{Role: paint.OK}
	if lost {
		glyph, style = e.Theme.Glyph.Stale, paint.Style{Role: paint.Danger}
	}
	help := hintText(e, keys.Help)
	tabs := s.tabTexts(true, e)
	if total := paint.Width(strings.Join(tabs, "")) + 10 + paint.Width(help); total > a.W {
		tabs = s.tabTexts(false, e)
	}
	x := 1 + a.Put(1, 0, paint.Style{Role: paint.Accent}.Bold(), "pml ")
	x += a.Put(x, 0, style, glyph+" ")
	for i, text := range tabs {
		look := paint.Style{Role: paint.Muted}
		if PanelID(i) == s.focus {
			look = paint.Style{Role: paint.Accent}.Bold()
		}
		w := a.Text(x, 0, a.W-1-x, look, text)
		s.tabs = append(s.tabs, tab{PanelID(i), x, 0, w})
		x += w
	}
	if w := paint.Width(help); x+w+2 <= a.W {
		a.Put(a.W-1-w, 0, paint.Style{Role: paint.Muted}, help)
	}
}

// tabTexts are the tabs, each as wide without the focus as with it. Those
// without the focus lose their names where there is no room, but for the first two.
func (s *Screen) tabTexts(names bool, e *Env) []string {
	out := make([]string, panels)
	counts := countRuns(e)
	for i := range out {
		text := strconv.Itoa(i + 1)
		if names || PanelID(i) == s.focus || PanelID(i) <= PanelApprovals && s.w >= 72 {
			text += " " + tabNames[i]
		}
		switch active := counts.running + counts.waiting; PanelID(i) {
		case PanelWorkflows:
			if active > 0 {
				text += fmt.Sprintf(" %d", active)
			}
		case PanelApprovals:
			if n := len(e.State.Waiting(e.Now)); n > 0 {
				text += fmt.Sprintf(" %d!", n)
			}
		case PanelDAG, PanelTask, PanelEvents, PanelAudit, PanelServers, PanelHosts, panels:
		}
		if out[i] = " " + text + " "; PanelID(i) == s.focus {
			out[i] = "[" + text + "]"
		}
	}
	return out
}

// bannerSpans say what waits for a person.
func (s *Screen) bannerSpans(e *Env, w int) []span {
	waiting := e.State.Waiting(e.Now)
	if len(waiting) == 0 {
		if !e.State.Loaded {
			return []span{{"reading what there is", paint.Style{Role: paint.Muted}}}
		}
		return []span{{"nothing is waiting for you", paint.Style{Role: paint.Muted}}}
	}
	long := w > 96
	text := fmt.Sprintf("%s %d waiting", e.Theme.Glyph.Waiting, len(waiting))
	if long {
		text = fmt.Sprintf("%s %s waiting", e.Theme.Glyph.Waiting, plural(len(waiting), "approval"))
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
	text += fmt.Sprintf(format, aboutText(next, " "), e.State.Name(next.RunID))
	return []span{{text, style}, {"   " + keyOf(e, keys.Panel2) + " review", paint.Style{Role: paint.Muted}}}
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
	keys.Install: "install", keys.Connect: "sign in", keys.ServerLog: "log", keys.Wrap: "wrap", keys.Trail: "trail",
}

func shortLabel(act keys.Action) string {
	if s, ok := shortLabels[act]; ok {
		return s
	}
	return keys.Label(act)
}

// drawFooter draws the message and the keys below the panels.
func (s *Screen) drawFooter(a paint.Area, e *Env) {
	spans := s.flashSpans(e)
	if known := slices.Concat(e.State.Warnings, e.State.Notices); spans == nil && len(known) > 0 {
		spans = []span{{e.Theme.Glyph.Waiting + " " + warningText(known), paint.Style{Role: paint.Warn}}}
	}
	putSpans(a, 1, a.H-2, a.W-2, spans)
	end := hintText(e, keys.Help, keys.Quit)
	acts := s.panels[s.focus].hints(e)
	if s.mode() == dashboard {
		acts = append([]keys.Action{keys.NextPanel}, acts...)
	}
	x, room := 1, a.W-2-paint.Width(end)-2
	for _, act := range acts {
		text := hintText(e, act)
		if w := paint.Width(text); text == "" || act == keys.Help || act == keys.Quit || x+w > room {
			continue
		}
		key := keyOf(e, act)
		n := a.Put(x, a.H-1, paint.Style{Role: paint.Accent}, key)
		x += n + a.Put(x+n, a.H-1, paint.Style{Role: paint.Muted}, text[len(key):]) + 2
	}
	a.Put(x, a.H-1, paint.Style{Role: paint.Muted}, end)
}

// flashSpans are the message, as long as it is new.
func (s *Screen) flashSpans(e *Env) []span {
	stays := flashFor
	if s.flash.level == Bad {
		stays = badFor
	}
	if s.flash.text == "" || e.Now.Sub(s.flash.at) > stays {
		return nil
	}
	glyph, role := e.Theme.Glyph.Done, paint.OK
	switch s.flash.level {
	case Note:
		glyph, role = e.Theme.Glyph.Dot, paint.Info
	case Bad:
		glyph, role = e.Theme.Glyph.Failed, paint.Danger
	case Good:
	}
	return []span{{glyph + " ", paint.Style{Role: role}.Bold()}, {clockText(s.flash.at, e) + " ", paint.Style{Role: paint.Muted}}, {s.flash.text, paint.Style{}}}
}

// drawCard shows the next approval alone.
func (s *Screen) drawCard(a paint.Area, e *Env) {
	waiting := e.State.Waiting(e.Now)
	if len(waiting) == 0 {
		s.drawIdle(a, e)
	} else {
		next := waiting[0]
		for _, w := range waiting {
			if w.ID == s.sel.Approval {
				next = w
			}
		}
		drawMini(a, e, next, len(waiting))
	}
	spans := s.flashSpans(e)
	if links, lost := linkSpans(e, a.W-2); spans == nil && lost {
		spans = links
	}
	if spans != nil {
		a.Sub(0, a.H-1, a.W, 1).Blank()
		putSpans(a, 1, a.H-1, a.W-2, spans)
	}
}

// drawIdle is the card when there is nothing to decide.
func (s *Screen) drawIdle(a paint.Area, e *Env) {
	in := a.Frame(paint.Title{Left: "pml", Right: clockText(e.Now, e), Focus: true})
	text := "Nothing is waiting."
	if !e.State.Loaded {
		text = "Reading what there is."
	}
	in.Text(0, 0, in.W, paint.Style{}, text)
	putSpans(in, 0, 2, in.W, countSpans(countRuns(e)))
	for i, line := range paint.Wrap("Too small for the dashboard (needs 60x15). Approvals show up here.", in.W) {
		in.Put(0, 4+i, paint.Style{Role: paint.Muted}, line)
	}
}
