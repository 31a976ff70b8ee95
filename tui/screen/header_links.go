package screen

import (
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// resumedFor is how long it is said that events go on where they had stopped.
const resumedFor = 5 * time.Second

// linkSpans say in w columns how much of both halves is live, with less words
// where they are too many. Lost is set when something is not live.
func linkSpans(e *Env, w int) (spans []span, lost bool) {
	for _, words := range []linkWords{withCause, withoutCause, onlyLost} {
		if spans, lost = linksWith(words, e); spansWidth(spans) <= w {
			break
		}
	}
	return spans, lost
}

// linkWords is how much is said of the halves.
type linkWords int

const (
	withCause linkWords = iota
	withoutCause
	onlyLost // not of the half that is live
)

// linksWith is linkSpans for one choice of words. A server that there is none of
// is no news.
func linksWith(words linkWords, e *Env) (spans []span, lost bool) {
	links := &e.State.Links
	lost = !calm(&links.Client) || !calm(&links.Server)
	for _, half := range []struct {
		link  *state.Link
		label string
	}{{&e.State.Links.Client, "local"}, {&e.State.Links.Server, "server"}} {
		if half.link.State == state.LinkNone || half.link.State == "" || lost && words == onlyLost && calm(half.link) {
			continue
		}
		if len(spans) > 0 {
			spans = append(spans, span{"  ", paint.Style{}})
		}
		glyph, style, text := linkText(half.link, words, e)
		spans = append(spans, span{glyph + " ", style}, span{half.label + text, paint.Style{}})
	}
	return spans, lost
}

// calm reports whether there is nothing to say of a half.
func calm(l *state.Link) bool {
	return l.State == state.LinkLive || l.State == state.LinkNone || l.State == ""
}

// linkText is what is said of one half, after its name.
func linkText(link *state.Link, words linkWords, e *Env) (glyph string, style paint.Style, text string) {
	g := &e.Theme.Glyph
	since := ageText(e.Now.Sub(link.Since))
	switch link.State {
	case state.LinkLive:
		if link.Name != "" {
			text = " " + core.Visible(link.Name, 40, false)
		}
		if link.Resumed > 0 && e.Now.Sub(link.Since) < resumedFor {
			text += ", resumed from " + grouped(link.Resumed)
		}
		return g.Live, paint.Style{Role: paint.OK}, text
	case state.LinkLost:
		text = " lost " + since
		if link.Err != "" && words == withCause {
			text += " (" + core.Visible(link.Err, 60, false) + ")"
		}
		return g.Stale, paint.Style{Role: paint.Danger}, text + ", looking again"
	case state.LinkConnecting, state.LinkNone:
	}
	return g.Stale, paint.Style{Role: paint.Warn}, " connecting"
}

// grouped is a number with its digits in groups of three.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
