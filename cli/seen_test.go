package cli_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// waits is a run that waits for one permission.
func waits(risk core.Risk) *fake { return &fake{pending: []core.Approval{permission(risk)}} }

// decisions are those that reached the backend.
func (s *shell) decisions() (out []api.Decision) {
	for _, c := range s.fake.went {
		if c.Decision != nil {
			out = append(out, *c.Decision)
		}
	}
	return out
}

// At a terminal the card is shown and answered before anything is decided, whatever
// word the command has.
func TestSeen_Asks(t *testing.T) {
	t.Parallel()
	const card, hint = "approval required: tool_permission", "[y]es, once (enter) / "
	yes := api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: hashA, Presence: core.PresenceTerminal}
	no, end := yes, yes
	no.Approve, end.Approve, end.Abort = false, false, true
	for _, tt := range []struct {
		name  string
		risk  core.Risk
		typed string
		code  int
		want  []api.Decision
		says  string
	}{
		{"Yes", core.RiskLow, "y\n", 0, []api.Decision{yes}, hint},
		{"YesOnSecondThought", core.RiskMedium, "what\ny\n", 0, []api.Decision{yes}, hint},
		{"No", core.RiskLow, "n\n", 0, []api.Decision{no}, hint},
		{"Abort", core.RiskLow, "a\n", 0, []api.Decision{end}, hint},
		{"Later", core.RiskLow, "l\n", 8, nil, "error: nothing was decided: 52e3f18c waits on\nnext: pml approve 52e3f18c\n"},
		{"Nothing", core.RiskLow, "", 8, nil, "nothing was decided"},
		{"EnterTypedBefore", core.RiskLow, "\n\n", 8, nil, "too early"},
		{"High", core.RiskHigh, "y\n7f3a\n", 0, []api.Decision{yes}, "high risk: type 7f3a to approve: "},
		{"HighYesAlone", core.RiskHigh, "y\ny\n", 8, nil, "not approved: that was not 7f3a"},
		{"HighNoEnter", core.RiskHigh, "\n\n", 8, nil, "[l]ater: "},
		{"UnknownRisk", "colossal", "y\n7f3a\n", 0, []api.Decision{yes}, "high risk: type 7f3a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"continue", "7f3a91", "--approve"}, {"approve", "7f3a91"}, {"approve", "52e3"}, {"approve", "@latest"}} {
				s := (&shell{tty: true, stdin: tt.typed, fake: waits(tt.risk)}).run(args...).want(t, tt.code).has(t, "err", card, tt.says)
				if diff := cmp.Diff(tt.want, s.decisions()); diff != "" {
					t.Errorf("%v: %s", args, diff)
				}
				if strings.Contains(s.err, hint) == (tt.risk == core.RiskHigh || tt.risk == "colossal") {
					t.Errorf("enter and the risk %s: %s", tt.risk, s.err)
				}
			}
		})
	}
}

// slow is a clock of somebody who takes a second for each look at it.
type slow struct {
	mu sync.Mutex
	at time.Time
}

func (c *slow) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Second)
	return c.at
}

// Who has seen the question may answer with enter.
func TestSeen_Enter(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, stdin: "\n", clock: &slow{at: at}, fake: waits(core.RiskMedium)}).run("approve", "52e3").want(t, 0)
	if d := s.decisions(); len(d) != 1 || !d[0].Approve {
		t.Errorf("%+v", d)
	}
	s = (&shell{tty: true, stdin: "\n", clock: &slow{at: at}, fake: waits(core.RiskHigh)}).run("approve", "52e3").want(t, 8)
	if d := s.decisions(); d != nil {
		t.Errorf("enter is no yes to what is of high risk: %+v", d)
	}
}

