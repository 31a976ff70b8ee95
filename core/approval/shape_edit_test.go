package approval_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// TestEditShape: bounds written as lines and read again are the same, each line changes what
// it names, and all that is wrong is said.
func TestEditShape(t *testing.T) {
	t.Parallel()
	loop := []core.Approval{asksOf(`{"id":"1","max":1,"path":"docs/a.md","team":"ENG"}`), asksOf(`{"id":"2","max":1,"path":"docs/a.md","team":"ENG"}`)}
	s := proposed(t, loop...)
	edit := func(text string) (core.Shape, []string) {
		return approval.EditShape(s, loop, strings.Split(text, "\n"), now)
	}
	got, wrong := edit("# bounds\n\n" + strings.Join(approval.ShapeLines(s), "\n"))
	if d := cmp.Diff(s, got); d != "" || wrong != nil {
		t.Errorf("%v %s", wrong, d)
	}
	got, wrong = edit("max 40\nuntil 10m\nteam any\nid is 1\n\"max\" is 1\npath matches docs/*.md")
	want := []string{"at most 40 calls of linear:create_comment from line 12:9, in this run until 2026-11-21 08:10:00 UTC", "risk at most medium",
		`id is "1"`, "max is 1", `path matches "docs/*.md", up to 4,000 characters; its value so far: docs/a.md`, "team: any text, up to 4,000 characters; its value so far: ENG"}
	if d := cmp.Diff(want, approval.ShapeWords(got, loop, time.UTC)); d != "" || wrong != nil {
		t.Errorf("%v %s", wrong, d)
	}
	for text, n := range map[string]int{
		"max 0\nmax x\nuntil yesterday\nuntil -1m": 4, "nothing any": 1, "\"max\" is x": 1, "id matches": 1, "id perhaps": 1, "\"id any": 1,
		"team is OPS": 1, "path matches src/*": 1,
	} {
		if _, wrong := edit(text); len(wrong) != n {
			t.Errorf("%q: %v", text, wrong)
		}
	}
}

// TestShapeLines_Hidden: what nobody would see stands there by its escape, a value in one line,
// and what is read is the same.
func TestShapeLines_Hidden(t *testing.T) {
	t.Parallel()
	loop := []core.Approval{asksOf("{\"a\\nb\":\"x\u202e\U000e0041\x7f\",\"list\":[\n  1,\n  {\"y\": \"é\"}\n]}")}
	s := proposed(t, loop...)
	lines := approval.ShapeLines(s)
	want := []string{"max 2", "until run", `"a\nb" is "x\u202e\udb40\udc41\u007f"`, `list is [1,{"y":"é"}]`}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
	got, wrong := approval.EditShape(s, loop, lines, now)
	x, err := s.Digest()
	y, err2 := got.Digest()
	if wrong != nil || err != nil || err2 != nil || x != y {
		t.Errorf("%v %v %v: %s is not %s", wrong, err, err2, x, y)
	}
}

// TestLoop: a question, and behind it those of its loop that can be decided, the oldest first.
func TestLoop(t *testing.T) {
	t.Parallel()
	var among []core.Approval
	for i := range 7 {
		a := asksOf(fmt.Sprintf(`{"n":%d}`, i))
		a.ID, a.CreatedAt = core.ID(strconv.Itoa(i)), now.Add(time.Duration(-i)*time.Second)
		among = append(among, a)
	}
	over := now.Add(-time.Second)
	among[1].ExpiresAt, among[2].State, among[3].Place.Column = &over, core.ApprovalDenied, 1
	among[6].ExpiresAt, among[6].RenewedBy = &over, "7"
	var got string
	for _, a := range approval.Loop(among[0], among, now) {
		got += string(a.ID)
	}
	if got != "0541" {
		t.Error(got)
	}
	among[0].Once = true
	if got := approval.Loop(among[0], among, now); got != nil {
		t.Error(got)
	}
}

// TestLoopTable: the table says which of the calls that are known the bounds permit.
func TestLoopTable(t *testing.T) {
	t.Parallel()
	loop := []core.Approval{asksOf(`{"n":1,"t":"a"}`), asksOf(`{"n":2,"t":"b"}`), asksOf(`{"n":3,"t":"a"}`), asksOf(`{"n":4,"t":"a"}`)}
	s, wrong := approval.EditShape(proposed(t, loop...), loop, []string{"max 2", "t is a"}, now)
	columns, calls := approval.LoopTable(s, loop)
	var got []string
	for _, c := range calls {
		got = append(got, strings.Join(c.Values, " ")+" "+c.Asks)
	}
	want := []string{`1 "a" `, `2 "b" t is another value`, `3 "a" `, `4 "a" it is one more than the bounds are for`}
	if d := cmp.Diff(want, got) + cmp.Diff([]string{"n", "t"}, columns); d != "" || wrong != nil {
		t.Errorf("%v %s", wrong, d)
	}
}

// TestShapeWords_Seen: a bound that is no value says which values the known calls have, and
// where there are many, which folder all of them are in.
func TestShapeWords_Seen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"Few":     {[]string{`{"p":"docs/a.md"}`, `{"p":"docs/b.md"}`, `{"p":"docs/a.md"}`}, "2 values so far: docs/a.md, docs/b.md"},
		"Many":    {[]string{`{"p":"docs/a/1"}`, `{"p":"docs/b/2"}`, `{"p":"docs/3"}`, `{"p":"docs/a/4"}`, `{"p":"docs/5"}`}, "5 values so far: docs/a/1, docs/b/2, docs/3 and 2 more, all in docs/"},
		"Apart":   {[]string{`{"p":"a/1"}`, `{"p":"b/2"}`, `{"p":"c/3"}`, `{"p":"d/4"}`}, "4 values so far: a/1, b/2, c/3 and 1 more"},
		"Root":    {[]string{`{"p":"/a/1"}`, `{"p":"/b/2"}`, `{"p":"/c/3"}`, `{"p":"/d/4"}`}, "4 values so far: /a/1, /b/2, /c/3 and 1 more"},
		"NoText":  {[]string{`{"p":1}`, `{"p":[2]}`, `{"p":""}`}, `3 values so far: 1, [2], ""`},
		"Foreign": {[]string{`{"p":"\u001b[2J"}`, `{"p":"\n"}`}, `2 values so far: \x1b[2J, "\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var loop []core.Approval
			for _, args := range tt.args {
				loop = append(loop, asksOf(args))
			}
			words := approval.ShapeWords(proposed(t, loop...), loop, time.UTC)[2]
			if _, got, ok := strings.Cut(words, " characters; its "); !ok || got != tt.want {
				t.Errorf("%q, want %q", words, tt.want)
			}
		})
	}
}
