package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// elicitation are the parameters of elicitation/create.
type elicitation struct {
	Mode    string `json:"mode,omitempty"` // form without it
	Message string `json:"message"`
	Schema  any    `json:"requestedSchema,omitempty"`
	ID      string `json:"elicitationId,omitempty"`
	URL     string `json:"url,omitempty"`
}

// question is an approval as a host's dialog shows it.
type question struct {
	approval core.Approval
	params   elicitation
	confirm  string // what must be typed to approve; empty: nothing
	cut      bool   // not all of it is shown: it can be denied, not approved
	url      bool   // a page is opened; that decides nothing by itself
}

// questionOf is what a person can be asked about an approval by a client with
// some abilities; ok is false where it must be decided elsewhere. A form never
// asks for a secret, so for a missing key there is none.
func questionOf(a core.Approval, can abilities) (q question, ok bool) {
	q = question{approval: a}
	if a.Type == core.ApproveKeys {
		return q, false
	}
	if a.Type == core.ApproveOAuth {
		var where struct {
			URL string `json:"auth_url"`
		}
		if !can.url || json.Unmarshal(a.Context, &where) != nil || where.URL == "" {
			return q, false
		}
		q.url = true
		text, _ := q.message()
		q.params = elicitation{Mode: "url", Message: text, ID: string(a.ID), URL: where.URL}
		return q, true
	}
	if !can.form {
		return q, false
	}
	if q.confirm = approval.Confirmation(a, false); q.confirm == "" && a.Type == core.ApproveInDoubt {
		q.confirm = string(core.RunAgain) // what may run twice is never one key
	}
	q.params.Message, q.cut = q.message()
	q.params.Schema = q.schema()
	return q, true
}

// maxShown bounds the details that a dialog shows, in characters.
const maxShown = 4000

// message says what is asked, with what exactly. All of it is foreign text. cut
// says that it is too long to be shown as a whole.
func (q question) message() (text string, cut bool) {
	a := q.approval
	shown := func(s string, limit int, lines bool) string {
		whole := []rune(core.Visible(s, 0, lines))
		if len(whole) <= limit {
			return string(whole)
		}
		cut = true
		return string(whole[:limit]) + " … cut here"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pml asks: %s", a.Type)
	if a.Tool != "" {
		fmt.Fprintf(&b, " for %s", shown(a.Tool, 200, false))
	}
	fmt.Fprintf(&b, " (risk: %s)\n", a.Risk)
	if a.Description != "" {
		b.WriteString(shown(a.Description, 1000, false) + "\n") // it must not look like other lines
	}
	if all := shown(details(a.Context), maxShown, true); all != "" {
		b.WriteString(all + "\n")
	}
	if a.RequestedBy.Who != "" {
		fmt.Fprintf(&b, "Asked by %s. ", core.Visible(a.RequestedBy.Name(), 100, false))
	}
	run := a.RunID.Short()
	if a.RunName != "" {
		run = core.OneLine(a.RunName, core.NameRunes) + " (" + run + ")"
	}
	fmt.Fprintf(&b, "Run %s, approval %s, digest %s.", run, a.ID.Short(), core.Visible(a.Digest, 100, false))
	switch {
	case cut:
		b.WriteString(" It is too long for this form, so it cannot be approved here: look at all of it in pml tui, and decide there.")
	case a.Type == core.ApproveInDoubt:
		fmt.Fprintf(&b, " It may have run. To call it again, type %s; to go on with a result of your own, decide in pml tui.", q.confirm)
	case q.confirm != "":
		fmt.Fprintf(&b, " To approve, type %s.", q.confirm)
	}
	return b.String(), cut
}

// details are the members of a context, one after the other, the arguments
// first: some hosts show the first lines of a message and fold the rest.
func details(context json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(context, &members) != nil || len(members) == 0 {
		return indented(context)
	}
	const first = "arguments"
	names := slices.Sorted(maps.Keys(members))
	if i := slices.Index(names, first); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, first)
	}
	lines := make([]string, len(names))
	for i, name := range names {
		label := name
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" { // pml has no such name
			label = strconv.Quote(name)
		}
		lines[i] = label + ": " + onOneLine(members[name])
	}
	return strings.Join(lines, "\n")
}

// certain is how much of one line every host shows, in characters.
const certain = 70

// outgrows reports whether a host that shows one line of a context would leave
// out what the decision is about.
func outgrows(context json.RawMessage) bool {
	line, more, _ := strings.Cut(details(context), "\n")
	return utf8.RuneCountInString(line) > certain || strings.HasSuffix(line, "{") || more != "" && !strings.HasPrefix(line, "arguments: ")
}