// Bounds for what waits now name the command for more calls of the loop, and a number at the
// prompt is how many: the bounds are shown again, and asked about.
func TestShape_More(t *testing.T) {
	t.Parallel()
	f := func() *fake {
		f := waits(core.RiskMedium)
		p := &f.pending[0]
		p.CallIDs, p.Place, p.Computed = []string{"c1"}, core.Position{Line: 2, Column: 9}, []string{"key"}
		p.Tool, p.Context = "rec:inc", json.RawMessage(`{"tool":"rec:inc","arguments":{"key":"k0"}}`)
		return f
	}
	const more = "for more calls of this loop"
	s := (&shell{tty: true, stdin: "0\n999999999\n40\ny\n", fake: f()}).run("approve", "52e3", "--shape", "--free", "key").want(t, 0).
		has(t, "err", "1 call known so far:", "the bounds are for 2 calls, the 1 above and 1 more; "+more, "\n  pml approve 52e3 --shape --free key --max 20\n", "approve up to 2 calls within", "that is no answer: type y, n or a number of calls", "approve up to 40 calls within")
	if d := s.decisions(); len(d) != 1 || d[0].Answer.Shape == nil || d[0].Answer.Shape.Max != 40 {
		t.Errorf("%+v", d)
	}
	s = (&shell{tty: true, stdin: "b\n30\ny\n", fake: f()}).run("approve", "52e3").want(t, 0). // the same from the question about one call
													has(t, "err", "all of line 2 in [b]ounds", more, "\n  pml approve 52e3f18c --shape --max 20\n", "approve up to 30 calls within")
	if d := s.decisions(); len(d) != 1 || d[0].Answer.Shape == nil || d[0].Answer.Shape.Max != 30 || d[0].Presence != core.PresenceTerminal {
		t.Errorf("%+v", d)
	}
	s = (&shell{tty: true, stdin: "y\n", fake: f()}).run("approve", "52e3", "--shape", "--max", "7").want(t, 0)
	if strings.Contains(s.err, more) {
		t.Errorf("who has said how many is told how to say it:\n%s", s.err)
	}
}

// Enter answers the question about a loop as well, once it was there to be read.
func TestSeen_EnterShape(t *testing.T) {
	t.Parallel()
	loop := func(risk core.Risk) *fake {
		f := waits(risk)
		p := &f.pending[0]
		p.CallIDs, p.Place, p.Computed = []string{"c1"}, core.Position{Line: 2, Column: 9}, []string{"key"}
		p.Tool, p.Context = "rec:inc", json.RawMessage(`{"tool":"rec:inc","arguments":{"key":"k0"}}`)
		return f
	}
	shape := []string{"approve", "52e3", "--shape"}
	s := (&shell{tty: true, stdin: "\n", clock: &slow{at: at}, fake: loop(core.RiskMedium)}).run(shape...).want(t, 0).has(t, "err", "within these bounds? [y]es (enter) / [n]o / a number of calls: ")
	if d := s.decisions(); len(d) != 1 || !d[0].Approve || d[0].Answer.Shape == nil {
		t.Errorf("%+v", d)
	}
	narrow := (&shell{tty: true, width: 50, stdin: "\n", clock: &slow{at: at}, fake: loop(core.RiskMedium)}).run(shape...).want(t, 0)
	_, bounds, _ := strings.Cut(narrow.err, "bounds:\n")
	bounds, _, _ = strings.Cut(bounds, "approved: ") // on the line of the prompt, as nobody has typed here
	for line := range strings.Lines(bounds) {
		if n := layout.Width(strings.TrimSuffix(line, "\n")); n > 50 {
			t.Errorf("%d columns of the bounds: %s", n, line)
		}
	}
	s = (&shell{tty: true, stdin: "\n", fake: loop(core.RiskMedium)}).run(shape...).want(t, 8).has(t, "err", "too early: ")
	if d := s.decisions(); d != nil {
		t.Errorf("an empty line that was typed before is no yes: %+v", d)
	}
	s = (&shell{tty: true, stdin: "\n", clock: &slow{at: at}, fake: loop(core.RiskHigh)}).run(shape...).want(t, 8)
	if d := s.decisions(); d != nil {
		t.Errorf("enter is no yes to what is of high risk: %+v", d)
	}
}

