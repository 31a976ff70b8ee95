package cli_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// several is a run that waits for calls of one tool, the last of another risk.
func several(risks ...core.Risk) *fake {
	f := &fake{settles: true}
	for i, risk := range risks {
		p := permission(risk)
		p.ID = core.ID(fmt.Sprintf("52e3f1%02d-0000-4000-8000-00000000000b", i))
		p.RunID, p.State = runA, core.ApprovalOpen
		p.Digest = fmt.Sprintf("sha256:%04d", i)
		p.Context = fmt.Appendf(nil, `{"arguments":{"path":"docs/%d.md","content":"text %d"}}`, i, i)
		f.pending = append(f.pending, p)
	}
	return f
}

// yesTo are the approvals that were decided, in their order: +0 -1.
func (s *shell) yesTo() string {
	var out []string
	for _, d := range s.decisions() {
		sign := "-"
		if d.Approve {
			sign = "+"
		}
		out = append(out, sign+string(d.Checkpoint[6:8]))
	}
	return strings.Join(out, " ")
}

// Where a run waits for several approvals, a person is shown each of them and decides
// each; --all shows all of them and asks once.
func TestSeveral(t *testing.T) {
	t.Parallel()
	low, high := core.RiskLow, core.RiskHigh
	for _, tt := range []struct {
		name  string
		args  string
		risks []core.Risk
		typed string
		code  int
		want  string
		says  []string
	}{
		{"Each", "continue 7f3a91 --approve", []core.Risk{low, low}, "y\nn\n", 0, "+00 -01", []string{"(1 of 2)", "(2 of 2)", "text 1"}},
		{"EachLater", "approve 7f3a91", []core.Risk{low, low}, "l\ny\n", 0, "+01", []string{"(2 of 2)"}},
		{"EachEnds", "approve 7f3a91", []core.Risk{low, low}, "y\n", 0, "+00", []string{"(2 of 2)"}},
		{"EachNone", "approve 7f3a91", []core.Risk{low, low}, "l\nl\n", 8, "", []string{"nothing was decided"}},
		{"EachAbort", "approve 7f3a91", []core.Risk{low, low}, "a\n", 0, "-00", nil},
		{"EachHigh", "approve 7f3a91", []core.Risk{low, high}, "y\ny\n7f3a\n", 0, "+00 +01", []string{"type 7f3a"}},
		{"EachDenied", "deny 7f3a91", []core.Risk{low, low}, "y\ny\n", 0, "-00 -01", []string{"deny? [y]es"}},
		{"EachRun", "approve 7f3a91", []core.Risk{low, low, low}, "n\n\nr\nn\n\n", 0, "-00 +01", []string{"not asked: write docs/2.md (52e3f102) is permitted by your answer above"}},
		{"All", "approve 7f3a91 --all", []core.Risk{low, low, low}, "y\n", 0, "+00 +01 +02", []string{"(3 of 3)", "text 2", "approve these 3?"}},
		{"AllHigh", "approve 7f3a91 --all", []core.Risk{low, high}, "7f3a\ny\n", 0, "+00 +01", []string{"type 7f3a", "text 1"}},
		{"AllNo", "approve 7f3a91 --all", []core.Risk{low, low}, "n\n", 8, "", nil},
		{"AllDenied", "deny 7f3a91 --all", []core.Risk{low, low}, "", 0, "-00 -01", []string{"text 1"}},
		{"AllOfOne", "approve 7f3a91 --all", []core.Risk{low}, "y\n", 0, "+00", []string{"text 0"}},
		{"AllOfApproval", "approve 52e3 --all", []core.Risk{low}, "", 2, "", []string{"name the run"}},
		{"AllAndOne", "approve 7f3a91 --all --approval 52e3", []core.Risk{low}, "", 2, "", []string{"as they are"}},
		{"AllLatest", "approve @latest --all", []core.Risk{low, low}, "", 2, "", []string{"waits for 2 approvals"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := several(tt.risks...)
			s := (&shell{tty: true, stdin: tt.typed, fake: f}).run(strings.Fields(tt.args)...).want(t, tt.code).has(t, "err", tt.says...)
			if got := s.yesTo(); got != tt.want {
				t.Errorf("decided %q, want %q\n%s", got, tt.want, s.err)
			}
			for _, d := range s.decisions() {
				if d.Presence != core.PresenceTerminal || d.ExpectDigest != "sha256:00"+string(d.Checkpoint[6:8]) {
					t.Errorf("not bound to what was seen: %+v", d)
				}
			}
		})
	}
}

// Without a terminal --all shows every card and decides all of them; what is decided one
// by one it leaves alone.
func TestSeveral_NoTerminal(t *testing.T) {
	t.Parallel()
	f := several(core.RiskLow, core.RiskHigh, core.RiskHigh)
	f.pending[1].Type = core.ApproveIntegrity
	s := (&shell{fake: f}).run("approve", "7f3a91", "--all").has(t, "err", "text 0", "text 2")
	if s.yesTo() != "+00 +02" || strings.Contains(s.err, "integrity") {
		t.Errorf("decided %q\n%s", s.yesTo(), s.err)
	}
	f = several(core.RiskHigh)
	f.pending[0].Type = core.ApproveIntegrity
	s = (&shell{fake: f}).run("approve", "7f3a91", "--all").want(t, 12).has(t, "err", "one by one", "next: pml approve 52e3f100")
	if s.decisions() != nil {
		t.Error("it was decided")
	}
}

