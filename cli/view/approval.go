// Package view writes out what a person reads before they decide: approvals and
// what a workspace's files grant.
package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/asked"
)

// Approval shows everything that a decision would bind: nothing of what
// is asked is cut, and no character of it can act on the terminal.
func Approval(p core.Approval, n, of int, now time.Time) string {
	var b strings.Builder
	b.WriteString("approval required: " + core.Visible(string(p.Type), 80, false))
	if of > 1 {
		fmt.Fprintf(&b, " (%d of %d)", n, of)
	}
	b.WriteByte('\n')
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(&b, "  %-12s %s\n", k, core.Visible(v, 0, false))
		}
	}
	line("approval", string(p.ID))
	line("run", run(p))
	line("path", strings.Join(p.Path, " → "))
	line("workspace", p.Workspace)
	if p.RequestedBy.Who != "" {
		line("asked by", p.RequestedBy.Origin())
	}
	line("tool", p.Tool)
	if p.Place.Line > 0 {
		line("from", "line "+approval.Line(p.Place)+" of the script")
	}
	line("risk", risk(p))
	line("decides", p.Decides())
	if p.DecidedBy == nil {
		line("expires", expiry(p, now))
	}
	line("what", p.Description)
	if p.Type == core.ApproveIntegrity && p.DecidedBy == nil {
		line("no", whose(p.Tool)+" not called, and pml asks again at the next run")
	}
	WriteContext(&b, p.Context, p.Tool)
	if edited := p.IfEdited(); edited != nil {
		line("edited", "before the yes; what was sent instead of these arguments:")
		writeLines(&b, asked.Arguments(edited.Answer.Arguments, nil))
	}
	if server, _, _ := strings.Cut(p.Tool, ":"); p.Type == core.ApproveOAuth {
		line("to do", "sign in at this address while the process that asked is alive, or with: "+layout.ShellJoin([]string{"pml", "servers", "connect", server})+"; then approve")
	}
	line("digest", p.Digest)
	if p.State != "" && p.StateAt(now) != core.ApprovalOpen {
		line("state", string(p.StateAt(now)))
	}
	if d := p.DecidedBy; d != nil {
		line("decided by", d.Origin()+" at "+layout.Stamp(d.At))
		line("reason", d.Reason)
	}
	if s := p.Shape(); s != nil {
		for _, words := range approval.ShapeWords(*s, nil, now.Location()) {
			line("bounds", words)
		}
		line("permitted", layout.Plural(len(p.CallIDs), "call"))
	}
	line("renews", string(p.Renews))
	line("renewed by", string(p.RenewedBy))
	return b.String()
}

// Card is Approval for a terminal of some columns, 0 for none: long lines of pml's own
// are folded, and with colour the risk and what changes stand out.
func Card(text string, columns int, colour bool) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		own := strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ")
		style := layout.Plain
		switch {
		case i == 0:
			style = layout.Bold
		case strings.HasPrefix(line, "  risk "):
			style = layout.StyleOf(strings.TrimSpace(strings.TrimPrefix(line, "  risk ")))
		case strings.HasPrefix(line, "  state "):
			style = layout.StyleOf(strings.TrimSpace(strings.TrimPrefix(line, "  state ")))
		case strings.HasPrefix(line, "    +"):
			style = layout.Good
		case strings.HasPrefix(line, "    -"):
			style = layout.Bad
		}
		for _, part := range folded(line, own, columns) {
			b.WriteString(style.On(part, colour) + "\n")
		}
	}
	return b.String()
}

