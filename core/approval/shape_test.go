package approval_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// asksOf is the question about a call of a loop.
func asksOf(args string, change ...func(*core.Approval)) core.Approval {
	return question(append([]func(*core.Approval){func(a *core.Approval) {
		a.Tool, a.Risk, a.Place, a.CallIDs = "linear:create_comment", core.RiskMedium, core.Position{Line: 12, Column: 9}, []string{"c1"}
		a.Context = json.RawMessage(fmt.Sprintf(`{"arguments":%s,"leaves_workspace":false}`, args))
	}}, change...)...)
}

func proposed(t *testing.T, loop ...core.Approval) core.Shape {
	t.Helper()
	s, ok := approval.Propose(approval.OfLoop(loop))
	if !ok {
		t.Fatalf("nothing is proposed for %+v", loop)
	}
	return s
}

func TestPropose(t *testing.T) {
	t.Parallel()
	computed := func(names ...string) func(*core.Approval) {
		return func(a *core.Approval) { a.Computed = names }
	}
	for name, tt := range map[string]struct {
		loop []core.Approval
		want string
	}{
		"Differs":  {[]core.Approval{asksOf(`{"id":"1","team":"ENG"}`), asksOf(`{"team":"ENG","id":"2"}`)}, "2|id: any text, up to 4,000 characters|team is \"ENG\""},
		"One":      {[]core.Approval{asksOf(`{"id":"1","team":"ENG"}`)}, "2|id is \"1\"|team is \"ENG\""},
		"Computed": {[]core.Approval{asksOf(`{"id":"1","team":"ENG"}`, computed("id", "other"))}, "2|id: any text, up to 4,000 characters|team is \"ENG\""},
		"Same":     {[]core.Approval{asksOf(`{"id":"1"}`, computed("id")), asksOf(`{"id":"1"}`, computed("id"))}, "2|id is \"1\""},
		"Lacks":    {[]core.Approval{asksOf(`{"id":1}`), asksOf(`{"id":"x","n":{"a":[1]}}`), asksOf(`{"id":2,"n":{"a":[1.0]}}`)}, "3|id: any number or any text, up to 4,000 characters|n is {\"a\":[1]}, or left out"},
		"Long":     {[]core.Approval{asksOf(`{"b":"` + strings.Repeat("é", 3000) + `"}`), asksOf(`{"b":""}`)}, "2|b: any text, up to 6,000 characters"},
		"None":     {[]core.Approval{asksOf(`{}`), asksOf(`{}`)}, "2|no arguments"},
		"Place":    {[]core.Approval{asksOf(`{"n":1}`), asksOf(`{"n":2}`, func(a *core.Approval) { a.Place.Column = 10 }), asksOf(`{"n":3}`)}, "2|n: any number, up to 4,000 characters"},
		"Risk":     {[]core.Approval{asksOf(`{"n":1}`), asksOf(`{"n":2}`, func(a *core.Approval) { a.Risk = core.RiskLow })}, "2|n is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := proposed(t, tt.loop...)
			got := append([]string{strconv.Itoa(s.Max)}, approval.ShapeWords(s, nil, time.UTC)[2:]...)
			if d := cmp.Diff(tt.want, strings.Join(got, "|")); d != "" {
				t.Error(d)
			}
			for _, a := range approval.OfLoop(tt.loop) {
				if why := approval.Outside(s, a, nil); why != "" {
					t.Errorf("a known call is not within what is proposed: %s", why)
				}
			}
		})
	}
	for name, a := range map[string]core.Approval{
		"NoPlace":  asksOf(`{}`, func(a *core.Approval) { a.Place = core.Position{} }),
		"Once":     asksOf(`{}`, func(a *core.Approval) { a.Once = true }),
		"Type":     asksOf(`{}`, func(a *core.Approval) { a.Type = core.ApproveHook }),
		"NoObject": asksOf(`[1]`),
		"Twice":    asksOf(`{"a":1,"a":2}`),
	} {
		if s, ok := approval.Propose(approval.OfLoop([]core.Approval{a})); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestOutside: each bound refuses by itself.
func TestOutside(t *testing.T) {
	t.Parallel()
	s := proposed(t, asksOf(`{"id":"1","n":7,"path":"docs/a.md","team":"ENG"}`), asksOf(`{"id":"2","n":7,"path":"docs/a.md"}`))
	s.Fields[2] = core.Bound{Name: "path", Matches: "docs/*.md", Size: 20}
	for args, want := range map[string]string{
		`{"id":"3","n":7.0,"path":"docs/x/y.md"}`:                        "",
		`{"id":"3","n":7,"path":"docs/a.md","team":"ENG"}`:               "",
		`{"id":"3","n":7,"path":"docs/a.md","team":"OPS"}`:               "team is another value",
		`{"id":3,"n":7,"path":"docs/a.md"}`:                              "id is of another type",
		`{"id":"3","n":"7","path":"docs/a.md"}`:                          "n is another value",
		`{"id":"3","path":"docs/a.md"}`:                                  "it lacks n",
		`{"id":"3","n":7,"path":"docs/a.md","x":1}`:                      "it has x besides",
		`{"id":"3","n":7,"path":"docs/../a.md"}`:                         "path does not match",
		`{"id":"3","n":7,"path":"docs/%2E%2e%2fa.md"}`:                   "path does not match",
		`{"id":"3","n":7,"path":"docs/aaaaaaaaaaaaaa.md"}`:               "path is longer",
		`{"id":"3","n":7,"path":"docs/a.md","path":"docs/b.md"}`:         "its arguments are no plain object",
		`{"id":"` + strings.Repeat("x", 4001) + `","n":7,"path":"d.md"}`: "id is longer",
		`[]`: "its arguments are no plain object",
	} {
		if got := approval.Outside(s, asksOf(args), nil); got != want {
			t.Errorf("%.80s: %q, want %q", args, got, want)
		}
	}
	in := `{"id":"3","n":7,"path":"docs/a.md"}`
	for want, change := range map[string]func(*core.Approval){
		"it asks for something else than a tool":    func(a *core.Approval) { a.Type = core.ApproveHook },
		"this call is asked about each time":        func(a *core.Approval) { a.Once = true },
		"it is of another tool":                     func(a *core.Approval) { a.Tool = "linear:delete" },
		"it is made at another place of the script": func(a *core.Approval) { a.Place.Column++ },
		"its risk is higher":                        func(a *core.Approval) { a.Risk = core.RiskHigh },
		"it leaves the workspace": func(a *core.Approval) {
			a.Context = json.RawMessage(`{"leaves_workspace":true,"arguments":` + in + `}`)
		},
		"its question cannot be read": func(a *core.Approval) { a.Context = nil },
	} {
		if got := approval.Outside(s, asksOf(in, change), nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := approval.Outside(s, asksOf(in, func(a *core.Approval) { a.Risk = core.RiskLow }), nil); got != "" {
		t.Errorf("of a lower risk: %s", got)
	}
}

// TestOutside_Keys: a value of a key stands in a question by its name. What is given is
// compared with that, what is free or a pattern holds of what is sent as well.
func TestOutside_Keys(t *testing.T) {
	t.Parallel()
	s := proposed(t, asksOf(`{"a":"1","k":"«TOKEN»"}`), asksOf(`{"a":"2","k":"«TOKEN»"}`))
	s.Fields[0] = core.Bound{Name: "a", Matches: "*", Size: 20}
	shown := asksOf(`{"a":"«TOKEN»","k":"«TOKEN»"}`)
	if why := approval.Outside(s, shown, json.RawMessage(`{"a":"secret","k":"secret"}`)); why != "" {
		t.Error(why)
	}
	if why := approval.Outside(s, shown, json.RawMessage(`{"a":"a/../secret","k":"secret"}`)); why != "a does not match" {
		t.Errorf("%q: what is sent was not looked at", why)
	}
	if why := approval.Outside(s, asksOf(`{"a":"1","k":"«OTHER»"}`), json.RawMessage(`{"a":"1","k":"secret"}`)); why != "k is another value" {
		t.Errorf("%q: another key", why)
	}
}

func TestDecide_Shape(t *testing.T) {
	t.Parallel()
	a := asksOf(`{"id":"1","team":"ENG"}`, func(a *core.Approval) { a.Computed = []string{"id"} })
	good := proposed(t, a)
	digest, err := good.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		a      func(*core.Approval)
		shape  func(*core.Shape)
		answer func(*core.Answer)
		d      func(*core.Decision)
		want   core.Code
	}{
		"Good":         {},
		"HTTP":         {d: func(d *core.Decision) { d.By.Via = core.ViaHTTP }},
		"Agent":        {d: func(d *core.Decision) { d.By.Via = core.ViaMCP }, want: core.CodePermissionDenied},
		"HostsDialog":  {d: func(d *core.Decision) { d.By.Via = core.ViaElicitation }, want: core.CodePermissionDenied},
		"Rule":         {d: func(d *core.Decision) { d.By.Via = core.ViaRule }, want: core.CodePermissionDenied},
		"NoWay":        {d: func(d *core.Decision) { d.By.Via = "" }, want: core.CodePermissionDenied},
		"No":           {d: func(d *core.Decision) { d.Approved = false }, want: core.CodeInvalidArguments},
		"OtherType":    {a: func(a *core.Approval) { a.Type = core.ApproveHook }, want: core.CodeInvalidArguments},
		"Once":         {a: func(a *core.Approval) { a.Once = true }, want: core.CodeInvalidArguments},
		"NoPlace":      {a: func(a *core.Approval) { a.Place = core.Position{} }, want: core.CodeInvalidArguments},
		"Remember":     {answer: func(a *core.Answer) { a.Remember = core.RememberRun }, want: core.CodeInvalidArguments},
		"Edited":       {answer: func(a *core.Answer) { a.Arguments, a.Digest = json.RawMessage(`{}`), "sha256:x" }, want: core.CodeInvalidArguments},
		"Scripts":      {answer: func(a *core.Answer) { a.Scripts = true }, want: core.CodeInvalidArguments},
		"OtherTool":    {shape: func(s *core.Shape) { s.Tool = "linear:delete" }, want: core.CodeInvalidArguments},
		"OtherPlace":   {shape: func(s *core.Shape) { s.Place.Line++ }, want: core.CodeInvalidArguments},
		"HigherRisk":   {shape: func(s *core.Shape) { s.Risk = core.RiskHigh }, want: core.CodeInvalidArguments},
		"LowerRisk":    {shape: func(s *core.Shape) { s.Risk = core.RiskLow }, want: core.CodeInvalidArguments},
		"Leaves":       {shape: func(s *core.Shape) { s.Leaves = true }, want: core.CodeInvalidArguments},
		"None":         {shape: func(s *core.Shape) { s.Max = 0 }, want: core.CodeInvalidArguments},
		"TooMany":      {shape: func(s *core.Shape) { s.Max = 1001 }, want: core.CodeInvalidArguments},
		"Over":         {shape: func(s *core.Shape) { s.Until = at(0) }, want: core.CodeInvalidArguments},
		"Later":        {shape: func(s *core.Shape) { s.Until = at(time.Second) }},
		"NotItself":    {shape: func(s *core.Shape) { s.Fields[1].Is = json.RawMessage(`"OPS"`) }, want: core.CodeInvalidArguments},
		"LacksBound":   {shape: func(s *core.Shape) { s.Fields = s.Fields[:1] }, want: core.CodeInvalidArguments},
		"TwoKinds":     {shape: func(s *core.Shape) { s.Fields[0].Matches = "*" }, want: core.CodeInvalidArguments},
		"NoKind":       {shape: func(s *core.Shape) { s.Fields[0].Types = nil }, want: core.CodeInvalidArguments},
		"NoSize":       {shape: func(s *core.Shape) { s.Fields[0].Size = 0 }, want: core.CodeInvalidArguments},
		"NoType":       {shape: func(s *core.Shape) { s.Fields[0].Types = []string{"any"} }, want: core.CodeInvalidArguments},
		"Unordered":    {shape: func(s *core.Shape) { s.Fields[0], s.Fields[1] = s.Fields[1], s.Fields[0] }, want: core.CodeInvalidArguments},
		"BrokenValue":  {shape: func(s *core.Shape) { s.Fields[1].Is = json.RawMessage(`{"a":1,"a":2}`) }, want: core.CodeInvalidArguments},
		"LongPattern":  {shape: func(s *core.Shape) { s.Fields[0] = core.Bound{Name: "id", Matches: strings.Repeat("*", 201), Size: 9} }, want: core.CodeInvalidArguments},
		"TooManyBytes": {shape: func(s *core.Shape) { s.Fields[1].Is = json.RawMessage(`"` + strings.Repeat("x", 70000) + `"`) }, want: core.CodeInvalidArguments},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, s := a, good
			s.Fields = append([]core.Bound{}, good.Fields...)
			an := core.Answer{Shape: &s}
			d := core.Decision{Approved: true, By: ann, Answer: &an}
			if tt.a != nil {
				tt.a(&a)
			}
			if tt.shape != nil {
				tt.shape(&s)
			}
			if tt.answer != nil {
				tt.answer(&an)
			}
			if tt.d != nil {
				tt.d(&d)
			}
			got, err := approval.Decide(a, d, now)
			if core.CodeOf(err) != tt.want {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if err != nil {
				return
			}
			if s.Until == nil && (got.Row.Shape != digest || got.Row.CallID != "c1") {
				t.Errorf("the row names %q of %q", got.Row.Shape, got.Row.CallID)
			}
			if _, err := approval.Decide(got.Approval, d, now); err != nil {
				t.Errorf("the same again: %v", err)
			}
			wider := s
			wider.Max = 900
			d.Answer = &core.Answer{Shape: &wider}
			if _, err := approval.Decide(got.Approval, d, now); core.CodeOf(err) != core.CodeAlreadyDecided {
				t.Errorf("other bounds afterwards: %v", err)
			}
		})
	}
}

// said is what a line of ShapeWords says an argument may be, read as a person reads it: by
// nothing but its words.
func said(t *testing.T, words string) func(v any, has bool) bool {
	t.Helper()
	words, optional := strings.CutSuffix(words, ", or left out")
	if is, ok := strings.CutPrefix(words, "is "); ok {
		var want any
		if err := json.Unmarshal([]byte(is), &want); err != nil {
			t.Fatalf("%q: %v", is, err)
		}
		return func(v any, has bool) bool { return !has && optional || has && reflect.DeepEqual(v, want) }
	}
	i := strings.LastIndex(words, ", up to ")
	size, err := strconv.Atoi(strings.NewReplacer(",", "", " characters", "").Replace(words[i+len(", up to "):]))
	if err != nil {
		t.Fatal(err)
	}
	what := words[:i]
	fits := func(v any) bool {
		text, ok := v.(string)
		if !ok {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		return utf8.RuneCountInString(text) <= size
	}
	if quoted, ok := strings.CutPrefix(what, "matches "); ok {
		pattern, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		as := regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `\z`)
		return func(v any, has bool) bool {
			text, ok := v.(string)
			return !has && optional || ok && as.MatchString(text) && fits(v)
		}
	}
	return func(v any, has bool) bool {
		if !has {
			return optional
		}
		word := map[string]string{"string": "any text", "float64": "any number", "bool": "true or false", "[]interface {}": "any list", "map[string]interface {}": "any object", "<nil>": "nothing (null)"}[fmt.Sprintf("%T", v)]
		return strings.Contains(what, word) && fits(v)
	}
}

// any of a few values, so that equal ones are frequent.
func anyValue(r *rand.Rand) any {
	return []any{"a", "docs/a.md", "docs/../x.md", "a*b", "", "é" + strings.Repeat("x", r.IntN(30)), 1.0, 1e21, -0.5, true, false, nil, []any{"a", 1.0}, map[string]any{"a": nil}, "a, or left out", "is \"x\", up to 5 characters"}[r.IntN(16)]
}

// TestShape_NoWiderThanShown: of random loops, bounds that are proposed and then narrowed or
// freed at random let nothing on but what their words say. What words do not name is not
// permitted.
func TestShape_NoWiderThanShown(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a", "b", "c", "is x", "n, up to 9 characters"}
	args := func() map[string]any {
		out := map[string]any{}
		for _, name := range names {
			if r.IntN(4) > 0 {
				out[name] = anyValue(r)
			}
		}
		return out
	}
	text := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	within := 0
	for range 3000 {
		var loop []core.Approval
		first := args()
		for range 1 + r.IntN(4) {
			next := map[string]any{}
			for name, v := range first {
				if next[name] = v; r.IntN(3) == 0 {
					next[name] = anyValue(r)
				}
			}
			loop = append(loop, asksOf(text(next)))
		}
		s := proposed(t, loop...)
		for i := range s.Fields {
			if r.IntN(4) == 0 {
				s.Fields[i] = core.Bound{Name: s.Fields[i].Name, Matches: []string{"*", "docs/*", "*.md", "a*b", "docs/../*"}[r.IntN(5)], Size: 1 + r.IntN(30), Optional: r.IntN(2) == 0}
			}
		}
		words := approval.ShapeWords(s, nil, time.UTC)[2:]
		for range 20 {
			call := args()
			if r.IntN(2) == 0 {
				call = maps.Clone(first)
			}
			if approval.Outside(s, asksOf(text(call)), json.RawMessage(text(call))) != "" {
				continue
			}
			within++
			left := len(call)
			for i, b := range s.Fields {
				v, has := call[b.Name]
				if has {
					left--
				}
				if !said(t, strings.TrimLeft(strings.TrimPrefix(words[i], b.Name), ": "))(v, has) {
					t.Fatalf("seed %d: %s is permitted, and %q does not say so", seed, text(call), words[i])
				}
				if text, ok := v.(string); ok && b.Matches != "" && strings.Count(text, "..") > strings.Count(b.Matches, "..") {
					t.Fatalf("seed %d: %q leads up, and %q lets it on", seed, text, b.Matches)
				}
			}
			if left > 0 {
				t.Fatalf("seed %d: %s is permitted, and %q do not name all of it", seed, text(call), words)
			}
		}
	}
	if within < 1000 {
		t.Errorf("seed %d: only %d calls were within: it shows little", seed, within)
	}
}

// FuzzMatches: a pattern permits what the same regular expression does, less what leads up.
func FuzzMatches(f *testing.F) {
	for _, s := range [][2]string{{"docs/*.md", "docs/a.md"}, {"*", "../a"}, {"../*", "../../a"}, {"a*b*c", "abbc"}, {"a", "a"}, {"*.*", ".%2e/"}, {"..*", ".."}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			return
		}
		want := regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `\z`).MatchString(text)
		got := approval.Matches(pattern, text)
		if got && !want {
			t.Errorf("%q lets %q on", pattern, text)
		}
		up := func(s string) int {
			n := 0
			for _, p := range strings.FieldsFunc(s, func(r rune) bool { return r == '/' || r == '\\' }) {
				if p == ".." {
					n++
				}
			}
			return n
		}
		if got && up(text) > up(pattern) {
			t.Errorf("%q lets %q on, which leads up", pattern, text)
		}
		if want && !got && !strings.Contains(text, "..") && !strings.Contains(text, "%") {
			t.Errorf("%q does not let %q on", pattern, text)
		}
	})
}