// What cannot be decided any more does not keep the others, and the command says what was
// and what was not; what is about all of them ends it.
func TestSeveral_Error(t *testing.T) {
	t.Parallel()
	faster := core.Errorf(core.CodeAlreadyDecided, "bea was faster")
	for _, tt := range []struct {
		name, args string
		errs       []error
		code, went int
		says       []string
	}{
		{"First", "approve 7f3a91 --all --yes", []error{faster}, 12, 3, []string{"not decided: 52e3f100: bea", "2 of 3 approvals were decided: bea"}},
		{"Last", "approve 7f3a91 --all --yes", []error{nil, nil, faster}, 12, 4, []string{"not decided: 52e3f102: bea", "2 of 3"}},
		{"All", "approve 7f3a91 --all --yes", []error{faster, faster, faster}, 12, 3, []string{"0 of 3"}},
		{"Store", "approve 7f3a91 --all --yes", []error{nil, core.Errorf(core.CodeStoreBusy, "the disk is full")}, 1, 2, []string{"1 of 3", "the disk"}},
		{"DeniedAbort", "deny 7f3a91 --all --abort", nil, 0, 3, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := several(core.RiskLow, core.RiskLow, core.RiskLow)
			f.errs = tt.errs
			s := (&shell{tty: true, fake: f}).run(strings.Fields(tt.args)...).want(t, tt.code).has(t, "err", tt.says...)
			if len(f.went) != tt.went {
				t.Errorf("%d requests, want %d\n%s", len(f.went), tt.went, s.err)
			}
			for i, d := range s.decisions() { // the run is there until the last decision
				if d.Abort != (tt.name == "DeniedAbort" && i == 2) {
					t.Errorf("decision %d: abort %v", i, d.Abort)
				}
			}
		})
	}
}

// typedLines is a terminal on which somebody types the next line when what was typed
// before is forgotten, and not before.
type typedLines struct {
	ahead string // typed before the first question is there
	lines []string
}

func (l *typedLines) Read(b []byte) (int, error) {
	if l.ahead != "" {
		n := copy(b, l.ahead)
		l.ahead = l.ahead[n:]
		return n, nil
	}
	if len(l.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(b, l.lines[0]+"\n")
	l.lines = l.lines[1:]
	return n, nil
}

// What was typed before a question was there is no answer to it.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"approve", "approve 7f3a91", "approve 7f3a91 --all", "trust"} {
		f := several(core.RiskLow, core.RiskLow)
		f.trust = api.TrustState{Workspace: "/w", Digest: hashA, Content: "{}"}
		in := &typedLines{ahead: "y\n", lines: []string{"l", "l", "n"}}
		s := (&shell{tty: true, fake: f, input: in, dropTyped: func() { in.ahead = "" }}).run(strings.Fields(args)...)
		if got := s.yesTo(); got != "" || f.trusted != "" {
			t.Errorf("%s: decided %q, trusted %q\n%s", args, got, f.trusted, s.err)
		}
	}
}

// The inbox asks once about what is alike, after it has shown all of it.
func TestInbox_Alike(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, verb, typed, want string
		code                    int
		says                    []string
	}{
		{"All", "approve", "y\ny\n", "+00 +01 +02", 0, []string{"2 approvals are alike: write docs/*.md", "text 1", "approve these 2? [y]es, all"}},
		{"OneByOne", "approve", "o\ny\nn\n\ny\n", "+00 -01 +02", 0, []string{"(1 of 3)"}},
		{"No", "approve", "n\n\nl\n", "-00 -01", 8, nil},
		{"Later", "approve", "l\ny\n", "+02", 8, nil},
		{"Denied", "deny", "y\ny\n", "-00 -01 -02", 0, []string{"deny these 2? [y]es, all / [o]ne by one / [l]ater"}},
		{"Ends", "approve", "what\n", "", 8, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := several(core.RiskLow, core.RiskLow, core.RiskMedium)
			s := (&shell{tty: true, stdin: tt.typed, fake: f}).run(tt.verb).want(t, tt.code).has(t, "err", tt.says...)
			if got := s.yesTo(); got != tt.want {
				t.Errorf("decided %q, want %q\n%s", got, tt.want, s.err)
			}
		})
	}
	// What is of high risk takes its four characters; who mistypes them is asked again.
	s := (&shell{tty: true, stdin: "y\nno\ny\n7f3a\n", fake: several(core.RiskHigh, core.RiskHigh)}).run("approve").want(t, 0)
	if s.yesTo() != "+00 +01" || strings.Count(s.err, "[y]es, all, then type 7f3a / ") != 2 {
		t.Errorf("decided %q\n%s", s.yesTo(), s.err)
	}
}

// --yes of deny means what it means of approve: what is decided is shown, and nobody is asked.
func TestDeny_Yes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"deny", "7f3a91", "--yes"}, {"deny", "52e3", "--yes"}, {"continue", "7f3a91", "--deny", "--yes"}} {
		s := (&shell{fake: asked(), tty: true}).run(args...).want(t, 0)
		s.lacks(t, "[y]es")
		if len(s.fake.went) != 1 || s.fake.went[0].Decision.Approve || s.fake.went[0].Decision.ExpectDigest != hashA || !strings.Contains(s.err, "1 of ") && args[1] != "52e3" {
			t.Errorf("%v: %+v %s", args, s.fake.went, s.err)
		}
	}
	(&shell{fake: asked(), tty: true}).run("deny", "--yes").want(t, 2).has(t, "err", "--yes needs the ID")
}
