package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// asked is a run that waits for an installation and for a permission.
func asked() *fake {
	return &fake{
		pending:  []core.Approval{dependency(), permission(core.RiskLow)},
		workflow: core.Workflow{Run: core.Run{ID: runA}, Approvals: []core.Approval{dependency(), permission(core.RiskLow)}},
		world: world{rule: api.Rule{
			Approval: appB, List: "allow", Pattern: "fs:write",
			Change: api.Change{File: "/w/.pml.json", Diff: "   \"allow\": [\n+    \"fs:write\"\n   ]\n", Digest: hashA},
		}},
	}
}

const shownRule = "the rule: permissions.allow gets \"fs:write\"\nin /w/.pml.json:\n     \"allow\": [\n  +    \"fs:write\"\n     ]\n"

func TestContinue_Remember(t *testing.T) {
	t.Parallel()
	remembered := func(r core.Remember) *api.Decision {
		return &api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: hashA, Answer: &core.Answer{Remember: r}}
	}
	tests := []struct {
		name  string
		tty   bool
		typed string
		args  []string
		code  int
		want  *api.Decision
		says  string
	}{
		{"Once", false, "", []string{"7f3a91", "--remember", "once"}, 0, &api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: hashA}, ""},
		{"Run", false, "", []string{"7f3a91", "--remember", "run"}, 0, remembered(core.RememberRun), ""},
		{"Session", false, "", []string{"52e3", "--remember", "session"}, 0, remembered(core.RememberSession), ""},
		{"AllOfType", false, "", []string{"7f3a91", "--remember", "run", "--all-of-type", "tool_permission"}, 0,
			remembered(core.RememberRun), ""},
		{"RuleYes", false, "", []string{"7f3a91", "--remember", "rule", "--yes"}, 0, remembered(core.RememberRule), shownRule},
		{"RulePipe", false, "y\n", []string{"7f3a91", "--remember", "rule"}, 8, nil,
			"next: pml continue 7f3a91c2 --approve --approval 52e3f18c --remember rule --yes"},
		{"RuleAsked", true, "y\n", []string{"7f3a91", "--remember", "rule"}, 0, remembered(core.RememberRule), shownRule + "approve, and write this rule?"},
		{"RuleRefused", true, "n\n", []string{"7f3a91", "--remember", "rule"}, 8, nil, "nothing was decided"},
		{"RuleEOF", true, "\n", []string{"7f3a91", "--remember", "rule"}, 8, nil, shownRule},
		{"WrongType", false, "", []string{"41d2", "--remember", "run"}, 2, nil, "is of the type dependency"},
		{"Scripts", false, "", []string{"7f3a91", "--allow-scripts"}, 0,
			&api.Decision{Approve: true, Checkpoint: appA, ExpectDigest: hashA, Answer: &core.Answer{Scripts: true}}, ""},
		{"ScriptsWrongType", false, "", []string{"7f3a91", "--approval", "52e3", "--allow-scripts"}, 2, nil, "this is for dependency"},
		{"DigestIsKept", false, "", []string{"52e3", "--remember", "once", "--expect-digest", "sha256:00"}, 0,
			&api.Decision{Approve: true, Checkpoint: appB, ExpectDigest: "sha256:00"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{tty: tt.tty, stdin: tt.typed, fake: asked()}).run(append([]string{"continue", "--approve"}, tt.args...)...).
				want(t, tt.code).has(t, "err", tt.says)
			var got *api.Decision
			if len(s.fake.went) > 0 {
				got = s.fake.went[0].Decision
				if (got.Presence == core.PresenceTerminal) != tt.tty {
					t.Errorf("presence %q", got.Presence)
				}
				got.Presence = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	// What another run waits for is not decided by the way.
	other := permission(core.RiskLow)
	other.RunID = runB
	mixed := asked()
	mixed.pending = []core.Approval{other}
	(&shell{fake: mixed}).run("continue", "7f3a91", "--approve", "--remember", "run").want(t, 12)
	none := asked()
	none.pending = none.pending[:1]
	(&shell{fake: none}).run("continue", "7f3a91", "--approve", "--remember", "run").want(t, 12).has(t, "err", "waits for no tool_permission")
	s := (&shell{stdin: "y\n", fake: asked()}).run("continue", "7f3a91", "--approve", "--remember", "rule", "--json").want(t, 8)
	if len(s.fake.went) > 0 || !strings.HasPrefix(s.err, `{"deciding":{"checkpoint_id":"52e3`) || strings.Contains(s.err, "\u202e") || !strings.Contains(s.err, "\n"+`{"error":{"code":"awaiting_human"`) {
		t.Errorf("%s", s.err)
	}
}

func TestContinue_ExtrasThatContradict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"--remember", "run"}, "goes with --approve"},
		{[]string{"--deny", "--remember", "run"}, "goes with --approve"},
		{[]string{"--deny", "--allow-scripts"}, "goes with --approve"},
		{[]string{"--approve", "--remember", "run", "--allow-scripts"}, "one by one"},
		{[]string{"--approve", "--allow-scripts", "--all-of-type", "dependency"}, "package by package"},
		{[]string{"--approve", "--remember", "rule", "--all-of-type", "tool_permission"}, "name one approval"},
		{[]string{"--approve", "--remember", "run", "--all-of-type", "dependency"}, "tool_permission only"},
		{[]string{"--approve", "--answer", "run-again", "--remember", "run"}, "in doubt"},
		{[]string{"--approve", "--remember", "always"}, "not one of once, run, session, rule"},
		{[]string{"--more", "3", "--yes"}, "--yes goes with"},
		{[]string{"--yes"}, "--yes goes with"},
		{[]string{"--deny", "--pin"}, "denying needs none"},
		{[]string{"--pin"}, "--pin goes with --approve"},
		{[]string{"--approve", "--pin", "--json"}, "there is none here"},
	}
	for _, tt := range tests {
		s := (&shell{fake: asked()}).run(append([]string{"continue", "7f3a91"}, tt.args...)...).want(t, 2).has(t, "err", tt.says)
		if s.opened != 0 {
			t.Errorf("%v: opened", tt.args)
		}
	}
}

