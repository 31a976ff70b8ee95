package screen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// ttlText is a time that is left, m:ss, and h:mm:ss from an hour on.
func ttlText(d time.Duration) string {
	// The last second is shown until it is over: 0:00 is past.
	s := int64(max(d+time.Second-1, 0) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// ageText is how long something is ago, in at most five columns: 31s, 2m14s,
// 14m, 3h05m, 26h, 12d.
func ageText(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 3600:
		return fmt.Sprintf("%dm", s/60)
	case s < 36000:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	case s < 72*3600:
		return fmt.Sprintf("%dh", s/3600)
	}
	return fmt.Sprintf("%dd", s/86400)
}

// clockText is the time of day of t, where the person is.
func clockText(t time.Time, e *Env) string { return t.In(e.Now.Location()).Format("15:04:05") }

// momentText is clockText, with the day where that is another one than today.
func momentText(t time.Time, e *Env) string {
	at := t.In(e.Now.Location())
	if at.YearDay() != e.Now.YearDay() || at.Year() != e.Now.Year() {
		return at.Format("02 Jan 15:04")
	}
	return clockText(t, e)
}

// typeName is what an approval is called on a screen.
func typeName(t core.ApprovalType) string { return approval.TypeOf(t).Label }

// layerText is how far a run is: the layer of a graph, of how many ("2/5"), and of a
// script, which nobody knows the end of, the step that it is at.
func layerText(r core.Run) string {
	switch {
	case r.Agent != nil:
		return "iter " + itoa(r.Agent.Iterations)
	case r.TotalLayers == 0:
		return ""
	case r.Kind == core.KindCode && r.State == core.RunComplete:
		return plural(r.TotalLayers, "step")
	case r.Kind == core.KindCode:
		return "step " + itoa(min(r.CurrentLayer+1, r.TotalLayers))
	}
	return itoa(min(r.CurrentLayer+1, r.TotalLayers)) + "/" + itoa(r.TotalLayers)
}

// layerRow is layerText in a row of the list, which says of a DAG that failed where.
func layerRow(r core.Run, e *Env) string {
	if r.State != core.RunFailed || r.Kind != core.KindDAG || r.Agent != nil || r.TotalLayers == 0 {
		return layerText(r)
	}
	if at := e.State.LayerOf(r); at > 0 {
		return itoa(at) + "/" + itoa(r.TotalLayers)
	}
	return ""
}

// layerSaid is layerText where no heading says what it counts.
func layerSaid(r core.Run) string {
	text := layerText(r)
	if text != "" && text[0] <= '9' && r.Kind != core.KindCode {
		return "layer " + text
	}
	return text
}

// fullName is the name of a run with its id, which stands there once.
func fullName(id core.ID, e *Env) string { return withID(e.State.Name(id), id) }

// severalFolders reports whether rows are of more than one folder: then each says of which.
func severalFolders(n int, folder func(i int) string) bool {
	first := ""
	for i := range n {
		switch dir := folder(i); {
		case dir == "" || dir == first:
		case first != "":
			return true
		default:
			first = dir
		}
	}
	return false
}

// inFolder is the name of a run behind its folder.
func inFolder(workspace, name string) string {
	if dir := state.Folder(workspace); dir != "" {
		return dir + ": " + name
	}
	return name
}

func withID(name string, id core.ID) string {
	if strings.HasSuffix(name, id.Short()) {
		return name
	}
	return name + " " + id.Short()
}

// runLook is the glyph of a run's state, and the style of glyph and word.
func runLook(s core.RunState, t *paint.Theme) (glyph string, style paint.Style) {
	g := &t.Glyph
	switch s {
	case core.RunRunning:
		return g.Running, paint.Style{Role: paint.Info}
	case core.RunWaiting:
		return g.Waiting, paint.Style{Role: paint.Warn}
	case core.RunInterrupted:
		return g.Stale, paint.Style{Role: paint.Warn}
	case core.RunComplete:
		return g.Done, paint.Style{Role: paint.OK}
	case core.RunFailed:
		return g.Failed, paint.Style{Role: paint.Danger}
	case core.RunAborted:
		return g.Aborted, paint.Style{Role: paint.Muted}
	case core.RunExpired:
		return g.Expired, paint.Style{Role: paint.Muted}
	}
	return "?", paint.Style{}
}

// stateWord is an approval's state as people read it.
func stateWord(s core.ApprovalState) string {
	if s == core.ApprovalSuperseded {
		return "not needed"
	}
	return string(s)
}

// approvalLook is the glyph of an approval's state, and the style of both.
func approvalLook(s core.ApprovalState, t *paint.Theme) (glyph string, style paint.Style) {
	g := &t.Glyph
	switch s {
	case core.ApprovalOpen:
		return g.Waiting, paint.Style{Role: paint.Warn}
	case core.ApprovalApproved:
		return g.Done, paint.Style{Role: paint.OK}
	case core.ApprovalDenied:
		return g.Failed, paint.Style{Role: paint.Danger}
	case core.ApprovalExpired:
		return g.Expired, paint.Style{Role: paint.Muted}
	case core.ApprovalSuperseded:
		return g.Skipped, paint.Style{Role: paint.Muted}
	case core.OutcomeRefused: // of a row of the audit log
		return g.Failed, paint.Style{Role: paint.Warn}
	}
	return "?", paint.Style{}
}

// staleText says how old what is shown of one half is, and nothing when it is
// live or there is none.
func staleText(side core.Side, e *Env) string {
	link := e.State.Links.Of(side)
	if link.State == state.LinkLive || link.State == state.LinkNone {
		return ""
	}
	if link.AsOf.IsZero() {
		return "not read yet"
	}
	return "stale, as of " + clockText(link.AsOf, e)
}

// staleLists is staleText for what both halves are shown in together.
func staleLists(e *Env) string {
	if s := staleText(core.SideClient, e); s != "" {
		return s
	}
	if s := staleText(core.SideServer, e); s != "" {
		return "server " + s
	}
	return ""
}

// indented is the JSON of a value, for people.
func indented(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return core.Errorf(core.CodeInternal, "no JSON: %v", err).Error()
	}
	return string(b)
}

