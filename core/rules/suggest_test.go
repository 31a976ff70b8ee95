package rules_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/rules"
	"github.com/casys-ai/pml/core/where"
)

// decided are decisions about calls of one tool.
func decided(approved bool, args ...string) (out []rules.Decision) {
	for _, a := range args {
		out = append(out, rules.Decision{Tool: "s:t", Args: json.RawMessage(a), Approved: approved})
	}
	return out
}

// times are n arguments, with %d counting.
func times(n int, format string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		yes, no []string
		want    []string
	}{
		"SameArguments":  {times(5, `{"cmd":"npm test","n":1}`)[:5], nil, nil},
		"FourTimes":      {[]string{`{"a":1}`, `{"a":1}`, `{"a":1}`, `{"a":1}`}, nil, nil},
		"NoArguments":    {[]string{`{}`, `{}`, `{}`, `{}`, `{}`}, nil, []string{`5 size(args) == 0`}},
		"FixedAndProse":  {times(6, `{"team":"ENG","body":"comment %d"}`), nil, []string{`6 size(args.body) <= 100 && args.team == 'ENG' && all(keys(args), # in ['body', 'team'])`}},
		"OnlyProse":      {times(9, `{"text":"hello %d"}`), nil, nil},
		"FreeText":       {times(9, `{"cmd":"rm -r %d","cwd":"a/b"}`), nil, nil},
		"Folder":         {times(6, `{"path":"docs/x/%d.md","content":"a"}`), nil, []string{`6 args.content == 'a' && under(args.path, 'docs/x') && all(keys(args), # in ['content', 'path'])`}},
		"FolderAbsolute": {times(6, `{"path":"/ws/docs/%d.md"}`), nil, []string{`6 under(args.path, 'docs') && all(keys(args), # in ['path'])`}},
		"Outside":        {times(6, `{"path":"/etc/%d"}`), nil, nil},
		"NoFolder":       {times(6, `{"path":"%d.md"}`), nil, nil},
		"Traversal":      {times(6, `{"path":"docs/../%d.md"}`), nil, nil},
		"DeniedOnce":     {times(6, `{"team":"ENG","body":"%d"}`), []string{`{"team":"ENG","body":"x"}`}, nil},
		"DeniedOther":    {times(6, `{"team":"ENG","body":"%d"}`), []string{`{"team":"OPS","body":"x"}`}, []string{`6 size(args.body) <= 100 && args.team == 'ENG' && all(keys(args), # in ['body', 'team'])`}},
		"TwoTeams": {append(times(7, `{"team":"ENG","id":"a","n":%d}`), times(5, `{"team":"OPS","id":"b","n":%d}`)...), []string{`{"team":"OPS","id":"a","n":1}`},
			[]string{`7 args.id == 'a' && args.n >= 0 && args.n <= 6 && args.team == 'ENG' && all(keys(args), # in ['id', 'n', 'team'])`, `5 args.id == 'b' && args.n >= 0 && args.n <= 4 && args.team == 'OPS' && all(keys(args), # in ['id', 'n', 'team'])`}},
		"Optional": {append(times(5, `{"a":"x","n":%d}`), `{"a":"x"}`), nil, []string{`6 args.a == 'x' && (!has(args.n) || args.n >= 0 && args.n <= 4) && all(keys(args), # in ['a', 'n'])`}},
		"Nested":   {times(6, `{"a":"x","b":{"c":%d}}`), nil, nil},
		"OddNames": {[]string{`{"a-b":"it's"}`, `{"a-b":"it's"}`, `{"a-b":"it's"}`, `{"a-b":"it's"}`, `{"a-b":"it's"}`}, nil, []string{`5 args['a-b'] == "it's" && all(keys(args), # in ['a-b'])`}},
		"Labels":   {times(5, `{"labels":["a","b"],"title":"%d"}`), nil, []string{`5 args.labels == ['a', 'b'] && size(args.title) <= 100 && all(keys(args), # in ['labels', 'title'])`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "SameArguments" {
				tt.yes = []string{`{"cmd":"npm test","n":1}`, `{"cmd":"npm test","n":1}`, `{"cmd":"npm test","n":1}`, `{"n":1,"cmd":"npm test"}`, `{"cmd":"npm test","n":1}`}
				tt.want = []string{`5 args.cmd == 'npm test' && args.n == 1 && all(keys(args), # in ['cmd', 'n'])`}
			}
			var got []string
			for _, s := range rules.Suggest(append(decided(true, tt.yes...), decided(false, tt.no...)...), "/ws") {
				got = append(got, fmt.Sprintf("%d %s", s.Saves, s.Rule.Where))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever was decided: each rule compiles, lets through at least as many calls as it
// says, and none that was denied.
func TestSuggest_LetsThroughNothingDenied(t *testing.T) {
	t.Parallel()
	value := rapid.OneOf(
		rapid.SampledFrom([]any{"docs/a", "docs/b/c", "/ws/docs/x", 1, 2}),
		rapid.SampledFrom([]any{"/etc/x", "it's", "a\\b", nil, []any{"a", 1}, map[string]any{"x": 1}, 1.5, true}),
	)
	arguments := rapid.MapOfN(rapid.SampledFrom([]string{"path", "body", "a b"}), value, 0, 2)
	rapid.Check(t, func(t *rapid.T) {
		var list []rules.Decision
		for range rapid.IntRange(0, 60).Draw(t, "calls") {
			raw, err := json.Marshal(arguments.Draw(t, "args"))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, rules.Decision{Tool: "s:t", Args: raw, Approved: rapid.IntRange(0, 9).Draw(t, "yes") > 0})
		}
		for _, s := range rules.Suggest(list, "/ws") {
			p, err := policy.Compile(policy.Rules{Allow: []policy.Rule{s.Rule}})
			if err != nil {
				t.Fatalf("%s: %v", s.Rule, err)
			}
			saves := 0
			for _, d := range list {
				v := p.DecideCall(policy.Call{Tool: d.Tool, Facts: func() policy.Facts {
					return policy.Facts{Call: where.Call{Args: d.Args, Workspace: "/ws"}}
				}}, false)
				switch {
				case v.Effect != policy.Allow:
				case !d.Approved:
					t.Fatalf("%s lets %s through, which was denied", s.Rule, d.Args)
				default:
					saves++
				}
			}
			if s.Saves < rules.MinApproved || saves < s.Saves {
				t.Fatalf("%s: says %d, saves %d", s.Rule, s.Saves, saves)
			}
		}
	})
}