func TestContinue_Pin(t *testing.T) {
	t.Parallel()
	locked := func() *fake {
		f := asked()
		f.world.pin = "493817"
		return f
	}
	tests := []struct {
		name    string
		tty     bool
		secrets []string
		args    []string
		code    int
		pin     string
		prompts int
	}{
		{"Approve", true, []string{"493817"}, []string{"--approve"}, 0, "493817", 1},
		{"ByFlag", true, []string{"493817"}, []string{"--approve", "--pin"}, 0, "493817", 1},
		{"RunAgain", true, []string{"493817"}, []string{"--answer", "run-again"}, 0, "493817", 1},
		{"DenyNeedsNone", true, []string{"493817"}, []string{"--deny"}, 0, "", 0},
		{"NoDecisionNeedsNone", true, []string{"493817"}, nil, 0, "", 0},
		{"Nothing typed", true, []string{""}, []string{"--approve"}, 4, "", 1},
		{"EOF", true, []string{}, []string{"--approve"}, 4, "", 1},
		{"Pipe", false, []string{"493817"}, []string{"--approve"}, 4, "", 0},
		{"NoWayToAsk", true, nil, []string{"--approve"}, 4, "", 0},
		{"JSON", true, []string{"493817"}, []string{"--approve", "--json"}, 0, "493817", 1},
		{"JSONPipe", false, []string{"493817"}, []string{"--approve", "--json"}, 4, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&shell{tty: tt.tty, stdin: "y\n493817\n", secrets: tt.secrets, fake: locked()}).run(append([]string{"continue", "7f3a91"}, tt.args...)...).want(t, tt.code)
			if (len(s.fake.went) > 0) != (tt.code == 0) || len(s.prompts) != tt.prompts {
				t.Fatalf("went %d, prompts %v\n%s", len(s.fake.went), s.prompts, s.err)
			}
			if tt.code == 0 && tt.args != nil && s.fake.went[0].Decision.Pin != tt.pin {
				t.Errorf("%+v", s.fake.went[0].Decision)
			}
			if strings.Contains(s.out+s.err, "493817") {
				t.Error("the PIN was shown")
			}
		})
	}
	// Where none is set the flag asks all the same: what waits may be older.
	s := (&shell{tty: true, stdin: "y\n", secrets: []string{"1"}, fake: asked()}).run("continue", "7f3a91", "--approve", "--pin").want(t, 0)
	if s.fake.went[0].Decision.Pin != "1" {
		t.Errorf("%+v", s.fake.went[0].Decision)
	}
}

