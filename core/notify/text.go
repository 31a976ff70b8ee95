package notify

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	maxItems = 20  // approvals of a message
	maxLines = 5   // of them with a line of their own, and runs that are named
	nameLen  = 40  // runes of the name of a run
	textLen  = 300 // runes of a description and of arguments
)

// compose makes the message of approvals as they are now, which are without keys.
func compose(m message, list []core.Approval, set Settings, now time.Time) Note {
	details := set.Details
	n := Note{Version: 1, ID: string(m.ID), Kind: m.Kind, At: now.UTC(), Count: len(list), Risk: riskOf(list), Approvals: []Item{}}
	for _, a := range list[:min(len(list), maxItems)] {
		n.Approvals = append(n.Approvals, itemOf(a, details))
	}
	var lines []string
	if m.Kind == KindDecided {
		n.Title = "pml: decided"
		lines = append(lines, decidedLine(list))
	} else {
		n.Title = "pml: approval waits"
		if n.Count > 1 {
			n.Title = "pml: approvals wait"
		}
		lines = append(lines, waitingLine(m.Kind, list, now))
	}
	if details {
		lines = append(lines, detailLines(n)...)
	}
	switch {
	case m.Kind == KindDecided:
	case n.Count == 1:
		lines = append(lines, "decide: "+n.Approvals[0].Decide)
	default:
		lines = append(lines, "decide: pml approve")
	}
	n.Text = strings.Join(lines, "\n") + "\n(message " + m.ID.Short() + ")"
	if n.Link = linkTo(set.Page, m.Kind, list); n.Link != "" {
		n.Text += openLine + n.Link
	}
	return n
}

// openLine begins the line of a text that is a link.
const openLine = "\nopen: "

// linkTo is where a browser shows what waits: the approval, or all.
func linkTo(page string, kind Kind, list []core.Approval) string {
	switch {
	case page == "" || kind == KindDecided:
		return ""
	case len(list) == 1:
		return page + "/approvals/" + url.PathEscape(string(list[0].ID))
	}
	return page + "/"
}

// TestNote is a message that says that it is one.
func TestNote(id core.ID, now time.Time) Note {
	return Note{
		Version: 1, ID: string(id), Kind: KindTest, At: now.UTC(), Title: "pml: test", Approvals: []Item{},
		Text: "a test: messages about approvals arrive here\n(message " + id.Short() + ")",
	}
}

// waitingLine is what is said of approvals that wait.
func waitingLine(kind Kind, list []core.Approval, now time.Time) string {
	var b strings.Builder
	if kind == KindReminder {
		b.WriteString("reminder: ")
	}
	high := 0
	for _, a := range list {
		if a.Risk == core.RiskHigh {
			high++
		}
	}
	switch {
	case len(list) == 1:
		fmt.Fprintf(&b, "1 approval waits (%s)", word(string(list[0].Risk)))
	case high > 0:
		fmt.Fprintf(&b, "%d approvals wait (%d high)", len(list), high)
	default:
		fmt.Fprintf(&b, "%d approvals wait (%s)", len(list), riskOf(list))
	}
	b.WriteString(", " + runsOf(list))
	var first *time.Time
	for _, a := range list {
		if a.ExpiresAt != nil && (first == nil || a.ExpiresAt.Before(*first)) {
			first = a.ExpiresAt
		}
	}
	switch {
	case first == nil:
	case len(list) == 1:
		b.WriteString(", expires " + clock(first.Sub(now)))
	default:
		b.WriteString(", the first expires " + clock(first.Sub(now)))
	}
	return b.String()
}

// decidedLine is what is said of approvals that do not wait any more.
func decidedLine(list []core.Approval) string {
	counts := map[string]int{}
	for _, a := range list {
		counts[endOf(a.State)]++
	}
	var parts []string
	for _, s := range []core.ApprovalState{core.ApprovalApproved, core.ApprovalDenied, core.ApprovalExpired, core.ApprovalSuperseded, core.ApprovalOpen} {
		if n := counts[endOf(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, endOf(s)))
		}
	}
	if len(list) == 1 {
		return "1 approval does not wait any more: " + endOf(list[0].State) + ", " + runsOf(list)
	}
	return fmt.Sprintf("%d approvals do not wait any more: %s, %s", len(list), strings.Join(parts, ", "), runsOf(list))
}

