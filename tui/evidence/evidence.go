// Package evidence says all that a decision binds, line by line: what the full screen
// and the dialogue of lines show before one is taken.
package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// proof gathers the lines of what a decision binds. Fields that no type knows
// are shown all the same, at the end.
type proof struct {
	fields []asked.Field
	lines  []widget.Line
}

// Of returns all that a decision on an approval binds, as it came: the
// pager shows what is hidden in it as escapes. tasks are those of its run, for
// the arguments of a layer, nil as long as they were not read.
func Of(a core.Approval, tasks []core.Task) []widget.Line {
	fields, _ := asked.Fields(a.Context)
	p := &proof{fields: fields}
	p.text("", a.Description)
	var why string
	if p.into("risk_why", &why) && why != "" {
		p.text("risk", string(a.Risk)+": "+why)
	}
	if who := a.Decides(); who != "" {
		p.text("decides", who)
	}
	if a.Place.Line > 0 {
		p.text("from", "line "+approval.Line(a.Place)+" of the script")
	}
	p.within(a)
	for i, step := range a.Path {
		label := " "
		if i == 0 {
			label = "path"
		}
		p.add(label, strings.Repeat("  ", i)+core.OneLine(step, 200), paint.Style{})
	}
	p.blank()
	switch a.Type {
	case core.ApproveDependency:
		p.dependency()
	case core.ApproveKeys:
		p.keys()
	case core.ApproveIntegrity:
		p.integrity()
	case core.ApproveHost:
		p.show("host", "host")
		p.show("folder", "folder")
		p.permission(a)
	case core.ApproveTool:
		p.permission(a)
	case core.ApproveOAuth:
		p.oauth(a.Tool)
	case core.ApproveLayer:
		p.layer(tasks)
	case core.ApproveInDoubt:
		p.inDoubt(a)
	case core.ApproveHook:
		p.show("flow", "flow")
		p.show("node", "node")
		p.show("reason", "reason")
	case core.ApproveBudget:
		p.show("goal", "goal")
		p.show("used", "used")
		p.show("a yes adds", "more")
	}
	p.rest(a)
	asked := len(p.lines)
	p.blank()
	p.text("digest", a.Digest)
	p.text("workspace", a.Workspace)
	for i := range p.lines[asked:] {
		p.lines[asked+i].Aside = true
	}
	return p.lines
}

// Unlike leaves out of what a decision binds what the first of several that are decided
// together says in the same words right above: the question, its risk and its folder. What
// would be sent and the digest stay; of the very same question one line is left. It returns
// all where again is not set.
func Unlike(lines, first []widget.Line, again bool) []widget.Line {
	if !again {
		return lines
	}
	if slices.Equal(lines, first) {
		return []widget.Line{{Text: "exactly as the first one, with the same digest"}}
	}
	n := 0
	for n < len(lines) && n < len(first) && lines[n] == first[n] && lines[n] != (widget.Line{}) {
		n++
	}
	if n == len(lines) || n == len(first) || lines[n] != (widget.Line{}) || first[n] != (widget.Line{}) {
		return lines // not the same question
	}
	lines = lines[n+1:]
	if len(lines) > 0 && lines[0].Text == sentHead {
		lines = lines[1:]
	}
	if end := len(lines) - 1; end >= 0 && lines[end] == first[len(first)-1] {
		lines = lines[:end]
	}
	return lines
}

// LabelWidth is how many columns a label takes.
const LabelWidth = 12

// text adds a label and a text of one or more lines; nothing for an empty text.
func (p *proof) text(label, text string) {
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, "\n") {
		p.add(label, part, paint.Style{})
		label = strings.Repeat(" ", min(len(label), LabelWidth-1))
	}
}

func (p *proof) add(label, text string, style paint.Style) {
	if label != "" {
		label = fmt.Sprintf("%-*s ", LabelWidth-1, label)
	}
	p.lines = append(p.lines, widget.Line{Label: label, Text: text, Style: style})
}

// prose adds lines that were written here.
func (p *proof) prose(lines ...string) {
	for _, l := range lines {
		p.add("", l, paint.Style{Role: paint.Muted})
	}
}

// blank separates what comes from what there is, with one empty line at most.
func (p *proof) blank() {
	if n := len(p.lines); n > 0 && p.lines[n-1] != (widget.Line{}) {
		p.lines = append(p.lines, widget.Line{})
	}
}

func (p *proof) head(text string) {
	p.lines = append(p.lines, widget.Line{Text: text, Style: paint.Style{Role: paint.Accent}.Bold()})
}

