package decide_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	approvals "github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
)

var now = time.Date(2026, 11, 22, 14, 2, 31, 0, time.UTC)

const (
	runID = core.ID("7f3a91c2-0000-4000-8000-000000000001")
	apID  = core.ID("41d2e07b-0000-4000-8000-000000000002")
)

func approval(t core.ApprovalType, risk core.Risk, context string) core.Approval {
	at := now.Add(5 * time.Minute)
	return core.Approval{
		ID: apID, RunID: runID, Type: t, Risk: risk, Context: json.RawMessage(context), Digest: "sha256:beef",
		State: core.ApprovalOpen, CreatedAt: now, ExpiresAt: &at, Tool: "gh:create",
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	var g decide.Guard
	if !g.Ready(now) {
		t.Error("the zero guard is quiet")
	}
	g.Disturb(now)
	if g.Ready(now.Add(decide.Quiet - 1)) {
		t.Error("too early was let through")
	}
	if !g.Ready(now.Add(decide.Quiet)) {
		t.Error("it never ends")
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	tool := approval(core.ApproveTool, core.RiskMedium, `{}`)
	ended := tool
	ended.State = core.ApprovalDenied
	for name, c := range map[string]struct {
		list []core.Approval
		want string
	}{
		"OK":         {[]core.Approval{tool, tool}, ""},
		"None":       {nil, "nothing is marked"},
		"TwoTypes":   {[]core.Approval{tool, approval(core.ApproveKeys, core.RiskLow, `{}`)}, "one type"},
		"Integrity":  {[]core.Approval{approval(core.ApproveIntegrity, core.RiskHigh, `{}`)}, "one by one"},
		"LowHashes":  {[]core.Approval{approval(core.ApproveIntegrity, core.RiskLow, `{}`)}, "one by one"},
		"InDoubt":    {[]core.Approval{approval(core.ApproveInDoubt, core.RiskLow, `{}`)}, "answer of its own"},
		"High":       {[]core.Approval{tool, approval(core.ApproveTool, core.RiskHigh, `{}`)}, "high risk"},
		"Decided":    {[]core.Approval{tool, ended}, "waits no more"},
		"NoRiskSaid": {[]core.Approval{approval(core.ApproveTool, "", `{}`)}, "high risk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide.Together(c.list, now)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	tool := approval(core.ApproveTool, core.RiskMedium, `{}`)
	bare := tool
	bare.Digest = ""
	const tail = " --approval 41d2e07b --expect-digest sha256:beef"
	for name, c := range map[string]struct {
		a    core.Approval
		c    decide.Choice
		want string
	}{
		"Approve":  {tool, decide.Choice{Verb: decide.Approve}, "--approve" + tail},
		"NoDigest": {bare, decide.Choice{Verb: decide.Approve}, "--approve --approval 41d2e07b"},
		"Deny":     {tool, decide.Choice{Verb: decide.Deny, Reason: "it's wrong"}, "--deny" + tail + ` --reason 'it'\''s wrong'`},
		"Abort":    {tool, decide.Choice{Verb: decide.Abort}, "--deny --abort" + tail},
		"Run":      {tool, decide.Choice{Verb: decide.Remember, Answer: &core.Answer{Remember: core.RememberRun}}, "--approve" + tail + " --remember run"},
		"Rule":     {tool, decide.Choice{Verb: decide.Remember, Answer: &core.Answer{Remember: core.RememberRule}}, "--approve" + tail + " --remember rule"},
		"Scripts":  {tool, decide.Choice{Verb: decide.Approve, Answer: &core.Answer{Scripts: true}}, "--approve" + tail + " --allow-scripts"},
		"DenyAll":  {tool, decide.Choice{Verb: decide.Deny, Answer: &core.Answer{Scripts: true}}, "--deny" + tail},
		"Again":    {tool, decide.Choice{Verb: decide.Approve, Answer: &core.Answer{InDoubt: core.RunAgain}}, "--answer run-again" + tail},
		"SkipNull": {tool, decide.Choice{Verb: decide.Approve, Answer: &core.Answer{InDoubt: core.SkipResult, Result: core.Null}}, "--answer skip" + tail},
		"Skip": {tool, decide.Choice{Verb: decide.Approve, Answer: &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage("{\"a\":\n 1}")}},
			`--answer skip --result '{"a": 1}'` + tail},
		"Hostile": {tool, decide.Choice{Verb: decide.Deny, Reason: "a\n\x1b[2Jrm -rf $(x)"}, "--deny" + tail + ` --reason 'a\n\x1b[2Jrm -rf $(x)'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide.Shell(decide.Command(c.a, c.c))
			if want := "pml continue 7f3a91c2 " + c.want; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

const late = decide.Quiet

func TestCard_Why(t *testing.T) {
	t.Parallel()
	type step = func(*decide.Card)
	read := func(c *decide.Card) { c.Read() }
	types := func(s string) step {
		return func(c *decide.Card) {
			for _, r := range s {
				c.Type(string(r))
			}
		}
	}
	update := func(change func(*core.Approval)) step {
		return func(c *decide.Card) {
			a := c.Approval()
			change(&a)
			c.Update(a, true, "", now)
		}
	}
	lost := func(c *decide.Card) { c.Update(c.Approval(), true, "the server is lost", now) }
	by := &core.DecidedBy{Actor: core.Actor{Who: "ann\x1b", Via: core.ViaCLI}, At: now}
	tool := approval(core.ApproveTool, core.RiskMedium, `{}`)
	high := approval(core.ApproveIntegrity, core.RiskHigh, `{"new_hash":"sha256:9f04e77b"}`)
	doubt := approval(core.ApproveInDoubt, core.RiskHigh, `{}`)
	scripts := approval(core.ApproveDependency, core.RiskMedium, `{"dependency":{"scripts":["postinstall: x"]}}`)
	for name, c := range map[string]struct {
		a     core.Approval
		steps []step
		after time.Duration
		verb  decide.Verb
		want  string
	}{
		"Unread":          {tool, nil, late, decide.Approve, "unlocks page by page"},
		"Read":            {tool, []step{read}, late, decide.Approve, ""},
		"DenyUnread":      {tool, nil, late, decide.Deny, ""},
		"AbortUnread":     {high, nil, late, decide.Abort, ""},
		"TooEarly":        {tool, []step{read}, late - 1, decide.Approve, "too early"},
		"DenyTooEarly":    {tool, nil, late - 1, decide.Deny, "too early"},
		"RememberTool":    {tool, []step{read}, late, decide.Remember, ""},
		"RememberOther":   {approval(core.ApproveKeys, core.RiskLow, `{}`), []step{read}, late, decide.Remember, "only the permission"},
		"HighUntyped":     {high, []step{read}, late, decide.Approve, "type 9f04"},
		"HighHalf":        {high, []step{read, types("9f0")}, late, decide.Approve, "type 9f04"},
		"HighWrong":       {high, []step{read, types("9f05")}, late, decide.Approve, "type 9f04"},
		"HighRight":       {high, []step{read, types("9F04")}, late, decide.Approve, ""},
		"HighTooMuch":     {high, []step{read, types("9f041")}, late, decide.Approve, "type 9f04"},
		"HighUnread":      {high, []step{types("9f04")}, late, decide.Approve, "unlocks page by page"},
		"HighErased":      {high, []step{read, types("9f04"), (*decide.Card).Erase}, late, decide.Approve, "type 9f04"},
		"HighRemember":    {approval(core.ApproveTool, core.RiskHigh, `{}`), []step{read}, late, decide.Remember, "type 7f3a"},
		"Lost":            {tool, []step{read, lost}, late, decide.Approve, "nothing is queued"},
		"DenyLost":        {tool, []step{lost}, late, decide.Deny, "nothing is queued"},
		"Expired":         {tool, []step{read}, 5 * time.Minute, decide.Approve, ""},
		"ExpiredUnread":   {tool, nil, 5 * time.Minute, decide.Approve, "unlocks page by page"},
		"DenyExpired":     {tool, nil, 5 * time.Minute, decide.Deny, ""},
		"AskedAgain":      {tool, []step{read, update(func(a *core.Approval) { a.RenewedBy = "abcdef12-0" })}, 5 * time.Minute, decide.Approve, "asked again as abcdef12"},
		"Superseded":      {tool, []step{read, update(func(a *core.Approval) { a.State = core.ApprovalSuperseded })}, late, decide.Approve, "not needed"},
		"Raced":           {tool, []step{read, update(func(a *core.Approval) { a.State, a.DecidedBy = core.ApprovalDenied, by })}, late, decide.Approve, `already denied by ann\x1b via cli at 14:02:31`},
		"RacedNobody":     {tool, []step{update(func(a *core.Approval) { a.State = core.ApprovalApproved })}, late, decide.Deny, "already approved"},
		"Removed":         {tool, []step{read, func(c *decide.Card) { c.Update(core.Approval{}, false, "", now) }}, late, decide.Deny, "gone"},
		"NewDigest":       {tool, []step{read, update(func(a *core.Approval) { a.Digest = "sha256:other" })}, late, decide.Approve, "unlocks page by page"},
		"NewContext":      {high, []step{read, types("9f04"), update(func(a *core.Approval) { a.Context = json.RawMessage(`{"new_hash":"sha256:1111"}`) }), read}, late, decide.Approve, "type 1111"},
		"MoreTime":        {tool, []step{read, update(func(a *core.Approval) { at := now.Add(time.Hour); a.ExpiresAt = &at })}, 10 * time.Minute, decide.Approve, ""},
		"InDoubtNoWay":    {doubt, []step{read, types("7f3a")}, late, decide.Approve, "first say how"},
		"InDoubtUntyped":  {doubt, []step{read, func(c *decide.Card) { c.ChooseInDoubt(core.RunAgain, nil) }}, late, decide.Approve, "type 7f3a"},
		"InDoubt":         {doubt, []step{read, func(c *decide.Card) { c.ChooseInDoubt(core.RunAgain, nil) }, types("7f3a")}, late, decide.Approve, ""},
		"InDoubtOther":    {doubt, []step{read, types("7f3a"), func(c *decide.Card) { c.ChooseInDoubt(core.SkipResult, nil) }}, late, decide.Approve, "type 7f3a"},
		"ScriptsOff":      {scripts, []step{read}, late, decide.Approve, ""},
		"ScriptsOn":       {scripts, []step{read, func(c *decide.Card) { c.ToggleScripts() }}, late, decide.Approve, "type 7f3a"},
		"ScriptsTyped":    {scripts, []step{read, func(c *decide.Card) { c.ToggleScripts() }, types("7f3a")}, late, decide.Approve, ""},
		"ScriptsOffAgain": {scripts, []step{read, func(c *decide.Card) { c.ToggleScripts(); c.ToggleScripts() }}, late, decide.Approve, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			card := decide.Open(c.a, now)
			for _, s := range c.steps {
				s(&card)
			}
			got := card.Why(c.verb, now.Add(c.after))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestCard_Answer(t *testing.T) {
	t.Parallel()
	doubt := decide.Open(approval(core.ApproveInDoubt, core.RiskHigh, `{}`), now)
	if doubt.ChooseInDoubt(core.SkipResult, json.RawMessage(`{"a":`)) {
		t.Error("a result that is no JSON was taken")
	}
	if doubt.Answer() != nil {
		t.Error("there is an answer already")
	}
	if !doubt.ChooseInDoubt(core.SkipResult, nil) || string(doubt.Answer().Result) != "null" {
		t.Errorf("%+v", doubt.Answer())
	}
	tool := decide.Open(approval(core.ApproveTool, core.RiskLow, `{}`), now)
	if tool.ChooseInDoubt(core.RunAgain, nil) || tool.ToggleScripts() {
		t.Error("a tool has no such answer")
	}
}

// TestCard_Property: whatever happens in whatever order, an approval of high
// risk opens only once its end was on screen and its characters were typed,
// both after it last changed, and never too early.
func TestCard_Property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hash := rapid.StringMatching(`sha256:[0-9a-f]{4,64}`).Draw(t, "hash")
		risk := rapid.SampledFrom([]core.Risk{core.RiskLow, core.RiskMedium, core.RiskHigh, "", "x"}).Draw(t, "risk")
		kind := rapid.SampledFrom([]core.ApprovalType{core.ApproveIntegrity, core.ApproveTool, core.ApproveInDoubt, core.ApproveDependency}).Draw(t, "kind")
		a := approval(kind, risk, `{"new_hash":"`+hash+`","dependency":{"scripts":["x"]}}`)
		card := decide.Open(a, now)
		at, quietFrom := now, now
		read, typed, scripts, way, bound, open, lost := false, "", false, false, false, true, false
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			want := approvals.Confirmation(a, false)
			if want == "" && scripts {
				b := a
				b.Risk = core.RiskHigh
				want = approvals.Confirmation(b, false)
			}
			switch rapid.IntRange(0, 10).Draw(t, "op") {
			case 0:
				card.Read()
				read = true
			case 1, 2, 3:
				key := rapid.StringMatching(`[0-9a-f]|`+want).Draw(t, "key")
				card.Type(key)
				if typed += key; !strings.HasPrefix(want, typed) {
					typed = ""
				}
			case 4:
				at = at.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "ms")) * time.Millisecond)
			case 5:
				card.Disturb(at)
				quietFrom = at
			case 6:
				if card.ToggleScripts() {
					scripts, typed = !scripts, ""
				}
			case 7:
				if card.ChooseInDoubt(core.RunAgain, nil) {
					way, typed = true, ""
				}
			case 8:
				lost = !lost
				why := ""
				if lost {
					why = "lost"
				}
				card.Update(a, true, why, at)
			case 10:
				if bound = !bound; bound {
					card.Bind(&core.Shape{Max: 2})
				} else {
					card.Bind(nil)
				}
				read, typed = false, ""
			case 9:
				if rapid.Bool().Draw(t, "rare") {
					continue
				}
				a.Digest += "0"
				card.Update(a, true, "", at)
				read, typed, scripts, way, bound, lost, quietFrom = false, "", false, false, false, false, at
			}
			for _, v := range []decide.Verb{decide.Approve, decide.Remember} {
				high := scripts || !slices.Contains([]core.Risk{core.RiskLow, core.RiskMedium}, risk)
				can := read && open && !lost && !at.Before(quietFrom.Add(decide.Quiet)) &&
					(!high || len(typed) == 4) && (kind != core.ApproveInDoubt || way) &&
					(v == decide.Approve || kind == core.ApproveTool && !bound)
				if got := card.Why(v, at); (got == "") != can {
					t.Fatalf("%s: %q, want %v (typed %q)", v, got, can, typed)
				}
			}
		}
	})
}

// TestLine: a call in doubt is not plainly approved: that would be refused, and
// nobody would have said whether it runs again.
func TestLine(t *testing.T) {
	t.Parallel()
	doubt := approval(core.ApproveInDoubt, core.RiskHigh, `{}`)
	again, skip := &core.Answer{InDoubt: core.RunAgain}, &core.Answer{InDoubt: core.SkipResult, Result: core.Null}
	for name, c := range map[string]struct {
		a        core.Approval
		c        decide.Choice
		has, not string
	}{
		"NoWay":  {doubt, decide.Choice{Verb: decide.Approve}, "# one of two; the other: --answer skip", "--approve"},
		"Again":  {doubt, decide.Choice{Verb: decide.Approve, Answer: again}, "--answer run-again", "#"},
		"Skip":   {doubt, decide.Choice{Verb: decide.Approve, Answer: skip}, "--answer skip", "#"},
		"Deny":   {doubt, decide.Choice{Verb: decide.Deny}, "--deny", "#"},
		"Others": {approval(core.ApproveTool, core.RiskLow, `{}`), decide.Choice{Verb: decide.Approve}, "--approve", "#"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := decide.Line(c.a, c.c); !strings.Contains(got, c.has) || strings.Contains(got, c.not) {
				t.Errorf("%s", got)
			}
		})
	}
}
