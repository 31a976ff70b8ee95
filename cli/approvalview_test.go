package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
)

func block(t *testing.T, typ core.ApprovalType, context any) string {
	t.Helper()
	raw, err := json.Marshal(context)
	if err != nil {
		t.Fatal(err)
	}
	left := at.Add(time.Minute)
	p := core.Approval{
		ID: appA, RunID: runA, Type: typ, Tool: "web", Risk: core.RiskHigh, Context: raw, Digest: hashA,
		State: core.ApprovalOpen, ExpiresAt: &left, CreatedAt: at,
	}
	return (&shell{fake: &fake{pending: []core.Approval{p}}}).run("approvals", "show", "41d2").want(t, 0).out
}

func TestBlock_Golden(t *testing.T) {
	t.Parallel()
	head := func(typ string) string {
		return "approval required: " + typ + "\n  approval     " + string(appA) + "\n  run          " + string(runA) +
			"\n  tool         web\n  risk         high\n  expires      in 1m00s (approvals.ttl)\n"
	}
	foot := "  digest       " + hashA + "\n"
	long := "https://id.example.com/authorize?x=" + strings.Repeat("y", 500)
	const no = "  no           its tools are not called, and pml asks again at the next run\n"
	tests := []struct {
		name    string
		typ     core.ApprovalType
		context any
		want    string
	}{
		{"OAuth", core.ApproveOAuth, map[string]any{"tool": "web", "auth_url": long, "scopes": []string{"read", "write"}},
			"  auth url     " + long + "\n  scopes       read, write\n" +
				"  to do        sign in at this address while the process that asked is alive, or with: pml servers connect web; then approve\n"},
		{"Integrity", core.ApproveIntegrity, map[string]any{
			"changed":  []string{"- readOnlyHint: true", "+ readOnlyHint: \x1b[8mfalse\u202e", "  two\nlines\rhere"},
			"old_hash": "sha256:" + strings.Repeat("a", 64), "new_hash": "sha256:" + strings.Repeat("b", 64),
		},
			no + "  changed:\n    - readOnlyHint: true\n    + readOnlyHint: \\x1b[8mfalse\\u{202e}\n      two\\nlines\\rhere\n" +
				"  new hash     sha256:" + strings.Repeat("b", 64) + "\n  old hash     sha256:" + strings.Repeat("a", 64) + "\n"},
		{"NothingChanged", core.ApproveIntegrity, map[string]any{"changed": []string{}}, no + "  changed      none\n"},
		{"Dependency", core.ApproveDependency, map[string]any{"dependency": map[string]any{
			"name": "x", "scripts": []string{"a: node x.js", "b: sh\x07"}, "size_bytes": 0,
		}},
			"  dependency:\n    name       x\n    scripts:\n      a: node x.js\n      b: sh\\x07\n    size       not known\n"},
		{"DependencySize", core.ApproveDependency, map[string]any{"dependency": map[string]any{"scripts": []string{}, "size_bytes": 4096}},
			"  dependency:\n    scripts    none\n    size       4096 (4.0 KiB)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(head(string(tt.typ))+tt.want+foot, block(t, tt.typ, tt.context)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// However much a server says has changed, a person sees the end of the
// question, and that something is left out.
func TestBlock_Bounded(t *testing.T) {
	t.Parallel()
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = "+ " + strings.Repeat("z", 10_000)
	}
	text := block(t, core.ApproveIntegrity, map[string]any{"changed": lines})
	if n := strings.Count(text, "\n"); n > 420 || len(text) > 420*2100 {
		t.Errorf("%d lines, %d bytes", n, len(text))
	}
	for _, want := range []string{"600 lines more", "more bytes)", hashA} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	// For a program nothing is left out.
	raw, _ := json.Marshal(map[string]any{"changed": lines})
	f := &fake{pending: []core.Approval{{ID: appA, RunID: runA, Type: core.ApproveIntegrity, Context: raw}}}
	s := (&shell{fake: f}).run("approvals", "show", "41d2", "--json").want(t, 0)
	if strings.Count(s.out, "zzzz") == 0 || strings.Count(s.out, `"+ z`) != 1000 {
		t.Errorf("%d lines", strings.Count(s.out, `"+ z`))
	}
}

func TestPending_OAuthSaysHowToConnect(t *testing.T) {
	t.Parallel()
	p := core.Approval{ID: appA, RunID: runA, Type: core.ApproveOAuth, Tool: "web:search", Context: []byte(`{"auth_url":"https://x"}`), Digest: hashA, State: core.ApprovalOpen}
	f := &fake{}
	f.results = append(f.results, waiting(p))
	(&shell{fake: f}).run("execute", "--code", "x").want(t, 8).
		has(t, "err", "next: pml servers connect web\nnext: pml continue 7f3a91c2 --approve\n")
}

// A package without scripts has none to allow.
func TestPending_ScriptsSayHowToAllowThem(t *testing.T) {
	t.Parallel()
	const yes, scripts, no = "next: pml continue 7f3a91c2 --approve\n", "next: pml continue 7f3a91c2 --approve --allow-scripts\n", "next: pml continue 7f3a91c2 --deny\n"
	for context, want := range map[string]string{
		`{"dependency":{"name":"x","scripts":["postinstall: node x.js"]}}`: yes + scripts + no,
		`{"dependency":{"name":"x","scripts":[]}}`:                         yes + no,
	} {
		p := core.Approval{ID: appA, RunID: runA, Type: core.ApproveDependency, Tool: "web", Context: []byte(context), Digest: hashA, State: core.ApprovalOpen}
		f := &fake{}
		f.results = append(f.results, waiting(p))
		(&shell{fake: f}).run("execute", "--code", "x").want(t, 8).has(t, "err", want)
	}
}

// Every row of a card fits 80 columns. A digest stands whole on a row of its own, and
// what is folded of a call says so, so that foreign text begins no line of pml's.
func TestApproval_Fits(t *testing.T) {
	t.Parallel()
	p := permission(core.RiskLow)
	long := strings.Repeat("seven words of a text that goes on ", 6) + "digest       sha256:00"
	p.Context = []byte(`{"arguments":{"body":"` + long + `","sql":"select 1\n` + long + `"},"changed":["npm/left-pad ` + long + `"],"leaves_workspace":false}`)
	s := (&shell{tty: true, width: 80, stdin: "l\n", fake: &fake{pending: []core.Approval{p}}}).run("approve", "52e3")
	for line := range strings.Lines(s.err) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	s.has(t, "err", "\n  digest\n    "+hashA+"\n", " \\\n")
	if strings.Count(s.err, "\n  digest") != 1 || strings.Contains(s.err, "leaves workspace") {
		t.Error(s.err)
	}
}

// TestApproval_Edited: an approval whose arguments were changed before the yes shows what was
// sent, and the run as well.
func TestApproval_Edited(t *testing.T) {
	t.Parallel()
	p := core.Approval{
		ID: appA, RunID: runA, Type: core.ApproveTool, Tool: "web:post", Context: json.RawMessage(`{"arguments":{"to":"ann"}}`), Digest: hashA,
		State: core.ApprovalApproved, CreatedAt: at, Answer: &core.Answer{Arguments: json.RawMessage(`{"to":"bob"}`)},
		DecidedBy: &core.DecidedBy{Actor: core.Actor{Who: "ann", Via: core.ViaTUI}, At: at},
	}
	(&shell{fake: &fake{pending: []core.Approval{p}}}).run("approvals", "show", "41d2").want(t, 0).
		has(t, "out", "to  ann", "edited       before the yes; what was sent instead of these arguments:\n    to  bob\n", "ann via tui")
}