// folded are the rows of a line of a card on so many columns. What goes on stands under
// what it is of: own lines of pml have a key, others end in a backslash. A word
// without a space, such as a digest, is copied whole: it gets a row of its own.
func folded(line string, own bool, columns int) []string {
	const key = 15
	if columns <= 2*key || layout.Width(line) <= columns {
		return []string{line}
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	hang := min(indent+2, columns/2)
	if own && len(line) > key {
		if !strings.Contains(line[key:], " ") {
			return []string{strings.TrimRight(line[:key], " "), strings.Repeat(" ", 4) + line[key:]}
		}
		hang = key
	}
	head, goesOn := line[:indent], ` \` // so that foreign text cannot begin what looks like a line
	if own && len(line) > key {
		head, goesOn = line[:key], ""
	}
	rows := layout.Wrap(line[len(head):], columns-hang-len(goesOn))
	for n := range rows {
		if n > 0 {
			head = strings.Repeat(" ", hang)
		}
		rows[n] = head + rows[n]
		if n < len(rows)-1 {
			rows[n] += goesOn
		}
	}
	return rows
}

// risk is the risk, and why it is that.
func risk(p core.Approval) string {
	if why := p.RiskWhy(); why != "" {
		return string(p.Risk) + ": " + why
	}
	return string(p.Risk)
}

// whose is what a question about integrity is about: a tool, or all of a server's.
func whose(tool string) string {
	if strings.Contains(tool, ":") {
		return "the tool is"
	}
	return "its tools are"
}

// run is the run that asks: its name, if it has one, and its id.
func run(p core.Approval) string {
	if p.RunName == "" {
		return string(p.RunID)
	}
	return p.RunName + " (" + string(p.RunID) + ")"
}

func expiry(p core.Approval, now time.Time) string {
	text, setting := layout.In(now, p.ExpiresAt), " ("+approval.TimeSetting(p)+")"
	switch {
	case p.ExpiresAt == nil:
		return text
	case p.StateAt(now) == core.ApprovalExpired && p.RenewedBy == "":
		return "expired" + setting + "; it can still be decided: pml first checks that the question is the same"
	case !p.ExpiresAt.After(now):
		return text
	case p.Type == core.ApproveHost:
		return text + setting + ": the host asks by itself then"
	}
	return text + setting
}

// WriteContext shows the context of an approval. What only says the tool's name
// again is left out.
func WriteContext(b *strings.Builder, raw json.RawMessage, tool string) {
	fields, _ := asked.Fields(raw)
	claims := false
	for _, f := range fields {
		claims = claims || f.Key == "kind" && string(f.Value) == `"readonly"`
	}
	for _, f := range fields {
		var s string
		isText := json.Unmarshal(f.Value, &s) == nil
		switch {
		case isText && (f.Key == "tool" || f.Key == "tool_id" || f.Key == "fqdn_base") && s == tool:
			continue
		case isText && f.Key == "namespace" && strings.HasPrefix(tool, s+":"):
			continue
		case f.Key == "risk_why" && isText, (f.Key == "needs_installation" || f.Key == "leaves_workspace") && string(f.Value) == "false", f.Key == "file" && fileOf(fields) != nil,
			f.Key == "read_only" && claims: // the same names stand among what changed
			continue
		case f.Key == "kind" && asked.Changed(s, "-") != "":
			fmt.Fprintf(b, "  %-12s %s\n", "kind", asked.Changed(s, oldHash(fields)))
			continue
		case f.Key == "arguments":
			writeArguments(b, f.Value, fileOf(fields))
			continue
		case f.Key == "changed_by_flows", f.Key == "asked_by_flows", f.Key == "layer_index", f.Key == "total_layers": // the description has them
			continue
		case f.Key == "arguments_before_flows":
			i := slices.IndexFunc(fields, func(f asked.Field) bool { return f.Key == "changed_by_flows" })
			if i < 0 {
				break
			}
			b.WriteString("  " + asked.ChangedBy(fields[i].Value) + ":\n")
			writeLines(b, asked.Arguments(f.Value, nil))
			continue
		}
		writeField(b, f, 2)
	}
}

// writeArguments lays out what a call would send.
func writeArguments(b *strings.Builder, args json.RawMessage, file *asked.File) {
	b.WriteString("  arguments:\n")
	writeLines(b, asked.Arguments(args, file))
}

// CallArguments are the arguments of a call, whole, as an approval shows them: indented, and
// nothing where there are none.
func CallArguments(args json.RawMessage) string {
	var b strings.Builder
	if len(args) > 0 {
		writeLines(&b, asked.Arguments(args, nil))
	}
	return b.String()
}

func writeLines(b *strings.Builder, lines []asked.Line) {
	for _, l := range lines {
		text := "    " + l.Text
		if l.Label != "" {
			text = "    " + l.Label + "  " + l.Text
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// ArgumentsOf are the arguments that an approval asks about, as they are shown.
func ArgumentsOf(p core.Approval) json.RawMessage {
	fields, _ := asked.Fields(p.Context)
	for _, f := range fields {
		if f.Key == "arguments" {
			return f.Value
		}
	}
	return json.RawMessage("{}")
}

// ArgumentsChanged says what of some arguments has been changed, line by line.
func ArgumentsChanged(before, now json.RawMessage) string {
	var b strings.Builder
	b.WriteString("changed:\n")
	list := asked.Changes(before, now)
	for _, l := range list {
		b.WriteString("    " + l.Text + "\n")
	}
	if len(list) == 0 {
		b.WriteString("    nothing\n")
	}
	return b.String()
}

// fileOf is what a call would do to a file, nil where the gate has not said.
func fileOf(fields []asked.Field) *asked.File {
	for _, f := range fields {
		var file asked.File
		if f.Key == "file" && json.Unmarshal(f.Value, &file) == nil && file.State != "" {
			return &file
		}
	}
	return nil
}

func oldHash(fields []asked.Field) (hash string) {
	for _, f := range fields {
		if f.Key == "old_hash" {
			_ = json.Unmarshal(f.Value, &hash) // what is no text is none
		}
	}
	return hash
}

func writeField(b *strings.Builder, f asked.Field, indent int) {
	pad := strings.Repeat(" ", indent)
	key := core.Visible(strings.ReplaceAll(f.Key, "_", " "), 0, false)
	if f.Key == "size_bytes" {
		key = "size"
	}
	if lines, ok := linesOf(f); ok {
		fmt.Fprintf(b, "%s%s:\n", pad, key)
		writeBounded(b, lines, indent+2)
		return
	}
	if sub, _ := asked.Fields(f.Value); len(sub) > 0 {
		fmt.Fprintf(b, "%s%s:\n", pad, key)
		for _, s := range sub {
			writeField(b, s, indent+2)
		}
		return
	}
	if value := contextValue(f); value != "" {
		fmt.Fprintf(b, "%s%-*s %s\n", pad, 14-indent, key, value)
	}
}

// What a block shows of a list of changes. The gate bounds what it asks; this
// holds against one that does not, and says what is left out.
const (
	maxChangeLines = 400
	maxChangeWidth = 2000 // runes of a line
)

// linesOf returns the lines of what is read line by line: what changed, and
// the scripts that want to run.
func linesOf(f asked.Field) ([]string, bool) {
	if f.Key != "changed" && f.Key != "scripts" {
		return nil, false
	}
	var lines []string
	if json.Unmarshal(f.Value, &lines) != nil || len(lines) == 0 {
		return nil, false
	}
	return lines, true
}

func writeBounded(b *strings.Builder, lines []string, indent int) {
	pad := strings.Repeat(" ", indent)
	for i, l := range lines {
		if i == maxChangeLines {
			fmt.Fprintf(b, "%s… %s more; -o json has all\n", pad, layout.Plural(len(lines)-i, "line"))
			return
		}
		b.WriteString(strings.TrimRight(pad+core.Visible(l, maxChangeWidth, false), " ") + "\n")
	}
}

// contextValue is a value of a context on one line.
func contextValue(f asked.Field) string {
	var s string
	if json.Unmarshal(f.Value, &s) == nil && bytes.HasPrefix(f.Value, []byte(`"`)) {
		return core.Visible(s, 0, false)
	}
	var list []string
	if json.Unmarshal(f.Value, &list) == nil && list != nil {
		if len(list) == 0 {
			return "none"
		}
		return core.Visible(strings.Join(list, ", "), 0, false)
	}
	if f.Key == "size_bytes" {
		if n, err := strconv.ParseInt(string(f.Value), 10, 64); err == nil {
			if n == 0 {
				return "not known"
			}
			return fmt.Sprintf("%d (%s)", n, layout.Size(n))
		}
	}
	return layout.Compact(f.Value)
}

// PendingOf returns what a result waits for. A result that names only the
// first approval, or a layer's checkpoint, is turned into one.
func PendingOf(r api.Result) []core.Approval {
	if len(r.Pending) > 0 {
		out := make([]core.Approval, len(r.Pending))
		for i, p := range r.Pending {
			if p.RunID == "" {
				p.RunID = r.WorkflowID
			}
			out[i] = p
		}
		return out
	}
	if r.CheckpointID == "" {
		return nil
	}
	p := core.Approval{
		ID: r.CheckpointID, RunID: r.WorkflowID, Type: r.ApprovalType, Description: r.Description,
		Context: r.Context, Digest: r.Digest, ExpiresAt: r.ExpiresAt, State: core.ApprovalOpen,
	}
	if r.Status == api.StatusLayerComplete && p.Type == "" {
		p.Type = core.ApproveLayer
	}
	return []core.Approval{p}
}
