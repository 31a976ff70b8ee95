package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
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
	url      bool   // a page is opened; that decides nothing by itself
}

// questionOf is what a person can be asked about an approval by a client with
// some abilities; ok is false where it must be decided elsewhere. A form never
// asks for a secret, so for a missing key there is none.
func questionOf(a core.Approval, can abilities) (q question, ok bool) {
	q = question{approval: a}
	switch a.Type {
	case core.ApproveKeys:
		return q, false
	case core.ApproveOAuth:
		var where struct {
			URL string `json:"auth_url"`
		}
		if !can.url || json.Unmarshal(a.Context, &where) != nil || where.URL == "" {
			return q, false
		}
		q.url = true
		q.params = elicitation{Mode: "url", Message: q.message(), ID: string(a.ID), URL: where.URL}
		return q, true
	case core.ApproveDependency, core.ApproveIntegrity, core.ApproveTool, core.ApproveLayer, core.ApproveInDoubt, core.ApproveHook:
	}
	if !can.form {
		return q, false
	}
	q.confirm = confirmation(a)
	q.params = elicitation{Message: q.message(), Schema: q.schema()}
	return q, true
}

// confirmDigits is how many characters confirm an approval of high risk.
const confirmDigits = 4

// confirmation are the characters to type before an approval of high risk is
// approved: the first of the new hash, or of the run's id where there is none.
// They are the same as in the terminal.
func confirmation(a core.Approval) string {
	if a.Risk == core.RiskLow || a.Risk == core.RiskMedium {
		return ""
	}
	var c struct {
		NewHash string `json:"new_hash"`
	}
	_ = json.Unmarshal(a.Context, &c) // what is no object has no hash
	_, hash, algorithm := strings.Cut(c.NewHash, ":")
	if !algorithm {
		hash = c.NewHash
	}
	for _, text := range []string{hash, string(a.RunID), string(a.ID)} {
		if text = strings.ToLower(text); typeable(text) {
			return text[:confirmDigits]
		}
	}
	return "high" // never nothing: it would be approved by one key
}

// typeable reports whether every keyboard has the first characters of a text.
func typeable(text string) bool {
	return len(text) >= confirmDigits && strings.IndexFunc(text[:confirmDigits], func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z')
	}) < 0
}

// maxShown bounds the details that a dialog shows, in characters.
const maxShown = 4000

// message says what is asked, with what exactly. All of it is foreign text.
func (q question) message() string {
	a := q.approval
	var b strings.Builder
	fmt.Fprintf(&b, "pml asks: %s", a.Type)
	if a.Tool != "" {
		fmt.Fprintf(&b, " for %s", core.Visible(a.Tool, 200, false))
	}
	fmt.Fprintf(&b, " (risk: %s)\n", a.Risk)
	if a.Description != "" {
		b.WriteString(core.Visible(a.Description, 1000, false) + "\n") // it must not look like other lines
	}
	details := core.Visible(indented(a.Context), 0, true)
	if runes := []rune(details); len(runes) > maxShown {
		details = string(runes[:maxShown]) + "\n… cut here. Look at all of it before you approve: pml approvals show " + a.ID.Short()
	}
	if details != "" {
		b.WriteString(details + "\n")
	}
	if a.RequestedBy.Who != "" {
		fmt.Fprintf(&b, "Asked by %s. ", core.Visible(a.RequestedBy.Who, 100, false))
	}
	fmt.Fprintf(&b, "Run %s, approval %s, digest %s.", a.RunID.Short(), a.ID.Short(), core.Visible(a.Digest, 100, false))
	if q.confirm != "" {
		fmt.Fprintf(&b, " To approve, type %s.", q.confirm)
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

// The fields of a form.
const (
	fieldApprove = "approve"
	fieldReason  = "reason"
	fieldConfirm = "confirm"
	fieldInDoubt = "in_doubt"
	fieldResult  = "result"
)

// deny is the third way on for a call in doubt, beside those of the core.
const deny = "deny"

type object = map[string]any

// schema is the form: flat and of simple types, as every revision wants it.
func (q question) schema() any {
	first := fieldApprove
	fields := object{
		fieldReason: object{"type": "string", "title": "Reason", "description": "Optional; kept in the audit log.", "maxLength": 500},
	}
	if q.approval.Type == core.ApproveInDoubt {
		first = fieldInDoubt
		fields[fieldInDoubt] = object{
			"type": "string", "title": "It may have run", "enum": []string{string(core.RunAgain), string(core.SkipResult), deny},
			"description": "run_again calls it again; skip goes on with the result below; deny fails the call.",
		}
		fields[fieldResult] = object{"type": "string", "title": "Result to assume", "description": "JSON, for skip."}
	} else {
		fields[fieldApprove] = object{"type": "boolean", "title": "Approve", "description": "No denies this call; the run goes on."}
	}
	if q.confirm != "" {
		fields[fieldConfirm] = object{
			"type": "string", "title": "Confirm", "maxLength": 20,
			"description": "High risk: to approve, type " + q.confirm + ".",
		}
	}
	return object{"type": "object", "properties": fields, "required": []string{first}}
}

// instant is how fast an answer must be to have come from no person.
const instant = 300 * time.Millisecond

// verdict is what a host's answer comes to.
type verdict struct {
	decision *api.Decision // nil: nothing is decided
	opened   bool          // a page was opened: what comes of it is decided there
	why      string        // why nothing was decided
}

// heard reads the answer of a host that came after some time. Whatever it is,
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
		return verdict{decision: q.decides(false, text(said.Content[fieldReason]))}
	case q.url:
		return verdict{opened: true}
	case q.approval.Type == core.ApproveInDoubt:
		return q.heardInDoubt(said.Content)
	}
	var approve *bool
	if json.Unmarshal(said.Content[fieldApprove], &approve) != nil || approve == nil {
		return verdict{why: "the form came back without a yes or no in \"approve\", so nothing was decided"}
	}
	if *approve && !q.confirmed(said.Content) {
		return verdict{why: "the characters to confirm with were not typed, so nothing was decided"}
	}
	return verdict{decision: q.decides(*approve, text(said.Content[fieldReason]))}
}

func (q question) heardInDoubt(content map[string]json.RawMessage) verdict {
	way := text(content[fieldInDoubt])
	d := q.decides(way != deny, text(content[fieldReason]))
	switch way {
	case deny:
		return verdict{decision: d}
	case string(core.RunAgain):
		d.Answer = &core.Answer{InDoubt: core.RunAgain}
	case string(core.SkipResult):
		assumed := json.RawMessage(text(content[fieldResult]))
		if !json.Valid(assumed) {
			return verdict{why: "the result to assume is no JSON, so nothing was decided"}
		}
		d.Answer = &core.Answer{InDoubt: core.SkipResult, Result: assumed}
	default:
		return verdict{why: "the form came back without a choice in \"in_doubt\", so nothing was decided"}
	}
	if !q.confirmed(content) {
		return verdict{why: "the characters to confirm with were not typed, so nothing was decided"}
	}
	return verdict{decision: d}
}

func (q question) confirmed(content map[string]json.RawMessage) bool {
	return q.confirm == "" || strings.EqualFold(strings.TrimSpace(text(content[fieldConfirm])), q.confirm)
}

// decides is a decision of this one approval, as it was shown.
func (q question) decides(approve bool, reason string) *api.Decision {
	return &api.Decision{Approve: approve, Checkpoint: q.approval.ID, ExpectDigest: q.approval.Digest, Reason: reason}
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
