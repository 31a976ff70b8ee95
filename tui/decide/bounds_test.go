package decide_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	approvals "github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
)

// ofLoop is a call that line 4 of a script makes.
func ofLoop(id core.ID, args string) core.Approval {
	a := approval(core.ApproveTool, core.RiskMedium, `{"arguments":`+args+`}`)
	a.ID, a.Place = id, core.Position{Line: 4, Column: 9}
	return a
}

func TestMoreCalls(t *testing.T) {
	t.Parallel()
	var up, down []int
	for n := 7; n < approvals.MaxShapeCalls; n = decide.MoreCalls(n) {
		up = append(up, n)
	}
	for n := approvals.MaxShapeCalls; n > 0 && len(down) < 60; n = decide.FewerCalls(n) {
		if down = append(down, n); n == decide.FewerCalls(n) {
			break
		}
	}
	if !strings.HasPrefix(join(up), "7 8 9 10 15 20 25 30 35 40 45 50 60") || decide.MoreCalls(approvals.MaxShapeCalls) != approvals.MaxShapeCalls || decide.MoreCalls(41) != 45 {
		t.Errorf("up: %s", join(up))
	}
	if !strings.HasSuffix(join(down), "60 50 45 40 35 30 25 20 15 10 9 8 7 6 5 4 3 2 1") || decide.FewerCalls(41) != 40 {
		t.Errorf("down: %s", join(down))
	}
}

func join(list []int) string {
	raw, _ := json.Marshal(list)
	return strings.Trim(strings.ReplaceAll(string(raw), ",", " "), "[]")
}

// TestCard_Bind: bounds are read and typed for anew, approved and nothing else, and go with
// the question that they were for.
func TestCard_Bind(t *testing.T) {
	t.Parallel()
	later := now.Add(late)
	a := ofLoop(apID, `{"team":"ENG"}`)
	a.Risk = core.RiskHigh
	s, ok := approvals.Propose([]core.Approval{a})
	if !ok {
		t.Fatal("nothing is proposed")
	}
	c := decide.Open(a, now)
	c.Read()
	for r := range strings.SplitSeq(c.Wants(), "") {
		c.Type(r)
	}
	if why := c.Why(decide.Approve, later); why != "" {
		t.Fatal(why)
	}
	c.Bind(&s)
	says := func(v decide.Verb, want string) {
		t.Helper()
		if why := c.Why(v, later); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", v, why, want)
		}
	}
	says(decide.Approve, "not read to its end yet")
	says(decide.Remember, "nothing else is remembered")
	says(decide.Deny, "denied on its card")
	says(decide.Abort, "denied on its card")
	c.Read()
	says(decide.Approve, "type "+c.Wants())
	for r := range strings.SplitSeq(c.Wants(), "") {
		c.Type(r)
	}
	says(decide.Approve, "")
	if got := c.Answer(); got == nil || got.Shape != &s {
		t.Errorf("the answer is %+v", got)
	}
	over := s
	over.Until = &later
	c.Bind(&over)
	says(decide.Approve, "the bounds ended at 14:02:31: change until")
	c.Bind(&s)
	a.Digest = "sha256:other"
	c.Update(a, true, "", now)
	if c.Shape() != nil || c.Answer() != nil {
		t.Error("the bounds are there for another question")
	}
}

func TestCommand_Bounds(t *testing.T) {
	t.Parallel()
	until := now.Add(time.Hour)
	s := core.Shape{Max: 40, Until: &until, Fields: []core.Bound{
		{Name: "body", Types: []string{"text"}, Size: 9}, {Name: "path", Matches: "docs/*.md", Size: 9}, {Name: "team", Is: json.RawMessage(`"ENG"`)},
	}}
	got := decide.Line(ofLoop(apID, `{}`), decide.Choice{Verb: decide.Approve, Answer: &core.Answer{Shape: &s}})
	want := `pml approve 41d2e07b --shape --max 40 --until 2026-11-22T15:02:31Z --free body --match 'path=docs/*.md' --fix 'team="ENG"'`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