// --yes leaves the question out, not the card; and where only people decide it leaves
// nothing out.
func TestSeen_Yes(t *testing.T) {
	t.Parallel()
	s := (&shell{tty: true, fake: waits(core.RiskHigh)}).run("approve", "52e3", "--yes").want(t, 0).has(t, "err", "approval required: tool_permission", hashA)
	if d := s.decisions(); len(d) != 1 || d[0].Presence != "" || d[0].ExpectDigest != hashA || strings.Contains(s.err, "approve? ") {
		t.Errorf("%+v\n%s", d, s.err)
	}
	f := waits(core.RiskLow)
	f.pending[0].Human = true
	s = (&shell{tty: true, fake: f}).run("approve", "52e3", "--yes").want(t, 8).has(t, "err", "approve? ")
	if s.decisions() != nil {
		t.Error("--yes is no person")
	}
}

// Without a terminal the id is the consent: the card goes to stderr first, and the
// decision is bound to it.
func TestSeen_NoTerminal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"continue", "7f3a91", "--approve"}, {"approve", "52e3"}, {"deny", "52e3"}, {"approve", "52e3", "-o", "yaml"}} {
		s := (&shell{fake: waits(core.RiskHigh)}).run(args...).want(t, 0).has(t, "err", "approval required: tool_permission", hashA)
		want := []api.Decision{{Approve: args[0] != "deny", ExpectDigest: hashA}}
		if args[1] == "52e3" {
			want[0].Checkpoint = appB
		}
		if diff := cmp.Diff(want, s.decisions()); diff != "" {
			t.Errorf("%v: %s", args, diff)
		}
	}
	s := (&shell{fake: waits(core.RiskHigh)}).run("approve", "52e3", "--json").want(t, 0).has(t, "err", `{"deciding":{"checkpoint_id":"52e3`)
	if strings.Count(s.err, "\n") != 1 {
		t.Errorf("not one line: %q", s.err)
	}
	// What a script expects is not replaced by what it gets to see.
	s = (&shell{tty: true, fake: waits(core.RiskLow)}).run("approve", "52e3", "--expect-digest", "sha256:00").want(t, 0)
	if d := s.decisions(); d[0].ExpectDigest != "sha256:00" || d[0].Presence != "" {
		t.Errorf("%+v", d)
	}
}

// At a terminal a decision is asked about on stderr also where its result is for a
// program; stdout has the result alone.
func TestSeen_JSONAsks(t *testing.T) {
	t.Parallel()
	const card = "approval required: tool_permission"
	for _, toFile := range []bool{false, true} {
		for _, args := range [][]string{{"approve", "52e3"}, {"deny", "52e3"}, {"continue", "7f3a91", "--approve"}, {"continue", "7f3a91", "--deny"}} {
			s := (&shell{tty: true, toFile: toFile, stdin: "y\n", fake: waits(core.RiskLow)}).run(append(args, "--json")...).want(t, 0).has(t, "err", card)
			if d := s.decisions(); len(d) != 1 || d[0].Presence != core.PresenceTerminal || d[0].ExpectDigest != hashA {
				t.Errorf("%v: %+v", args, d)
			}
			if !json.Valid([]byte(s.out)) || strings.Contains(s.err, "{\"deciding") {
				t.Errorf("%v: %s\n%s", args, s.out, s.err)
			}
		}
	}
	s := (&shell{tty: true, stdin: "l\n", fake: waits(core.RiskHigh)}).run("approve", "52e3", "--json").want(t, 8).has(t, "err", card, `{"error":{"code":"awaiting_human"`)
	if s.decisions() != nil || s.out != "" {
		t.Errorf("%s", s.out)
	}
}

