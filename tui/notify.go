package tui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/osc"
)

// stage is which notices of an approval pml has shown.
type stage int

// The stages, in the order in which they come.
const (
	asked stage = iota + 1
	soon
	last
)

// When pml notifies again of an approval that is about to expire.
const (
	soonBefore = 60 * time.Second
	lastBefore = 20 * time.Second
)

// stageOf is the stage that an open approval is in.
func stageOf(a core.Approval, now time.Time) stage {
	if a.ExpiresAt == nil {
		return asked
	}
	switch left := a.ExpiresAt.Sub(now); {
	case left <= lastBefore:
		return last
	case left <= soonBefore:
		return soon
	}
	return asked
}

// notifier tells a person of what waits: each approval when it is asked for,
// and when a minute and 20 seconds are left. It is pure but for what it
// remembers.
type notifier struct {
	how   Notify
	told  map[core.ID]stage
	began bool
}

func newNotifier(how Notify) *notifier { return &notifier{how: how, told: map[core.ID]stage{}} }

// step takes what waits and returns what to send. What waits at the start is
// on the screen that was just opened: of that nobody is told. focused says that
// the terminal is known to have the focus: then the banner is enough, except
// for who wants a bell.
func (n *notifier) step(waiting []core.Approval, focused bool, t osc.Terminal, now time.Time) string {
	first := !n.began
	n.began = true
	var news []core.Approval
	seen := make(map[core.ID]stage, len(waiting))
	for _, a := range waiting {
		at := stageOf(a, now)
		if at > n.told[a.ID] && !first {
			news = append(news, a)
		}
		seen[a.ID] = max(at, n.told[a.ID])
	}
	n.told = seen
	switch {
	case len(news) == 0, n.how == NotifyOff, n.how == NotifyOSC && focused:
		return ""
	case n.how == NotifyBell:
		return osc.Bell
	}
	return osc.Bell + t.Notification("pml", messageOf(news, now))
}

// messageOf says what waits, in one line.
func messageOf(news []core.Approval, now time.Time) string {
	a := news[0]
	text := named(a, ": ")
	if len(news) > 1 {
		text = fmt.Sprintf("%d approvals, first %s", len(news), text)
	}
	if a.RunName != "" {
		text += " (" + core.OneLine(a.RunName, titleRunes) + ")"
	}
	if a.ExpiresAt != nil {
		text += ", expires in " + leftOf(a, now)
	}
	return text
}

// titleOf is the title of the window: how much waits, and how long the first of
// it still does.
func titleOf(waiting []core.Approval, now time.Time) string {
	if len(waiting) == 0 {
		return "pml"
	}
	title := fmt.Sprintf("pml %d!", len(waiting))
	if waiting[0].ExpiresAt != nil {
		title += " " + leftOf(waiting[0], now)
	}
	if name := core.OneLine(waiting[0].RunName, titleRunes); name != "" {
		title += " " + name
	}
	return title
}

// titleRunes is how much of the name of a run a title and a notification have.
const titleRunes = 40

// leftOf is the time that is left of an approval, as m:ss or h:mm:ss.
func leftOf(a core.Approval, now time.Time) string { return clockTime(a.ExpiresAt.Sub(now)) }

func clockTime(d time.Duration) string {
	s := max(int(d/time.Second), 0)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// typeName is the type of an approval in words.
func typeName(t core.ApprovalType) string { return approval.TypeOf(t).Label }

// named is the type of an approval and what it is about.
func named(a core.Approval, between string) string {
	what := whatOf(a)
	if what == "" || a.Type == core.ApproveLayer && strings.HasPrefix(what, "layer ") {
		return cmp.Or(what, typeName(a.Type))
	}
	return typeName(a.Type) + between + what
}

// whatOf names what an approval is about, safe to show.
func whatOf(a core.Approval) string {
	what := a.Tool
	if what == "" {
		what = a.Subject
	}
	if digits, ok := strings.CutPrefix(what, "layer:"); ok && a.Type == core.ApproveLayer {
		if n, err := strconv.Atoi(digits); err == nil {
			return fmt.Sprintf("layer %d", n+1)
		}
	}
	return core.Visible(what, 60, false)
}