// endOf says what became of an approval.
func endOf(s core.ApprovalState) string {
	switch s {
	case core.ApprovalApproved, core.ApprovalDenied, core.ApprovalExpired:
		return string(s)
	case core.ApprovalSuperseded:
		return "not needed"
	case core.ApprovalOpen:
	}
	return "waiting again"
}

// runsOf names the runs of approvals.
func runsOf(list []core.Approval) string {
	var ids []core.ID
	var names []string
	for _, a := range list {
		if slices.Contains(ids, a.RunID) {
			continue
		}
		if ids = append(ids, a.RunID); len(names) < maxLines {
			names = append(names, nameOf(a))
		}
	}
	text := "run " + strings.Join(names, ", ")
	if len(ids) > 1 {
		text = "runs " + strings.Join(names, ", ")
	}
	if more := len(ids) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func nameOf(a core.Approval) string {
	if name := clean(a.RunName, nameLen); name != "" {
		return `"` + strings.ReplaceAll(name, `"`, "'") + `"`
	}
	return a.RunID.Short()
}

// detailLines say what the first approvals are about.
func detailLines(n Note) []string {
	var lines []string
	for _, i := range n.Approvals[:min(len(n.Approvals), maxLines)] {
		line := i.ID.Short() + " " + word(string(i.Risk)) + " " + strings.TrimSpace(i.Tool+" "+i.Arguments)
		if i.Tool == "" {
			line = i.ID.Short() + " " + word(string(i.Risk)) + " " + i.Description
		}
		if n.Kind == KindDecided {
			line = i.ID.Short() + " " + endOf(i.State) + " " + strings.TrimSpace(i.DecidedBy+" "+i.Tool)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	if more := n.Count - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

func itemOf(a core.Approval, details bool) Item {
	i := Item{ID: a.ID, RunID: a.RunID, RunName: clean(a.RunName, nameLen), Risk: core.Risk(word(string(a.Risk))), State: a.State, ExpiresAt: a.ExpiresAt}
	if a.State == core.ApprovalOpen {
		i.Decide = "pml approve " + a.ID.Short()
	}
	if !details {
		return i
	}
	var c struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if len(a.Context) > 0 && json.Unmarshal(a.Context, &c) == nil && len(c.Arguments) > 0 {
		i.Arguments = clean(string(c.Arguments), textLen)
	}
	i.Type, i.Tool, i.Description, i.Workspace = a.Type, clean(a.Tool, 2*nameLen), clean(a.Description, textLen), clean(a.Workspace, textLen)
	if a.DecidedBy != nil {
		i.DecidedBy = clean("by "+a.DecidedBy.Name()+" via "+string(a.DecidedBy.Via), 2*nameLen)
	}
	return i
}

// riskOf is the highest risk of a list.
func riskOf(list []core.Approval) core.Risk {
	out := core.RiskLow
	for _, a := range list {
		if out.Below(a.Risk) {
			out = core.Risk(word(string(a.Risk)))
		}
	}
	return out
}

// word is one of pml's own words, as stores have it.
func word(s string) string { return clean(s, 20) }

// harmless takes from a foreign text what programs that show messages act upon: names
// that they would ring somebody for, and addresses that they would offer to press.
var harmless = strings.NewReplacer("@", "＠", "://", ":／／")

// clean is a foreign text as a message may have it: one line, nothing hidden.
func clean(text string, max int) string { return harmless.Replace(core.OneLine(text, max)) }

// clock is a time that is left, as m:ss or h:mm:ss.
func clock(d time.Duration) string {
	s := max(int(d.Round(time.Second)/time.Second), 0)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