// itoa is a number.
func itoa(n int) string { return strconv.Itoa(n) }

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

// nextText is what a run waits for or does, or which key goes on with it.
func (p *workflowsPanel) nextText(r core.Run, e *Env) (string, paint.Style) {
	muted := paint.Style{Role: paint.Muted}
	if a, ok := p.next.of(r.ID, e); ok {
		text := typeName(a.Type)
		if a.ExpiresAt != nil {
			text += " " + ttlText(a.ExpiresAt.Sub(e.Now))
		}
		return text, paint.Style{Role: paint.Warn}
	}
	switch word := againWord(r, e); {
	case stopped(r, e):
		return "halted, " + keyOf(e, keys.Halt) + " resumes", paint.Style{Role: paint.Danger} // what goes on then is not known here
	case word == askAgain:
		return expiredText(e), paint.Style{Role: paint.Danger}
	case word != "" && (r.Agent == nil || r.State == core.RunInterrupted):
		return keyOf(e, keys.Again) + " " + word, muted
	case r.State == core.RunRunning:
		return doingText(r.ID, e), muted
	}
	return "", muted
}

// stopped reports whether a run makes no call before a person lets calls go on: also one
// whose process has ended while they are halted.
func stopped(r core.Run, e *Env) bool {
	switch r.State {
	case core.RunWaiting:
		return r.Halted != nil
	case core.RunInterrupted:
		return slices.ContainsFunc(e.State.Halts, func(h core.Halt) bool { return (h.Side == core.SideServer) == (r.Side == core.SideServer) })
	default:
		return false
	}
}

// askAgain is what the key does that asks again what has expired.
const askAgain = "again"

// goOn is what the key does with a run that has stopped.
const goOn = "goes on"

// expiredText says that a run waits for what has expired, and which key helps.
func expiredText(e *Env) string { return "expired, " + keyOf(e, keys.Again) + " " + askAgain }

// againWord is what the key of Again does with a run, in the same words in its row and in
// the footer; empty where it does nothing.
func againWord(r core.Run, e *Env) string {
	switch {
	case len(expiredOf(r, e)) > 0:
		return askAgain
	case r.State == core.RunInterrupted && !stopped(r, e), r.State == core.RunWaiting && leftAlone(r, e) && e.Now.Sub(r.UpdatedAt) >= aloneFor:
		return goOn
	case r.State == core.RunFailed && !r.FaultOfProgram():
		return "retries"
	}
	return ""
}

// againHint is the word of the footer for the key of Again: that of the runs that it is
// about, where all say the same.
func againHint(act keys.Action, runs []core.Run, e *Env) (word string) {
	if act != keys.Again {
		return ""
	}
	for _, r := range runs {
		switch w := againWord(r, e); {
		case w == "" || w == word:
		case word != "":
			return "" // they differ
		default:
			word = w
		}
	}
	return word
}

// hintWord implements wording.
func (p *workflowsPanel) hintWord(act keys.Action, e *Env) string {
	return againHint(act, p.chosen(e), e)
}

// hintWord implements wording.
func (*dagPanel) hintWord(act keys.Action, e *Env) string {
	run, _ := e.State.Run(e.Sel.Run)
	return againHint(act, []core.Run{run}, e)
}