// A denial is shown as well; it needs no second word.
func TestSeen_Deny(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"continue", "7f3a91", "--deny", "--reason", "no"}, {"deny", "@latest", "--reason", "no"}} {
		s := (&shell{tty: true, fake: waits(core.RiskHigh)}).run(args...).want(t, 0).has(t, "err", "approval required: tool_permission")
		want := []api.Decision{{ExpectDigest: hashA, Reason: "no", Presence: core.PresenceTerminal}}
		if diff := cmp.Diff(want, s.decisions()); diff != "" {
			t.Errorf("%v: %s", args, diff)
		}
	}
}

// @latest may be another run by the time it is decided: it decides nothing without
// somebody who sees which, nor where several wait.
func TestSeen_Latest(t *testing.T) {
	t.Parallel()
	for _, verb := range [][]string{{"continue", "@latest", "--approve"}, {"continue", "@latest", "--deny"}, {"approve", "@latest"}, {"deny", "@latest"}} {
		for _, tt := range []struct {
			sh   *shell
			more []string
			says []string
		}{
			{&shell{fake: waits(core.RiskLow)}, nil, []string{"only at a terminal", "the run 7f3a91c2", "next: pml approvals show 52e3f18c"}},
			{&shell{fake: waits(core.RiskLow)}, []string{"--json"}, []string{"only at a terminal"}},
			{&shell{fake: &fake{}}, nil, []string{"next: pml approvals ls"}},
			{&shell{tty: true, stdin: "y\n", fake: asked()}, nil, []string{"waits for 2 approvals", "52e3f18c  low  write a", "41d2e07b  medium"}},
		} {
			s := tt.sh.run(append(verb, tt.more...)...).want(t, 2).has(t, "err", tt.says...)
			if len(s.fake.went) > 0 {
				t.Errorf("%v: %+v", verb, s.fake.went)
			}
		}
	}
	// To go on without a decision is no decision.
	(&shell{fake: waits(core.RiskLow)}).run("continue", "@latest").want(t, 0)
	// One that is named is meant.
	f := asked()
	(&shell{tty: true, stdin: "y\n", fake: f}).run("approve", "@latest", "--approval", "52e3").want(t, 0)
	if len(f.went) != 1 {
		t.Errorf("%+v", f.went)
	}
}

