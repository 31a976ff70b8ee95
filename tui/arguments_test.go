package tui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

// loopOf are two calls that one line of a script makes.
func loopOf(h *harness) (out []core.Approval) {
	for i, id := range []core.ID{askA, askB} {
		a := h.approval(5 * time.Minute)
		a.ID, a.Digest, a.Place = id, fmt.Sprintf("sha256:%d", i), core.Position{Line: 4, Column: 14}
		a.Context = json.RawMessage(fmt.Sprintf(`{"arguments":{"issueId":"ENG-%d","team":"ENG"}}`, i))
		a.CreatedAt = a.CreatedAt.Add(time.Duration(i) * time.Second)
		out = append(out, a)
	}
	return out
}

// atBounds is a person who looks at the bounds for a loop.
func atBounds(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t, nil)
	h.learn(func(s *state.State) {
		s.PutRuns(h.run1(core.RunWaiting))
		s.PutApprovals(loopOf(h)...)
		s.Links.Client.State = state.LinkLive
		loaded(s)
	})
	h.typed("2")
	h.typed("b")
	h.tick(time.Second)
	h.shows("Approve the calls of line 4?")
	return h
}

// TestModel_EditBounds: lines that are wrong come back in the editor with what is wrong, and
// change nothing; what is approved has the bounds that were shown.
func TestModel_EditBounds(t *testing.T) {
	t.Parallel()
	h := atBounds(t)
	seen := h.editWith(`case $n in 0) echo 'team is OPS\x1b[2J' >> "$1";; 1) sed 's/^team is .*/team is ENG/; s/^max .*/max 9/; s/^until .*/until 10m/' "$1" > "$1.new" && mv "$1.new" "$1";; esac`)
	h.typed("e")
	texts := seen()
	if len(texts) != 2 {
		t.Fatalf("edited %d times, want 2", len(texts))
	}
	if !strings.HasPrefix(texts[0], "# The bounds for the calls of std:fetch from line 4:14.\n") || !strings.HasSuffix(texts[0], "\n#\nmax 2\nuntil run\nissueId any\nteam is \"ENG\"\n") {
		t.Errorf("the draft:\n%s", texts[0])
	}
	if !strings.HasPrefix(texts[1], "# Not changed:\n#   the call that is asked about is not within the bounds itself: team is another value\n#\n# The bounds") ||
		strings.Count(texts[1], "# The bounds") != 1 || !strings.Contains(texts[1], "\nteam is OPS") {
		t.Errorf("what came back:\n%s", texts[1])
	}
	h.gone()
	h.shows("at most 9 calls of std:fetch from line 4:14")
	h.typed("a") // too early
	h.tick(time.Second)
	h.typed("a")
	if len(h.backend.continued) != 1 {
		t.Fatalf("decided %+v", h.backend.continued)
	}
	d := h.backend.continued[0].Decision
	if d.Checkpoint != askA || d.ExpectDigest != "sha256:0" || !d.Approve || d.Presence != core.PresenceTerminal || d.Answer == nil || d.Answer.Shape == nil ||
		d.Answer.Shape.Max != 9 || !d.Answer.Shape.Until.Equal(began.Add(time.Second+10*time.Minute)) {
		t.Errorf("decided %+v, %+v", d, d.Answer)
	}
	h.shows("approved, up to 9 calls from line 4:14")
}

// TestModel_EditBoundsGivenUp: whoever leaves what is wrong, or an editor that fails, changes
// nothing, and what is refused again and again is kept.
func TestModel_EditBoundsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		edits  int
		want   string
	}{
		"Left":   {`[ $n = 0 ] && printf 'max 0\nuntil x\n' >> "$1" || :`, 2, "the bounds are as they were"},
		"Same":   {`:`, 1, "nothing is changed"},
		"Fails":  {`echo 'max 9' >> "$1"; exit 1`, 1, "the bounds are as they were: the editor failed"},
		"Hidden": {`printf 'max 9\x1b[2J\n' >> "$1"; [ $n = 0 ] || exit 1`, 2, "the bounds are as they were: the editor failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := atBounds(t)
			seen := h.editWith(tt.script)
			h.typed("e")
			texts := seen()
			if len(texts) != tt.edits {
				t.Errorf("edited %d times, want %d", len(texts), tt.edits)
			}
			if last := withoutNotes(texts[len(texts)-1]); !strings.HasPrefix(last, "max 2\n") {
				t.Errorf("what was wrong stands among the lines:\n%s", last)
			}
			h.gone()
			h.shows(tt.want)
			h.shows("at most 2 calls")
		})
	}
	h := atBounds(t)
	seen := h.editWith(`echo "max 000$n" >> "$1"`)
	h.typed("e")
	if n := len(seen()); n != maxRejected {
		t.Fatalf("edited %d times, want %d", n, maxRejected)
	}
	file := h.edits[len(h.edits)-1]
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(file)) })
	h.shows("the bounds are as they were; your text is in " + file)
	if kept, err := os.ReadFile(file); err != nil || !strings.Contains(string(kept), "max 0000\n") {
		t.Errorf("kept: %s %v", kept, err)
	}
}

// TestModel_EditBoundsGone: bounds whose question is over are not changed.
func TestModel_EditBoundsGone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.editWith(":")
	h.want(screen.EditBounds{Approval: loopOf(h)[0], Text: "max 2\n"})
	h.shows("the question is not on screen any more")
	h.gone()
}