// maxLine is the longest value that is shown on one line, in bytes.
const maxLine = 1000

// onOneLine is JSON without line breaks, or as people read it where it is long.
func onOneLine(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() > maxLine {
		return indented(raw)
	}
	return b.String()
}

// indented is JSON as people read it; empty for none.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || bytes.Equal(raw, core.Null) {
		return ""
	}
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// The fields of a form. It has one: some hosts send a form only when every field
// is filled in.
const (
	fieldApprove = "approve" // yes or no
	fieldConfirm = "confirm" // the characters to approve with, or deny
	fieldDeny    = "deny"    // of what cannot be approved here
)

// deny is what is typed instead of the characters to approve with.
const deny = "deny"

type object = map[string]any

// schema is the form: flat and of simple types, as every revision wants it.
func (q question) schema() any {
	look := ""
	if outgrows(q.approval.Context) {
		look = "If not all of it is shown, look in pml tui. "
	}
	name, field := fieldApprove, object{"type": "boolean", "title": "Approve", "description": look + "No denies this call; the run goes on."}
	switch {
	case q.cut:
		name, field = fieldDeny, object{"type": "boolean", "title": "Deny", "description": "No leaves it open, to be decided in pml tui."}
	case q.confirm != "":
		name, field = fieldConfirm, object{
			"type": "string", "title": "Confirm", "maxLength": 20, "description": look + "Type " + q.confirm + " to approve, or " + deny + ".",
		}
	}
	return object{"type": "object", "properties": object{name: field}, "required": []string{name}}
}

// instant is how fast an answer must be to have come from no person.
const instant = 300 * time.Millisecond

// verdict is what a host's answer comes to.
type verdict struct {
	decision *api.Decision // nil: nothing is decided
	opened   bool          // a page was opened: what comes of it is decided there
	why      string        // why nothing was decided
}

// heard reads the answer that a host gave after some time. Whatever it is,
// it fails closed: only a clear yes or no decides.
func (q question) heard(raw json.RawMessage, took time.Duration) verdict {
	var said struct {
		Action  string                     `json:"action"`
		Content map[string]json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &said) != nil {
		return verdict{why: "the host's answer cannot be read, so nothing was decided"}
	}
	switch {
	case said.Action == "cancel":
		return verdict{why: "the question was dismissed, so nothing was decided"}
	case said.Action != "accept" && said.Action != "decline":
		return verdict{why: "the host's answer is neither accept, decline nor cancel, so nothing was decided"}
	case took < instant:
		return verdict{why: fmt.Sprintf("the host answered (%s) after %d ms without showing the question to a person, so nothing was decided", said.Action, max(0, took.Milliseconds()))}
	case said.Action == "decline":
		return verdict{decision: q.decides(false)}
	case q.url:
		return verdict{opened: true}
	}
	return q.filled(said.Content)
}

// filled reads a form that came back.
func (q question) filled(content map[string]json.RawMessage) verdict {
	switch {
	case q.cut:
		if no := yesOrNo(content[fieldDeny]); no != nil && *no {
			return verdict{decision: q.decides(false)}
		}
		return verdict{why: "the form could not show all of it, so nothing was decided"}
	case q.confirm == "":
		approve := yesOrNo(content[fieldApprove])
		if approve == nil {
			return verdict{why: "the form came back without a yes or no in \"approve\", so nothing was decided"}
		}
		return verdict{decision: q.decides(*approve)}
	}
	typed := strings.TrimSpace(text(content[fieldConfirm]))
	switch {
	case strings.EqualFold(typed, deny):
		return verdict{decision: q.decides(false)}
	case !strings.EqualFold(typed, q.confirm):
		return verdict{why: "the characters to confirm with were not typed, so nothing was decided"}
	}
	d := q.decides(true)
	if q.approval.Type == core.ApproveInDoubt {
		d.Answer = &core.Answer{InDoubt: core.RunAgain}
	}
	return verdict{decision: d}
}

// yesOrNo is a JSON boolean, nil if it is something else.
func yesOrNo(raw json.RawMessage) (b *bool) {
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b
}

// decides is a decision of this one approval, as it was shown.
func (q question) decides(approve bool) *api.Decision {
	return &api.Decision{Approve: approve, Checkpoint: q.approval.ID, ExpectDigest: q.approval.Digest}
}

// text is a JSON string, bounded; empty if it is something else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) > 1<<20 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// asked is the approval that a result asks for first.
func asked(r api.Result) (core.Approval, bool) {
	for _, a := range r.Pending {
		if a.ID == r.CheckpointID {
			a.RunID = r.WorkflowID
			return a, true
		}
	}
	return core.Approval{}, false
}
