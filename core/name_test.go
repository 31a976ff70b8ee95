package core_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
)

// TestOneLine: whatever is given, the answer is one safe line within its bound, and
// stays as it is when it is asked for again.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"tidy up", "tidy up"},
		{"", ""},
		{" \n\t\r\n ", ""},
		{"\n\n  tidy\n", "tidy"},
		{"tidy\nrm -rf /", "tidy…"},
		{"a\tb  c", "a b c"},
		{"a\rb", "a…"},
		{"safe\x1b[2Jx", `safe\x1b[2Jx`},
		{"x\u202ey", `x\u{202e}y`},
		{"bad\xffutf", `bad\xffutf`},
		{"12345678901234567890", "12345678901234567890"},
		{"123456789012345678901", "1234567890123456789…"},
		{"日本語日本語日本語日本語日本語日本語日本語", "日本語日本語日本語日本語日本語日本語日…"},
		{strings.Repeat("x", 1<<20), "xxxxxxxxxxxxxxxxxxx…"},
		{strings.Repeat("\x00", 1<<20), `\x00\x00\x00\x00\x0…`},
	} {
		got := core.OneLine(tt.text, 20)
		if got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.text, got, tt.want)
		}
		if again := core.OneLine(got, 20); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("a\nb", 10)
	f.Add("\u2028\x1b]0;", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = 2 + abs(most)%200
		got := core.OneLine(text, most)
		if n := utf8.RuneCountInString(got); n > most {
			t.Errorf("%q has %d characters, more than %d", got, n, most)
		}
		if core.Visible(got, 0, false) != got {
			t.Errorf("%q is not safe", got)
		}
		if again := core.OneLine(got, most); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

// TestCallName: the tool without its server, and the argument that tells most; never
// one that holds a secret, and nothing that stands for another task's result.
func TestCallName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tool, args, want string }{
		{"fs:write_file", `{"content":"x","path":"src/a.ts"}`, "write_file src/a.ts"},
		{"gh:create_issue", `{"body":"long","title":"Fix\nit"}`, "create_issue Fix…"},
		{"web:get", `{"token":"sk-1","Url":"https://a.example"}`, "get https://a.example"},
		{"x:y", `{"api_key":"sk-1","n":3}`, "y n 3"},
		{"x:slow", `{"ms":2000,"value":7,"deep":{"a":true},"n":1,"m":2}`, "slow ms 2000, value 7, n 1"},
		{"x:y", `{"deep":{"path":"no"},"word":"yes"}`, "y yes"},
		{"x:y", `{"id":7}`, "y 7"},
		{"x:y", `{"path":"$t1.path","other":"it"}`, "y it"},
		{"x:y", `{"path":"/very/long/` + strings.Repeat("folder/", 20) + `end.ts"}`, "y …" + tail("/very/long/"+strings.Repeat("folder/", 20)+"end.ts", 59)},
		{"ws:search", `{"path":".","query":"needle"}`, "search needle"},
		{"ws:search", `{"path":"./","needle":"x"}`, "search x"},
		{"ws:list", `{"path":".","depth":2}`, "list ."},
		{"mem:create_entities", `{"entities":[{"entityType":"person","name":"Ada"},{"name":"Bob"}]}`, "create_entities Ada, Bob"},
		{"x:y", `{"list":["one","two","three","four"]}`, "y one, two, three"},
		{"x:y", `{"options":{"token":"sk-1","deep":{"path":"a.txt"}}}`, "y a.txt"},
		{"x:y", `{"options":{"token":"sk-1"},"secrets":["x"]}`, "y"},
		{"x:y", `{"a":{"b":{"c":{"d":{"e":"far"}}}}}`, "y"},
		{"x:y", ``, "y"},
		{"x:y", `[1]`, "y"},
		{"x:y", `{"broken`, "y"},
		{"plain", `{}`, "plain"},
	} {
		if got := core.CallName(tt.tool, json.RawMessage(tt.args)); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.tool, tt.args, got, tt.want)
		}
	}
	if got := core.CallName("x:"+strings.Repeat("t", 500), json.RawMessage(`{"path":"`+strings.Repeat("p ", 500)+`"}`)); utf8.RuneCountInString(got) > core.NameRunes {
		t.Errorf("%q is too long", got)
	}
}

// TestCallName_Secret: a value is taken out as a whole, also where the name ends in it.
func TestCallName_Secret(t *testing.T) {
	t.Parallel()
	clean := func(s string) string { return strings.ReplaceAll(s, "k3y-of-the-mirror", "***") }
	for _, before := range []int{0, 50, 55, 58, 70} {
		got := core.CleanCallName("x:y", json.RawMessage(`{"note":"`+strings.Repeat("a", before)+`k3y-of-the-mirror"}`), clean)
		if strings.Contains(got, "k3") {
			t.Errorf("%d: %q", before, got)
		}
	}
}

func tail(s string, n int) string { return s[len(s)-n:] }

// TestRunTitle: a name, else the intent; never the kind, never the id, never nothing.
func TestRunTitle(t *testing.T) {
	t.Parallel()
	id := core.ID("0c9407a1-0000-4000-8000-000000000000")
	for _, tt := range []struct {
		run  core.Run
		want string
	}{
		{core.Run{ID: id, Name: "nightly.ts", Intent: "x"}, "nightly.ts"},
		{core.Run{ID: id, Intent: "tidy\nup"}, "tidy…"},
		{core.Run{ID: id, Kind: core.KindCode}, "unnamed"},
	} {
		if got := tt.run.Title(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.run, got, tt.want)
		}
	}
}

// TestActorName: an agent is called one, by the name of its host where it has one,
// and rows of an older pml say the same.
func TestActorName(t *testing.T) {
	t.Parallel()
	claude := core.NewClient(" claude-code\n", "2.1", "Claude Code")
	for _, tt := range []struct {
		by   core.Actor
		want string
	}{
		{core.Actor{Who: "root", Via: core.ViaCLI}, "root"},
		{core.Actor{Who: "root", Via: core.ViaMCP, Client: claude}, "agent claude-code (root)"},
		{core.Actor{Who: "root", Via: core.ViaMCP, OldAgent: "claude-code"}, "agent claude-code (root)"},
		{core.Actor{Who: "root", Via: core.ViaMCP}, "agent (root)"},
		{core.Actor{Who: "agent", Via: core.ViaMCP}, "agent"},
		{core.Actor{Who: "root", Via: core.ViaElicitation, Client: claude}, "root in claude-code"},
	} {
		if got := tt.by.Name(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.by, got, tt.want)
		}
	}
	if got := core.NewClient("", "1", "Only A Title"); got != (core.Client{Name: "Only A Title", Version: "1"}) {
		t.Errorf("%+v", got)
	}
	if got := core.NewClient("", "1", ""); got != (core.Client{}) {
		t.Errorf("%+v", got)
	}
}