// All of a type are those that were shown: each decision names its approval.
func TestSeen_AllOfType(t *testing.T) {
	t.Parallel()
	second := permission(core.RiskLow)
	second.ID, second.Digest = "63f4a29d-0000-4000-8000-00000000000c", "sha256:77aa"
	for _, tt := range []struct {
		name  string
		tty   bool
		typed string
		risk  core.Risk
		code  int
		says  string
	}{
		{"NoTerminal", false, "", core.RiskLow, 0, "(2 of 2)"},
		{"Yes", true, "y\n", core.RiskLow, 0, "approve these 2? [y]es (enter) / [n]o: "},
		{"No", true, "n\n", core.RiskLow, 8, "nothing was decided"},
		{"OneIsHigh", true, "7f3a\ny\n", core.RiskHigh, 0, "type 7f3a"},
		{"OneIsHighNotTyped", true, "y\ny\n", core.RiskHigh, 8, "nothing was decided"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{pending: []core.Approval{permission(tt.risk), second, dependency()}}
			s := (&shell{tty: tt.tty, stdin: tt.typed, fake: f}).run("approve", "7f3a91", "--all-of-type", "tool_permission").
				want(t, tt.code).has(t, "err", "(1 of 2)", tt.says)
			var want []api.Decision
			if tt.code == 0 {
				one := api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: hashA}
				if tt.tty {
					one.Presence = core.PresenceTerminal
				}
				two := one
				two.Checkpoint, two.ExpectDigest = second.ID, second.Digest
				want = []api.Decision{one, two}
			}
			if diff := cmp.Diff(want, s.decisions()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without an id the inbox comes up, one after the other; what a run asks next as well.
func TestInbox(t *testing.T) {
	t.Parallel()
	yes := func(id core.ID) api.Decision {
		return api.Decision{Approve: true, Checkpoint: id, ExpectDigest: hashA, Presence: core.PresenceTerminal}
	}
	no := func(id core.ID) api.Decision {
		return api.Decision{Checkpoint: id, ExpectDigest: hashA, Presence: core.PresenceTerminal}
	}
	for _, tt := range []struct {
		name, typed string
		args        []string
		code        int
		want        []api.Decision
		says        string
	}{
		{"Both", "y\ny\n", []string{"approve"}, 0, []api.Decision{yes(appB), yes(appA)}, "approved: write "},
		{"OneLater", "l\ny\n", []string{"approve"}, 8, []api.Decision{yes(appA)}, "1 approval left"},
		{"DenyOne", "n\n\ny\n", []string{"approve"}, 0, []api.Decision{no(appB), yes(appA)}, "denied: write "},
		{"Ends", "y\n", []string{"approve"}, 8, []api.Decision{yes(appB)}, "1 approval left"},
		{"Deny", "y\nl\n", []string{"deny"}, 8, []api.Decision{no(appB)}, "deny? [y]es / [a]bort / [l]ater: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := asked()
			f.settles = true
			f.workflow.State = core.RunComplete
			s := (&shell{tty: true, stdin: tt.typed, fake: f}).run(tt.args...).want(t, tt.code).has(t, "err", "(1 of 2)", tt.says)
			if diff := cmp.Diff(tt.want, s.decisions()); diff != "" {
				t.Error(diff)
			}
			if !strings.HasSuffix(tt.name, "s") && !strings.Contains(s.err, "unnamed (7f3a91c2) is complete") {
				t.Error(s.err)
			}
		})
	}
	(&shell{tty: true}).run("approve").want(t, 0).has(t, "err", "nothing waits for a decision")
}

// A run that fails after the decision says why, and that pml retry runs again what failed.
func TestInbox_Failed(t *testing.T) {
	t.Parallel()
	f := asked()
	f.settles = true
	f.workflow.State, f.workflow.Error = core.RunFailed, core.Errorf(core.CodeToolFailed, "the report has no title")
	(&shell{tty: true, stdin: "y\ny\n", fake: f}).run("approve").want(t, 0).
		has(t, "err", "unnamed (7f3a91c2) is failed: the report has no title\n", "next: pml workflows show 7f3a91c2\n", "next: pml retry 7f3a91c2\n")
}

// A refusal is said, and the next one comes up.
func TestInbox_Refused(t *testing.T) {
	t.Parallel()
	f := asked()
	f.settles = true
	f.errs = []error{core.Errorf(core.CodePermissionDenied, "the person at the server decides this")}
	s := (&shell{tty: true, stdin: "y\ny\n", fake: f}).run("approve").want(t, 8).has(t, "err", "the person at the server decides this\n", "approved: dependency filesystem:read_file (41d2e07b)")
	if len(s.decisions()) != 2 {
		t.Errorf("%+v", s.decisions())
	}
}

// Without a terminal and without an id nobody can be asked.
func TestInbox_NoTerminal(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"approve", "deny"} {
		for _, tty := range []bool{false, true} {
			s := (&shell{tty: tty, fake: asked()}).run(verb, "--json").want(t, 2).has(t, "err", "41d2e07b", "52e3f18c  low  write a", `"next":["pml","`+verb+`","52e3f18c"]`)
			if s.decisions() != nil {
				t.Error("decided")
			}
		}
		(&shell{fake: asked()}).run(verb).want(t, 2).has(t, "err", "next: pml "+verb+" 52e3f18c\n")
		(&shell{}).run(verb).want(t, 2).has(t, "err", "nothing waits")
		s := (&shell{tty: true}).run(verb, "--expect-digest", "x").want(t, 2).has(t, "err", "--expect-digest needs the ID")
		if s.opened > 0 {
			t.Error("opened")
		}
	}
}
