package page

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/asked"
)

//go:embed templates/*.tmpl
var files embed.FS

var (
	//go:embed templates/page.css
	pageStyle string
	//go:embed templates/page.js
	pageScript string
)

var views = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").ParseFS(files, "templates/*.tmpl"))
})

// Style is the style sheet of the pages of a server, and Script what keeps them up to
// date. They work without it.
func Style() string { return exportStyle + pageStyle }

// Script is said at Style.
func Script() string { return pageScript }

// Page is one page of a server.
type Page struct {
	Title string
	Who   string // who is signed in, empty for nobody
	Live  bool   // it changes while somebody looks at it
	On    string // the page to go on to by itself, a path of this server
	view  string
	Data  any
}

// HTML is the page as text.
func (p Page) HTML() ([]byte, error) {
	var b bytes.Buffer
	if err := views().ExecuteTemplate(&b, p.view, p); err != nil {
		return nil, core.Errorf(core.CodeInternal, "the page %s cannot be made: %w", p.view, err)
	}
	return b.Bytes(), nil
}

// Message is a page that says one thing, with a way back to the inbox.
func Message(title, text string, back bool) Page {
	return Page{Title: title, view: "message.tmpl", Data: map[string]any{"Text": shown(text), "Back": back}}
}

// Through leads on to a page of this server: a browser that comes from elsewhere shows
// its cookie only then.
func Through(path string) Page {
	return Page{Title: "One moment", On: path, view: "message.tmpl", Data: map[string]any{"Text": "", "Back": false}}
}

// SignIn asks for an API key; next is where to go on, wrong what was wrong before.
func SignIn(next, wrong string) Page {
	return Page{Title: "Sign in", view: "signin.tmpl", Data: map[string]any{"Next": next, "Wrong": wrong}}
}

// Pair asks whether this browser is to be the device of a pairing.
func Pair(code, name string) Page {
	return Page{Title: "Pair this device", view: "pair.tmpl", Data: map[string]any{"Code": code, "Name": name}}
}

// entry is a line of a list.
type entry struct {
	Href  string
	Title string
	State string
	Risk  string
	Text  string
	Notes []string
	Each  []entry // of one that stands for several: each of them
	More  int     // how many of those are left out
}

// titleRunes and shortRunes are how much of a question, and of the arguments that it is
// about, stands in a list.
const (
	titleRunes = 120
	shortRunes = 160
)

// inShort is the beginning of the arguments that an approval asks about.
func inShort(context json.RawMessage) string {
	var c struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(context, &c) != nil {
		return ""
	}
	var texts []string
	for _, l := range asked.Arguments(c.Arguments, nil) {
		if len(texts) < 4 && len(c.Arguments) > 0 {
			texts = append(texts, strings.TrimSpace(l.Label)+" "+l.Text)
		}
	}
	return core.OneLine(strings.Join(texts, " · "), shortRunes)
}

// Inbox lists what waits for somebody, soonest expiry first.
func Inbox(who string, list []core.Approval, halts []core.Halt, now time.Time) Page {
	var out []entry
	var held []string
	for _, h := range halts {
		held = append(held, shown("All calls are "+h.Text()))
	}
	list = slices.DeleteFunc(slices.Clone(list), func(a core.Approval) bool { return a.StateAt(now) != core.ApprovalOpen })
	for _, loop := range loopsOf(list) {
		out = append(out, waiting(loop, now))
	}
	title := "Nothing waits"
	if len(list) > 0 {
		title = fmt.Sprintf("%d waiting", len(list))
	}
	return Page{Title: title, Who: shown(who), Live: true, view: "list.tmpl", Data: map[string]any{"List": out, "Halts": held, "May": true}}
}

// eachOf is how many calls of a loop are named where it is listed.
const eachOf = 10

// waiting is an approval in the inbox, or those of one loop, which the card of the first can
// approve as one.
func waiting(loop []core.Approval, now time.Time) entry {
	a := loop[0]
	e := entry{
		Href: "/approvals/" + string(a.ID), Title: core.OneLine(cmp.Or(a.Description, approval.QuestionOf(a)), titleRunes), Risk: shown(string(a.Risk)),
		Text: inShort(a.Context), Notes: notes(nameOf(a), left(a, now)),
	}
	if len(loop) == 1 {
		return e
	}
	e.Href, e.Text = e.Href+"#loop", ""
	e.Title = fmt.Sprintf("%d calls from line %s: %s", len(loop), approval.Line(a.Place), e.Title)
	for _, o := range loop[:min(len(loop), eachOf)] {
		e.Each = append(e.Each, entry{Href: "/approvals/" + string(o.ID), Title: cmp.Or(inShort(o.Context), o.ID.Short())})
	}
	e.More = len(loop) - len(e.Each)
	return e
}

// loopsOf puts those approvals of a list together that are about calls of one place of a
// script; each of the others stays alone.
func loopsOf(list []core.Approval) (out [][]core.Approval) {
	type place struct {
		kin approval.Kin
		at  core.Position
	}
	known := map[place]int{}
	for _, a := range list {
		if kin, ok := approval.KinOf(a); ok && approval.InLoop(a) {
			key := place{kin, a.Place}
			if at, seen := known[key]; seen {
				out[at] = append(out[at], a)
				continue
			}
			known[key] = len(out)
		}
		out = append(out, []core.Approval{a})
	}
	return out
}

// Runs lists runs, newest first.
func Runs(who string, list []core.Run) Page {
	var out []entry
	for _, r := range list {
		out = append(out, entry{
			Href: "/runs/" + string(r.ID), Title: shown(r.Title()), State: string(r.State), Notes: notes(origin(r.RequestedBy), stamp(r.CreatedAt)),
		})
	}
	return Page{Title: "Runs", Who: shown(who), Live: true, view: "list.tmpl", Data: map[string]any{"List": out, "Halts": nil, "May": false}}
}

// Run shows one run, as its file would.
func Run(who string, w core.Workflow, now time.Time) Page {
	e := NewExport(Source{Run: w, At: now})
	var open []entry
	for _, q := range e.Questions {
		open = append(open, entry{Href: "/approvals/" + q.ID, Title: q.Text, Risk: q.Risk})
	}
	return Page{Title: e.Title, Who: shown(who), Live: true, view: "run.tmpl", Data: map[string]any{"E": e, "Open": open}}
}

// Card is one approval.
type Card struct {
	Approval core.Approval
	Who      string
	Now      time.Time
	Form     *Form  // nil: it is not decided here
	Loop     *Loop  // with Form: the calls of its loop can be approved with it
	Wrong    string // with the last form
}

// Form decides an approval.
type Form struct {
	Token   string
	Confirm string // the characters to be typed for a yes, empty for none
	Pin     bool   // a yes needs the PIN
	// Elsewhere says why there is no yes here; empty where there is.
	Elsewhere string
}

// cardLine is a line of what a call would send.
type cardLine struct{ Class, Label, Text string }

// part is a part of what is asked.
type part struct {
	Title string
	Lines []cardLine
	Text  string
}

// Page is the page of the approval. Nothing of what a decision is bound to is left out.
func (c Card) Page() Page {
	a := c.Approval
	state := a.StateAt(c.Now)
	d := map[string]any{
		"State": string(state), "Risk": shown(string(a.Risk)), "Text": core.Visible(a.Description, 0, true), "Parts": parts(a.Context, a.Tool),
		"Facts": cardFacts(a, c.Now), "Form": c.Form, "Loop": c.Loop.view(a.ID, c.Form), "Wrong": shown(c.Wrong), "Run": string(a.RunID), "ID": string(a.ID), "Waits": state == core.ApprovalOpen,
	}
	return Page{Title: heading(a, state), Who: shown(c.Who), Live: true, view: "approval.tmpl", Data: d}
}

// heading is what an approval asks, or what became of it once nobody has to answer any more.
func heading(a core.Approval, state core.ApprovalState) string {
	became := map[core.ApprovalState]string{
		core.ApprovalApproved: "Approved", core.ApprovalDenied: "Denied", core.ApprovalExpired: "Expired", core.ApprovalSuperseded: "Not asked any more",
	}[state]
	if became == "" {
		return approval.QuestionOf(a)
	}
	return became + ": " + core.OneLine(cmp.Or(a.Tool, approval.TypeOf(a.Type).Label), titleRunes)
}

func cardFacts(a core.Approval, now time.Time) (out []Fact) {
	decided, reason := "", ""
	if d := a.DecidedBy; d != nil {
		decided, reason = d.Origin()+", "+stamp(d.At), d.Reason
	}
	for _, f := range append([]Fact{
		{"risk", strings.Trim(string(a.Risk)+": "+a.RiskWhy(), ": ")}, {"tool", a.Tool}, {"run", nameOf(a)},
		{"path", strings.Join(a.Path, " → ")}, {"asked by", origin(a.RequestedBy)}, {"workspace", a.Workspace}, {"time", left(a, now)}, {"decided by", decided}, {"reason", reason},
		{"asked again as", string(a.RenewedBy)}, {"asks again for", string(a.Renews)}, {"question", string(a.ID)}, {"digest", a.Digest},
	}, boundsGiven(a)...) {
		if f.Value != "" {
			out = append(out, Fact{f.Name, shown(f.Value)})
		}
	}
	return out
}

// wholeBytes is how long arguments are that are laid out line by line only: of longer
// ones something may be cut there, so that they stand there as JSON, too.
const wholeBytes = 1500

// parts are what an approval asks about: arguments line by line, all else as it is.
func parts(context json.RawMessage, tool string) (out []part) {
	fields, ok := asked.Fields(context)
	if !ok && len(bytes.TrimSpace(context)) > 0 {
		return []part{{Title: "context", Text: whole(context)}}
	}
	var file *asked.File
	for _, f := range fields {
		var one asked.File
		if f.Key == "file" && json.Unmarshal(f.Value, &one) == nil && one.State != "" {
			file = &one
		}
	}
	for _, f := range fields {
		if says(f, tool) {
			continue
		}
		title := shown(strings.ReplaceAll(f.Key, "_", " "))
		switch {
		case f.Key == "arguments":
			out = append(out, part{Title: title, Lines: lines(asked.Arguments(f.Value, file))})
			if len(f.Value) > wholeBytes {
				out = append(out, part{Title: title + " as JSON, whole", Lines: lines(asked.Raw(f.Value))})
			}
		case f.Key == "file" && file != nil: // the arguments show what becomes of it
		default:
			text := whole(f.Value)
			var list []string
			if json.Unmarshal(f.Value, &list) == nil { // changes, scripts: read line by line
				for i := range list {
					list[i] = shown(list[i])
				}
				text = strings.Join(list, "\n")
			}
			out = append(out, part{Title: title, Text: text})
		}
	}
	return out
}

// says reports whether a field says again what stands elsewhere on the page: the tool's
// name, why the risk is what it is, or that nothing is out of the way.
func says(f asked.Field, tool string) bool {
	var text string
	if json.Unmarshal(f.Value, &text) != nil {
		return (f.Key == "needs_installation" || f.Key == "leaves_workspace") && string(f.Value) == "false"
	}
	switch f.Key {
	case "risk_why":
		return true
	case "tool", "tool_id", "fqdn_base":
		return text == tool
	case "namespace":
		return strings.HasPrefix(tool, text+":")
	}
	return false
}

func lines(list []asked.Line) (out []cardLine) {
	classes := map[asked.Kind]string{asked.Added: "added", asked.Removed: "removed", asked.Place: "quiet", asked.Note: "quiet"}
	for _, l := range list {
		out = append(out, cardLine{classes[l.Kind], l.Label, l.Text})
	}
	return out
}

// nameOf is the run that asks.
func nameOf(a core.Approval) string {
	return core.OneLine(cmp.Or(a.RunName, "run "+a.RunID.Short()), core.NameRunes)
}

// left is when an approval expires, in words.
func left(a core.Approval, now time.Time) string {
	switch d := time.Duration(0); {
	case a.ExpiresAt == nil:
		return ""
	case a.StateAt(now) == core.ApprovalExpired:
		return "expired " + stamp(*a.ExpiresAt)
	case a.State != core.ApprovalOpen:
		return ""
	default:
		d = a.ExpiresAt.Sub(now).Round(time.Second)
		return d.String() + " left"
	}
}

func notes(texts ...string) (out []string) {
	for _, t := range texts {
		if t != "" {
			out = append(out, shown(t))
		}
	}
	return out
}