// take returns the value of a field, which is then not shown again.
func (p *proof) take(key string) json.RawMessage {
	for i, f := range p.fields {
		if f.Key == key {
			p.fields = slices.Delete(p.fields, i, i+1)
			return f.Value
		}
	}
	return nil
}

// show adds a field under a label, whatever its value is.
func (p *proof) show(label, key string) {
	if value := p.take(key); value != nil {
		p.text(label, PlainValue(value))
	}
}

// into takes a field and reads it; a value of another shape stays to be shown
// as it is.
func (p *proof) into(key string, v any) bool {
	for i, f := range p.fields {
		if f.Key == key && json.Unmarshal(f.Value, v) == nil {
			p.fields = slices.Delete(p.fields, i, i+1)
			return true
		}
	}
	return false
}

// PlainValue is a value without quotes where it is a text of one line, else
// indented JSON: a newline is told from a backslash and an n by that.
func PlainValue(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil && bytes.HasPrefix(bytes.TrimSpace(value), []byte(`"`)) && !strings.ContainsAny(s, "\n\\") {
		return s
	}
	return pretty(value)
}

// pretty indents JSON and changes nothing else of it.
func pretty(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}

func (p *proof) dependency() {
	var d json.RawMessage
	if !p.into("dependency", &d) {
		return
	}
	fields, _ := asked.Fields(d)
	sub := &proof{fields: fields}
	if len(sub.fields) == 0 {
		p.text("dependency", pretty(d))
		return
	}
	sub.show("package", "name")
	sub.show("version", "version")
	sub.show("from", "registry")
	var n int64
	if sub.into("size_bytes", &n) {
		sub.text("size", sizeText(n))
	}
	sub.show("packages", "packages")
	var scripts []string
	if sub.into("scripts", &scripts) {
		sub.scripts(scripts)
	}
	sub.show("command", "install")
	sub.show("integrity", "integrity")
	for _, f := range sub.fields {
		sub.text(f.Key, PlainValue(f.Value))
	}
	p.lines = append(p.lines, sub.lines...)
	p.show("range", "range")
	p.show("last error", "error")
}

func (p *proof) scripts(list []string) {
	if len(list) == 0 {
		p.text("scripts", "none")
		return
	}
	warn := paint.Style{Role: paint.Danger}
	commands := fmt.Sprintf("commands of %d packages", len(list))
	if len(list) == 1 {
		commands = "a command of 1 package"
	}
	p.add("scripts", commands+" to run on installation, if s allows it:", warn)
	for _, s := range list {
		p.add("", "  "+s, warn)
	}
}

