package approval_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

var (
	now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	ann = core.Actor{Who: "ann", Via: core.ViaTUI}
)

func at(d time.Duration) *time.Time {
	t := now.Add(d)
	return &t
}

func question(change ...func(*core.Approval)) core.Approval {
	a := core.Approval{ID: "aaaaaaaa-1", RunID: "bbbbbbbb-2", Type: core.ApproveTool, Tool: "fs:write", Digest: "sha256:aa",
		State: core.ApprovalOpen, CreatedAt: now, ExpiresAt: at(5 * time.Minute)}
	for _, f := range change {
		f(&a)
	}
	return a
}

func state(s core.ApprovalState) func(*core.Approval) {
	return func(a *core.Approval) {
		a.State = s
		a.DecidedBy = &core.DecidedBy{Actor: ann, At: now}
		a.Answer = &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"a": "<1>"}`)}
	}
}

func inDoubt(a *core.Approval) { a.Type = core.ApproveInDoubt }

func TestDecide(t *testing.T) {
	t.Parallel()
	skip := func(result string) *core.Answer {
		return &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(result)}
	}
	for name, c := range map[string]struct {
		a    core.Approval
		d    core.Decision
		at   time.Duration
		want core.Code
		same bool
	}{
		"Approve":            {a: question(), d: core.Decision{Approved: true}},
		"Deny":               {a: question()},
		"LastMoment":         {a: question(), at: 5*time.Minute - 1},
		"Expired":            {a: question(), at: 5 * time.Minute, want: core.CodeApprovalExpired},
		"ExpiredRecorded":    {a: question(state(core.ApprovalExpired)), want: core.CodeApprovalExpired},
		"NeverExpires":       {a: question(func(a *core.Approval) { a.ExpiresAt = nil }), at: 1e6 * time.Hour},
		"Digest":             {a: question(), d: core.Decision{ExpectDigest: "sha256:aa"}},
		"DigestMismatch":     {a: question(), d: core.Decision{ExpectDigest: "sha256:bb"}, want: core.CodeDigestMismatch},
		"DigestAfterwards":   {a: question(state(core.ApprovalDenied)), d: core.Decision{ExpectDigest: "sha256:bb"}, want: core.CodeDigestMismatch},
		"Superseded":         {a: question(state(core.ApprovalSuperseded)), want: core.CodeNotWaiting},
		"SameAgain":          {a: question(state(core.ApprovalDenied)), same: true},
		"SameAgainLate":      {a: question(state(core.ApprovalApproved)), d: core.Decision{Approved: true}, at: time.Hour, same: true},
		"SameAnswer":         {a: question(state(core.ApprovalApproved)), d: core.Decision{Approved: true, Answer: skip(`{"a":"\u003c1>"}`)}, same: true},
		"OtherAnswer":        {a: question(state(core.ApprovalApproved)), d: core.Decision{Approved: true, Answer: skip(`{"a":2}`)}, want: core.CodeAlreadyDecided},
		"DeepAnswer":         {a: question(), d: core.Decision{Approved: true, Answer: skip(strings.Repeat("[", 501) + strings.Repeat("]", 501))}, want: core.CodeInvalidArguments},
		"InDoubtBare":        {a: question(inDoubt), d: core.Decision{Approved: true}, want: core.CodeInvalidArguments},
		"InDoubtNoWay":       {a: question(inDoubt), d: core.Decision{Approved: true, Answer: &core.Answer{}}, want: core.CodeInvalidArguments},
		"InDoubtAgain":       {a: question(inDoubt), d: core.Decision{Approved: true, Answer: &core.Answer{InDoubt: core.RunAgain}}},
		"InDoubtSkip":        {a: question(inDoubt), d: core.Decision{Approved: true, Answer: skip(`1`)}},
		"InDoubtDeny":        {a: question(inDoubt)},
		"InDoubtYesAgain":    {a: question(inDoubt, state(core.ApprovalApproved)), d: core.Decision{Approved: true}, same: true},
		"OppositeOfDenied":   {a: question(state(core.ApprovalDenied)), d: core.Decision{Approved: true}, want: core.CodeAlreadyDecided},
		"OppositeOfApproved": {a: question(state(core.ApprovalApproved)), want: core.CodeAlreadyDecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.d.By = ann
			got, err := approval.Decide(c.a, c.d, now.Add(c.at))
			if core.CodeOf(err) != c.want {
				t.Fatalf("code %q, want %q: %v", core.CodeOf(err), c.want, err)
			}
			if err != nil {
				var e *core.Error
				if !errors.As(err, &e) || len(e.Next) == 0 || e.RunID != c.a.RunID {
					t.Errorf("it must say what to do next: %+v", e)
				}
				return
			}
			if got.Changed == c.same {
				t.Errorf("changed is %v", got.Changed)
			}
			if c.same {
				if diff := cmp.Diff(c.a, got.Approval); diff != "" {
					t.Error(diff)
				}
				return
			}
			want := core.ApprovalDenied
			if c.d.Approved {
				want = core.ApprovalApproved
			}
			if got.Approval.State != want || got.Row.Outcome != want || got.Row.By != ann || got.Approval.DecidedBy.Who != "ann" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestDecide_ExpiredSaysContinue(t *testing.T) {
	t.Parallel()
	a := question()
	_, err := approval.Decide(a, core.Decision{}, now.Add(time.Hour))
	if diff := cmp.Diff([]string{"pml", "continue", string(a.RunID)}, core.AsError(err).Next); diff != "" {
		t.Error(diff)
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	old := question(func(a *core.Approval) { a.Used, a.CallIDs = true, []string{"c1"} })
	got, err := approval.Renew(old, "new", now.Add(time.Hour), nil, ann)
	want := old
	want.ID, want.CreatedAt, want.ExpiresAt, want.RequestedBy, want.Used, want.Renews = "new", now.Add(time.Hour), nil, ann, false, old.ID
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for s, code := range map[core.ApprovalState]core.Code{
		core.ApprovalApproved: core.CodeAlreadyDecided, core.ApprovalSuperseded: core.CodeNotWaiting,
	} {
		if _, err := approval.Renew(question(state(s)), "new", now, nil, ann); core.CodeOf(err) != code {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestExpire_At(t *testing.T) {
	t.Parallel()
	got := approval.Expire(question(), now.Add(time.Hour))
	if got.Approval.State != core.ApprovalExpired || !got.Row.At.Equal(now.Add(5*time.Minute)) || got.Approval.DecidedBy != nil {
		t.Errorf("%+v", got)
	}
}

func TestExtend_Bounded(t *testing.T) {
	t.Parallel()
	far := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	if a, err := approval.Extend(question(), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC), now); err != nil || !a.ExpiresAt.Equal(far) {
		t.Errorf("extended to %v, %v", a.ExpiresAt, err)
	}
}

func chain(t *testing.T, n int) []core.AuditRow {
	t.Helper()
	var rows []core.AuditRow
	var prev core.AuditRow
	for i := range n {
		row, err := approval.Chain(prev, core.AuditRow{
			At: now.Add(time.Duration(i)).In(time.FixedZone("x", 3600)), RunID: "r", Outcome: core.ApprovalApproved, By: ann})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(row) // as a store keeps it
		if err == nil {
			prev = core.AuditRow{}
			err = json.Unmarshal(raw, &prev)
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, prev)
	}
	return rows
}

// TestVerify_Older: a row as an older pml has written it, with the name of an agent's
// host beside its user, has the hash that it had.
func TestVerify_Older(t *testing.T) {
	t.Parallel()
	const row = `{"seq":1,"at":"2026-11-22T10:00:00Z","workflow_id":"r","outcome":"approved","by":{"who":"root","via":"mcp","agent":"claude-code"},"prev_hash":""}`
	hash, err := core.Digest([]byte(row))
	if err != nil {
		t.Fatal(err)
	}
	var old core.AuditRow
	if err := json.Unmarshal([]byte(row), &old); err != nil {
		t.Fatal(err)
	}
	old.Hash = hash
	if bad, reason := approval.Verify([]core.AuditRow{old}); bad != 0 || old.By.Host() != "claude-code" {
		t.Errorf("row %d: %s; by %+v", bad, reason, old.By)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func([]core.AuditRow) []core.AuditRow
		bad    int64
		reason string
	}{
		"Intact": {func(r []core.AuditRow) []core.AuditRow { return r }, 0, ""},
		"Tail":   {func(r []core.AuditRow) []core.AuditRow { return r[2:] }, 0, ""},
		"Changed": {func(r []core.AuditRow) []core.AuditRow {
			r[2].Outcome = core.ApprovalDenied
			return r
		}, 3, "changed"},
		"Removed": {func(r []core.AuditRow) []core.AuditRow { return append(r[:1:1], r[2:]...) }, 3, "missing"},
		"Replaced": {func(r []core.AuditRow) []core.AuditRow {
			r[2].Outcome = core.ApprovalDenied
			row, _ := approval.Chain(r[1], r[2])
			r[2] = row
			return r
		}, 4, "does not follow"},
		"NotTheFirst": {func(r []core.AuditRow) []core.AuditRow {
			row, _ := approval.Chain(core.AuditRow{Hash: "sha256:00"}, r[0])
			return []core.AuditRow{row}
		}, 1, "before it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, reason := approval.Verify(c.change(chain(t, 5)))
			if bad != c.bad || !strings.Contains(reason, c.reason) {
				t.Errorf("%d %q, want %d %q", bad, reason, c.bad, c.reason)
			}
		})
	}
}

// The row of a decision that writes a rule names the rule; what is filled in for readers is
// not covered by its hash.
func TestDecide_RuleInRow(t *testing.T) {
	t.Parallel()
	a := core.Approval{ID: "a", RunID: "r", Type: core.ApproveTool, Tool: "fs:write", State: core.ApprovalOpen, CreatedAt: now}
	for reason, want := range map[string]string{"": "allow fs:write", "mine": "allow fs:write: mine"} {
		d := core.Decision{ApprovalID: a.ID, Approved: true, By: ann, Reason: reason, Answer: &core.Answer{Remember: core.RememberRule}}
		got, err := approval.Decide(a, d, now)
		if err != nil || got.Row.Reason != want || got.Approval.DecidedBy.Reason != reason {
			t.Errorf("%q: %+v %v", reason, got, err)
		}
		row, err := approval.Chain(core.AuditRow{}, got.Row)
		if err != nil {
			t.Fatal(err)
		}
		row.Shown = "approved"
		if _, why := approval.Verify([]core.AuditRow{row}); why != "" {
			t.Error(why)
		}
	}
}
