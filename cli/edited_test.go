package cli_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestEdited_ArgumentsFile: what is sent instead is shown again with what has changed,
// and the decision is bound to what was shown last.
func TestEdited_ArgumentsFile(t *testing.T) {
	t.Parallel()
	f := waits(core.RiskLow)
	f.pending[0].Context = json.RawMessage(`{"arguments":{"to":"ann","text":"a\nb\n"}}`)
	s := (&shell{stdin: `{"to":"bob","text":"a\nb\n"}`, fake: f}).run("approve", "52e3", "--arguments", "-").want(t, 0).
		has(t, "err", "changed:", "-to    ann", "+to    bob", "    to    bob\n", "digest       edited")
	want := []api.Decision{{Approve: true, Checkpoint: appB, ExpectDigest: "edited", Answer: &core.Answer{Arguments: json.RawMessage(`{"to":"bob","text":"a\nb\n"}`)}}}
	if diff := cmp.Diff(want, s.decisions()); diff != "" {
		t.Error(diff)
	}
}

// TestEdited_Editor: $EDITOR gets the arguments; what is left in it is asked about.
func TestEdited_Editor(t *testing.T) {
	t.Parallel()
	f := waits(core.RiskLow)
	f.pending[0].Context = json.RawMessage(`{"arguments":{"to":"ann"}}`)
	seen := ""
	sh := &shell{tty: true, stdin: "y\n", fake: f, edit: func(_ context.Context, _, text string) (string, error) {
		seen = text
		return `{"to":"bob"}`, nil
	}}
	s := sh.run("approve", "52e3", "--edit").want(t, 0).has(t, "err", "+to  bob", "[y]es, send these")
	if d := s.decisions(); len(d) != 1 || d[0].ExpectDigest != "edited" || d[0].Presence != core.PresenceTerminal || string(d[0].Answer.Arguments) != `{"to":"bob"}` {
		t.Errorf("%+v", d)
	}
	if want := "{\n  \"to\": \"ann\"\n}\n"; seen != want {
		t.Errorf("the editor got %q", seen)
	}
	(&shell{tty: true, stdin: "l\n", fake: f, edit: sh.edit}).run("approve", "52e3", "--edit").want(t, 8)
	(&shell{tty: true, fake: f, edit: func(context.Context, string, string) (string, error) { return "{", nil }}).run("approve", "52e3", "--edit").want(t, 2).has(t, "err", "not JSON")
}

func TestEdited_Usage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"approve", "52e3", "--edit"}, {"continue", "52e3", "--arguments", "-"}, {"continue", "52e3", "--deny", "--arguments", "-"},
		{"approve", "52e3", "--arguments", "-", "--remember", "run"}, {"approve", "52e3", "--arguments", "-", "--all-of-type", "tool_permission"},
		{"approve", "52e3", "--arguments", "-", "--edit"}, {"approve", "--arguments", "-"},
	} {
		s := (&shell{stdin: "{}", fake: waits(core.RiskLow)}).run(args...).want(t, 2)
		if s.decisions() != nil {
			t.Errorf("%v: decided", args)
		}
	}
}