// sizeText is a number of bytes for people; 0 is one that nobody knows.
func sizeText(n int64) string {
	switch {
	case n <= 0:
		return "not known"
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB (%d bytes)", float64(n)/(1<<20), n)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB (%d bytes)", float64(n)/(1<<10), n)
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

func (p *proof) keys() {
	var names []string
	if p.into("missing_keys", &names) {
		for i, name := range names {
			label := "needs"
			if i > 0 {
				label = " "
			}
			p.add(label, name, paint.Style{}.Bold())
		}
	}
	p.show("to do", "instruction")
	p.blank()
	p.prose("Values are never shown, and never asked for here.",
		"Once the keys are there, approve: pml looks again then,", "and asks anew for what is still missing.")
}

// value is a field as it stands, which is still shown.
func (p *proof) value(key string) string {
	for _, f := range p.fields {
		if f.Key == key {
			return string(f.Value)
		}
	}
	return ""
}

// diffStyle is how a line of a difference looks; its sign is always there, too.
func diffStyle(l string) paint.Style {
	switch {
	case strings.HasPrefix(l, "+"):
		return paint.Style{Role: paint.OK}
	case strings.HasPrefix(l, "-"):
		return paint.Style{Role: paint.Danger}
	case strings.HasPrefix(l, "@@"):
		return paint.Style{Role: paint.Accent}
	}
	return paint.Style{}
}

func (p *proof) permission(a core.Approval) {
	var needs bool
	if p.into("needs_installation", &needs) && needs {
		p.text("first", "its server is installed, which is asked for by itself")
	}
	var leaves bool
	if p.into("leaves_workspace", &leaves) && leaves { // above what is sent, of which it is no part
		p.text("outside", "the call leaves the workspace")
	}
	p.sent(a)
}

func (p *proof) arguments(head string) {
	args := p.take("arguments")
	if args == nil {
		return
	}
	var file *asked.File
	p.into("file", &file)
	p.head(head)
	p.laidOut("", asked.Arguments(args, file))
	if before := p.take("arguments_before_flows"); before != nil {
		p.head(asked.ChangedBy(p.take("changed_by_flows")))
		p.laidOut("", asked.Arguments(before, nil))
	}
	p.take("asked_by_flows") // the description has the questions
}

// laidOut adds lines of arguments, behind a margin.
func (p *proof) laidOut(margin string, list []asked.Line) {
	for _, l := range list {
		text, style := margin+l.Text, paint.Style{}
		switch l.Kind {
		case asked.Added:
			style.Role = paint.OK
		case asked.Removed:
			style.Role = paint.Danger
		case asked.Place:
			style.Role = paint.Accent
		case asked.Note:
			style.Role = paint.Muted
		case asked.Plain:
		}
		if l.Label != "" {
			p.lines = append(p.lines, widget.Line{Label: margin + l.Label + "  ", Text: l.Text, Style: style})
			continue
		}
		p.lines = append(p.lines, widget.Line{Text: text, Style: style})
	}
}

// Changes heads what of some arguments was changed.
func Changes(list []asked.Line) []widget.Line {
	p := &proof{}
	p.head("what you have changed")
	p.laidOut("", list)
	p.blank()
	return p.lines
}

// Raw returns what an approval carries as JSON, indented and whole.
func Raw(a core.Approval) []widget.Line {
	p := &proof{}
	p.head("as JSON, whole; values of keys stand as «NAME» (J goes back)")
	p.laidOut("", asked.Raw(a.Context))
	p.blank()
	if edited := a.IfEdited(); edited != nil {
		p.head("what was approved instead of its arguments")
		p.laidOut("", asked.Raw(edited.Answer.Arguments))
		p.blank()
	}
	p.text("digest", a.Digest)
	return p.lines
}

func (p *proof) oauth(tool string) {
	server, _, _ := strings.Cut(tool, ":")
	p.show("at", "issuer")
	var scopes []string
	if p.into("scopes", &scopes) {
		p.text("asks for", strings.Join(scopes, ", "))
	}
	if url := p.take("auth_url"); url != nil {
		p.blank()
		p.head("sign in at this address" + openKey)
		p.text("", PlainValue(url))
		p.blank()
	}
	p.prose("Sign in while the process that asked is alive, or with", "pml servers connect "+server, "and then approve.")
}

func (p *proof) inDoubt(a core.Approval) {
	head := headOf(a)
	if head == sentHead {
		head = doubtHead
	}
	switch answer := a.Answer; {
	case a.State != core.ApprovalApproved || answer == nil:
		p.prose("Nobody can say whether it ran.", "r runs it again; s skips it and takes a result that you give.",
			"Deny "+noFails+".")
	case answer.InDoubt == core.SkipResult:
		p.text("answer", "skipped; its result is "+cmp.Or(string(answer.Result), "null"))
		head = "what was skipped" + headRest
	default:
		p.text("answer", "it runs again")
	}
	p.blank()
	p.show("started", "started_at")
	p.arguments(head)
}

// rest adds the fields that were not shown yet. What says the tool's name again
// is left out.
func (p *proof) rest(a core.Approval) {
	server, _, _ := strings.Cut(a.Tool, ":")
	apart := a.Type != core.ApproveTool && a.Type != core.ApproveHost && a.Type != core.ApproveInDoubt
	for _, f := range p.fields {
		var s string
		if json.Unmarshal(f.Value, &s) == nil && (s == a.Tool || f.Key == "namespace" && s == server) {
			continue
		}
		if !apart { // from what is sent
			p.blank()
			p.head("about the question")
			apart = true
		}
		p.text(strings.ReplaceAll(f.Key, "_", " "), PlainValue(f.Value))
	}
}

// Text returns all that a decision on an approval binds as lines of text,
// safe to print and whole; tasks are those of its run, for the arguments of a
// layer. It names no keys.
func Text(a core.Approval, tasks []core.Task) []string {
	lines := Of(a, tasks)
	for i := range lines {
		lines[i].Text = strings.TrimSuffix(strings.TrimSuffix(lines[i].Text, jsonKey), openKey)
	}
	return textOf(lines)
}

func textOf(lines []widget.Line) (out []string) {
	for _, l := range lines {
		text := core.Visible(l.Label, 0, false) + core.Visible(l.Text, 0, false)
		out = append(out, strings.TrimRight(text, " "))
	}
	return out
}