// FuzzOutside: whatever arguments are, nothing panics, and what is within has the fields of
// the bounds and no others.
func FuzzOutside(f *testing.F) {
	f.Add(`{"id":"1"}`, `{"id":"1","team":"ENG"}`)
	f.Add(`{"id":"1","id":"2"}`, `[`)
	f.Fuzz(func(t *testing.T, shown, sent string) {
		s := core.Shape{Tool: "linear:create_comment", Place: core.Position{Line: 12, Column: 9}, Max: 2, Risk: core.RiskMedium, Fields: []core.Bound{
			{Name: "id", Types: []string{"text"}, Size: 5}, {Name: "team", Is: json.RawMessage(`"ENG"`), Optional: true},
		}}
		a := asksOf(`{}`)
		a.Context = json.RawMessage(`{"arguments":` + shown + `}`)
		if approval.Outside(s, a, json.RawMessage(sent)) != "" {
			return
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(sent), &v); err != nil {
			t.Fatalf("%q is within: %v", sent, err)
		}
		id, ok := v["id"].(string)
		if _, team := v["team"]; !ok || utf8.RuneCountInString(id) > 5 || len(v) > 2 || len(v) == 2 && !team {
			t.Errorf("%q is within", sent)
		}
	})
}

// TestInLoop: bounds are about calls of a tool that one place of a script makes.
func TestInLoop(t *testing.T) {
	t.Parallel()
	if !approval.InLoop(asksOf(`{}`)) {
		t.Error("bounds cannot be about a call of a line")
	}
	for name, change := range map[string]func(*core.Approval){
		"NoPlace": func(a *core.Approval) { a.Place = core.Position{} },
		"Once":    func(a *core.Approval) { a.Once = true },
		"NoTool":  func(a *core.Approval) { a.Type = core.ApproveKeys },
	} {
		if approval.InLoop(asksOf(`{}`, change)) {
			t.Errorf("%s: bounds can be about it", name)
		}
	}
}