func TestPrompt_Choices(t *testing.T) {
	t.Parallel()
	plain := dependency()
	plain.Context = []byte(`{"dependency":{"name":"x","scripts":[]}}`)
	session := permission(core.RiskLow)
	session.RequestedBy = core.Actor{Who: "agent", Via: core.ViaMCP}
	oauth := core.Approval{
		ID: appA, RunID: runA, Type: core.ApproveOAuth, Tool: "web", Digest: hashA, Risk: core.RiskLow,
		Context: []byte(`{"tool":"web","auth_url":"https://id.example.com/a?b=` + strings.Repeat("x", 300) + `"}`),
	}
	yes := func(id core.ID, an *core.Answer) []api.Decision {
		return []api.Decision{{Approve: true, Checkpoint: id, ExpectDigest: hashA, Answer: an}}
	}
	tests := []struct {
		name, typed string
		ask         core.Approval
		code        int
		want        []api.Decision
		says        string
	}{
		{"Once", "y\n", permission(core.RiskLow), 0, yes(appB, nil), "[y]es, once (enter) / for this [r]un / [w]rite a rule / [n]o (deny) / [a]bort / [l]ater: "},
		{"Run", "r\n", permission(core.RiskLow), 0, yes(appB, &core.Answer{Remember: core.RememberRun}), ""},
		{"RunNeedsDigits", "r\n\nl\n", permission(core.RiskHigh), 8, nil, "type 7f3a"},
		{"SessionOfItsOwnIsNone", "s\nl\n", permission(core.RiskLow), 8, nil, ""},
		{"Session", "s\n", session, 0, yes(appB, &core.Answer{Remember: core.RememberSession}), "for this [s]ession"},
		{"Rule", "w\ny\n", permission(core.RiskLow), 0, yes(appB, &core.Answer{Remember: core.RememberRule}), shownRule},
		{"RuleThoughtBetter", "w\nn\ny\n", permission(core.RiskLow), 0, yes(appB, nil), shownRule},
		{"RuleEmptyIsNoYes", "w\n\n\nn\nl\n", permission(core.RiskLow), 8, nil, ""},
		{"RuleNeedsDigits", "w\ny\n7f3a\n", permission(core.RiskHigh), 0, yes(appB, &core.Answer{Remember: core.RememberRule}), "type 7f3a"},
		{"InstallWithoutScripts", "y\n", dependency(), 0, yes(appA, nil), "[y]es, without its scripts (enter) / with its [s]cripts"},
		{"InstallWithScripts", "s\n7f3a\n", dependency(), 0, yes(appA, &core.Answer{Scripts: true}), "type 7f3a"},
		{"ScriptsNeedDigits", "s\nyes\nl\n", dependency(), 8, nil, "not approved"},
		{"NoScripts", "s\ny\n", plain, 0, yes(appA, nil), "approve? [y]es (enter) / [n]o"},
		{"OAuth", "y\n", oauth, 0, yes(appA, nil), "https://id.example.com/a?b=" + strings.Repeat("x", 300) + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := asked()
			f.results = []api.Result{waiting(tt.ask)}
			s := (&shell{tty: true, stdin: tt.typed, fake: f}).run("execute", "--code", "x").want(t, tt.code).has(t, "err", tt.says)
			var got []api.Decision
			for _, c := range s.fake.went {
				if c.Decision.Presence != core.PresenceTerminal {
					t.Error("it was answered on a terminal")
				}
				c.Decision.Presence = ""
				got = append(got, *c.Decision)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPrompt_RuleCannotBeMade(t *testing.T) {
	t.Parallel()
	f := asked()
	f.failWith = core.Errorf(core.CodeInvalidConfig, "/w/.pml.json cannot be read")
	f.results = []api.Result{waiting(permission(core.RiskLow))}
	s := (&shell{tty: true, stdin: "w\ny\n", fake: f}).run("execute", "--code", "x").want(t, 0).has(t, "err", "/w/.pml.json cannot be read\napprove? ")
	if len(s.fake.went) != 1 || s.fake.went[0].Decision.Answer != nil {
		t.Errorf("%+v", s.fake.went)
	}
}

func TestPrompt_Pin(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"y\n": "493817", "n\n": "", "a\n": ""} {
		f := asked()
		f.world.pin = "493817"
		f.results = []api.Result{waiting(permission(core.RiskLow))}
		s := (&shell{tty: true, stdin: typed, secrets: []string{"493817"}, fake: f}).run("execute", "--code", "x").want(t, 0)
		if len(s.fake.went) != 1 || s.fake.went[0].Decision.Pin != want || len(s.prompts) > 0 != (want != "") {
			t.Errorf("%q: %+v", typed, s.fake.went)
		}
	}
	f := asked()
	f.world.pin = "493817"
	f.results = []api.Result{waiting(permission(core.RiskLow))}
	s := (&shell{tty: true, stdin: "y\n", secrets: []string{""}, fake: f}).run("execute", "--code", "x").want(t, 4)
	if len(s.fake.went) > 0 {
		t.Error("approved without the PIN")
	}
}

// A PIN that was mistyped is asked for again, with the question.
func TestPrompt_WrongPin(t *testing.T) {
	t.Parallel()
	f := asked()
	f.world.pin = "493817"
	f.results = []api.Result{waiting(permission(core.RiskLow))}
	f.errs = []error{nil, core.Errorf(core.CodeAuth, "the PIN is wrong")}
	s := (&shell{tty: true, stdin: "y\ny\n", secrets: []string{"493871", "493817"}, fake: f}).run("execute", "--code", "x").want(t, 0).has(t, "err", "the PIN is wrong\napproval required")
	if len(s.fake.went) != 2 || s.fake.went[1].Decision.Pin != "493817" {
		t.Errorf("%+v", s.fake.went)
	}
	f = asked()
	f.world.pin = "493817"
	f.errs = []error{core.Errorf(core.CodeAuth, "the PIN is wrong")}
	s = (&shell{tty: true, stdin: "y\n", secrets: []string{"493871", "493817"}, fake: f}).run("continue", "7f3a91", "--approve").want(t, 4)
	if len(s.fake.went) != 1 {
		t.Errorf("%+v", s.fake.went)
	}
}

// The question about a rule for what is of high risk says that characters follow, at the prompt and
// where the command line has chosen the rule, and they are typed once.
func TestRemember_RuleOfHighRisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		typed string
		args  []string
	}{
		{"y\n7f3a\n", []string{"continue", "7f3a91", "--approve", "--remember", "rule"}},
		{"w\ny\n7f3a\n", []string{"approve", "52e3f18c"}},
	} {
		f := asked()
		for i := range f.pending {
			f.pending[i].Risk = core.RiskHigh
		}
		s := (&shell{tty: true, stdin: tt.typed, fake: f}).run(tt.args...).want(t, 0).
			has(t, "err", "approve, and write this rule? [y]es, then type 7f3a / [n]o: ")
		if n := strings.Count(s.err, "type 7f3a to approve"); n != 1 || len(f.went) != 1 {
			t.Errorf("%v: asked %d times, %+v", tt.args, n, f.went)
		}
	}
}
