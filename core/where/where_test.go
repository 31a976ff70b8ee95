package where_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/where"
)

// aCall is the call that the tests ask about.
func aCall() where.Call {
	no := false
	return where.Call{
		Tool: "create_comment", Server: "linear", Client: "claude-code", Owner: "ann", Workspace: "/home/ann/project",
		Args: json.RawMessage(`{"team":"ENG","body":"héllo","n":3,"f":0.5,"big":9007199254740993,"huge":18446744073709551617,
			"list":["a","b"],"nums":[1,2,3],"deep":{"x":{"y":1}},"none":null,"flag":true,"path":"docs/../src/a.go","mixed":[1,"1"],"a.b":7}`),
		Annotations: core.Annotations{Destructive: &no},
		Run:         where.Run{Name: "nightly", Kind: "code", Depth: 1},
		Result:      json.RawMessage(`{"isError":false,"content":[{"type":"text","text":"ok"}]}`),
	}
}

func TestEval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`args.team == 'ENG' && size(args.body) < 2000`:    true,
		`tool == "create_comment" and server == "linear"`: true,
		`client == "cursor" || owner == "ann"`:            true,
		`workspace endsWith "/project"`:                   true,
		`run.name == "nightly" && run.kind == "code"`:     true,
		`run.depth == 0`:          false,
		`annotations.destructive`: false,
		`annotations.open_world && !annotations.read_only`:      true,
		`size(args.body) == 5 && len(args.list) == 2`:           true,
		`args.list.size() == 2`:                                 true,
		`args.body.startsWith("hé") && args.body.contains("l")`: true,
		`args.team.matches("^E.G$") and args.team matches "EN"`: true,
		`not (args.team startsWith "X")`:                        true,
		`args?.missing == nil`:                                  true,
		`(args?.missing ?? "x") == "x"`:                         true,
		`args?.missing?.more == nil`:                            true,
		`"team" in args && "x" not in args`:                     true,
		`has(args.team) && !has(args.teem)`:                     true,
		`has(args.none) && args.none == nil`:                    true,
		`args.deep.x.y == 1`:                                    true,
		`args["a.b"] == 7 && args.list[0] == "a"`:               true,
		`args.list[-1] == "b"`:                                  true,
		`args.list?.[5] == nil`:                                 true,
		`args.team in ["ENG", "OPS"]`:                           true,
		`args.team not in ["ENG", "OPS"]`:                       false,
		`args.list == ["a", "b"]`:                               true,
		`any(args.list, # == "b") && all(args.nums, # < 4)`:     true,
		`none(args.nums, # > 3) && one(args.nums, # == 2)`:      true,
		`count(args.nums, # > 1) == 2`:                          true,
		`any(args.nums, any(args.nums, # == 3) && # == 1)`:      true,
		`any(result.content, .text == "ok")`:                    true,
		`all(keys(args.deep), # in ["x"])`:                      true,
		`type(args.n) == "number" && type(args.deep)=="object"`: true,
		`lower(args.team) == "eng" && upper("a") == "A"`:        true,
		`args.n * 2 + 1 == 7 && args.n / 2 == 1.5`:              true,
		`args.n % 2 == 1 && -args.n < 0`:                        true,
		`args.n == 3.0 && args.f < 1`:                           true,
		`1 < args.n < 5`:                                        true,
		`args.team + "x" == "ENGx"`:                             true,
		`args.flag ? args.n > 2 : false`:                        true,
		`args.big == 9007199254740993`:                          true,
		`args.big == 9007199254740992`:                          false,
		`args.big > 9007199254740992`:                           true,
		`args.big > 9007199254740992.0`:                         true,
		`args.huge > args.big && args.huge != args.big`:         true,
		`under(args.path, "docs")`:                              false,
		`under(args.path, "src")`:                               true,
		`under("/home/ann/project/docs", "docs")`:               true,
		`under("/etc/passwd", workspace)`:                       false,
		`under("docs2/x", "docs")`:                              false,
		`args.n == 99 || args.team == "ENG"`:                    true,
		`result.isError == false`:                               true,
	} {
		e, err := where.Compile(text, where.Response)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.Eval(aCall()); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestEval_Fails has what must never be taken for false: a rule that denies would let
// the call through.
func TestEval_Fails(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`args.teem == "ENG"`:        "there is no args.teem",
		`!(args.teem == "ENG")`:     "there is no args.teem",
		`args.deep.z.y == 1`:        "there is no args.deep.z",
		`args.none.x == 1`:          "it would be of null",
		`args.team.x == 1`:          "it would be of a text",
		`args?.missing.more == nil`: "it would be of null",
		`args.list[2] == "c"`:       "there is no args.list[2]",
		`args.list.length == 1`:     "a list has no .length; use size(args.list)",
		`args?.list?.length == 1`:   "a list has no .length; use size(args?.list)",
		`args.list.first == "a"`:    "a list has no .first",
		`args.team.length == 3`:     "it would be of a text; use size(args.team)",
		`args.team == args.n`:       "a text cannot be compared with a number",
		`args.n == "3"`:             "a number cannot be compared with a text",
		`args.n in ["3", "4"]`:      "a number cannot be compared with a text",
		`"9" in args.mixed`:         "a text cannot be compared with a number",
		`args.none < 3`:             "null cannot be compared",
		`args.none startsWith "x"`:  "null stands where a text is needed",
		`args.none matches "x"`:     "null stands where a text is needed",
		`"a" in args.none`:          "is null, not a list or an object",
		`"a" in args.team`:          "is a text, not a list or an object",
		`args.n && true`:            "a number stands where true or false is needed",
		`args.team`:                 "the condition gives a text",
		`args.big + 1 < 9223372036854775807 && args.big * args.big > 0`: "too large",
		`args.huge + 1 > 0`:                   "cannot be calculated",
		`args.n % 0 == 1`:                     "no result",
		`args.n / 0 > 1`:                      "no result",
		`any(args.team, # == "x")`:            "goes through a list",
		`size(args.n) > 1`:                    "has no size",
		`under("~/x", "docs")`:                "not a plain path",
		`under("Docs/x", "docs")`:             "in capitals only",
		`under("/HOME/ann/Project/x", ".")`:   "in capitals only",
		`under("file:///etc/passwd", "docs")`: "not a plain path",
		`under("file:/etc/passwd", "docs")`:   "not a plain path",
		`under(args.team + "%2e%2e", "docs")`: "not a plain path",
	} {
		e, err := where.Compile(text, where.Request)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := e.Eval(aCall())
		if got || err == nil || !strings.Contains(err.Error(), want) || core.CodeOf(err) != core.CodePermissionDenied {
			t.Errorf("%s = %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestCompile_Faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                 "the condition is empty",
		`args.x ==`:                        "1:9: unexpected token EOF",
		`arg.team == "x"`:                  "1:1: there is no variable arg (did you mean args?)",
		"tool == 'x' &&\n  teem == 'x'":    "2:3: there is no variable teem",
		`result.isError`:                   "1:1: there is no result before the call is made",
		`run.nme == "x"`:                   "run has no such field; it has run.depth, run.kind, run.name",
		`annotations.readOnlyHint`:         "it has annotations.destructive",
		`run == nil`:                       "run has fields",
		`now() > 1`:                        "there is no function now",
		`sizee(args.x) > 1`:                "there is no function sizee (did you mean size?)",
		`get(args, "x") == 1`:              "there is no function get",
		`map(args.x, #)[0]`:                "there is no function map",
		`let x = 1; x == 1`:                "1:5: a condition has no variables of its own (let)",
		`args.x[1:2] == []`:                "has no slices",
		`1..3 == args.x`:                   "has no operator ..",
		`args.x matches args.y`:            "must be written as a text",
		`args.x matches "("`:               "the regular expression is not valid",
		`args.x matches "(a{1,500}){2}"`:   "the regular expression is too large",
		`tool == 3`:                        "a text is never compared with a number",
		`tool < 3`:                         "a text is never compared with a number",
		`size(args.x)`:                     "the condition must be true or false, not a number",
		`tool && true`:                     "what stands before && must be true or false, not a text",
		`tool.x == 1`:                      "a text has no fields",
		`has(args)`:                        "has takes a field",
		`size(args.x, 1) > 1`:              "size takes 1, not 2",
		`args.x.replace("a", "b")=="c"`:    "there is no method replace",
		`$env.tool == "x"`:                 "there is no variable $env",
		`args.x == 1e999`:                  "invalid float literal",
		`args.x == "a` + "\u202e" + `"`:    "invisible character",
		strings.Repeat("x", 4001):          "at most 4000 are allowed",
		strings.Repeat("!", 1000) + "true": "exceeds maximum allowed nodes",
	} {
		_, err := where.Compile(text, where.Request)
		if err == nil || !strings.Contains(err.Error(), want) || core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%.40s: %v; want %q", text, err, want)
		}
	}
}

func TestCompile_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := where.Compile(`tol == "x" && sever == "y"`, where.Request)
	if e := core.AsError(err); len(e.Faults) != 2 || e.Faults[1].At.Column != 15 {
		t.Errorf("got %v, want a fault for each of the two variables", err)
	}
}

// TestEval_Bounded has expressions whose work grows faster than the arguments.
func TestEval_Bounded(t *testing.T) {
	t.Parallel()
	var list []any
	for range 20_000 {
		list = append(list, "x")
	}
	call := where.Call{Args: map[string]any{"list": list, "text": strings.Repeat("a", 4_000_000)}}
	for _, text := range []string{
		`any(args.list, all(args.list, # == "x") && # == "y")`,
		`all(args.list, "y" not in args.list)`,
		`all(args.list, not (args.text contains "b"))`,
		`args.text matches "(a|aa|aaa)*b"`,
		`any(args.list, args.list == args.list && # == "y")`,
	} {
		e, err := where.Compile(text, where.Request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(call); err == nil || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEval_NoArguments(t *testing.T) {
	t.Parallel()
	for _, args := range []any{nil, json.RawMessage(nil), json.RawMessage("null"), json.RawMessage("{}")} {
		e, err := where.Compile(`size(args) == 0 && !has(args.x)`, where.Request)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := e.Eval(where.Call{Args: args}); !ok || err != nil {
			t.Errorf("%v: %v, %v", args, ok, err)
		}
	}
	e, err := where.Compile(`args == {}`, where.Request)
	if err == nil {
		t.Errorf("%v compiled", e)
	}
}

func FuzzEval(f *testing.F) {
	for _, s := range []string{
		`args.team == 'ENG' && size(args.body) < 2000`, `any(args.list, # in ["a"])`, `args?.x ?? 1 == 2`, `-1e3 < args.n % 2`,
		`under(args.path, "docs")`, `args["a"]?.[0].b(1)`, `tool | upper() == "X"`, `not (1 < 2 < 3)`, "`raw` matches '('", `if true {1} else {2}`, `#`, `.x`, `args.\u0061`,
	} {
		f.Add(s, `{"team":"ENG","n":1e5,"list":[1,"a",null]}`)
	}
	f.Fuzz(func(t *testing.T, text, args string) {
		e, err := where.Compile(text, where.Response)
		if err != nil {
			if core.CodeOf(err) != core.CodeInvalidConfig {
				t.Fatalf("%q: code %s", text, core.CodeOf(err))
			}
			return
		}
		call := where.Call{Tool: "t", Server: "s", Args: json.RawMessage(args), Result: json.RawMessage(args)}
		one, err1 := e.Eval(call)
		two, err2 := e.Eval(call)
		if one != two || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %v %v, then %v %v", text, one, err1, two, err2)
		}
		if err1 != nil && (one || core.CodeOf(err1) != core.CodePermissionDenied) {
			t.Fatalf("%q: %v with %v", text, one, err1)
		}
	})
}

// BenchmarkEval decodes small arguments and evaluates.
func BenchmarkEval(b *testing.B) {
	e, err := where.Compile(`args.team == 'ENG' && size(args.body) < 2000 && any(args.list, # == "b") && args.team matches "^[A-Z]+$"`, where.Request)
	if err != nil {
		b.Fatal(err)
	}
	call := aCall()
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := e.Eval(call); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func ExampleCompile() {
	e, err := where.Compile(`args.team == 'ENG' && size(args.body) < 20`, where.Request)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Eval(where.Call{Args: json.RawMessage(`{"team":"ENG","body":"done"}`)}))
	fmt.Println(e.Eval(where.Call{Args: json.RawMessage(`{"team":"OPS"}`)}))
	fmt.Println(e.Eval(where.Call{Args: json.RawMessage(`{"team":"ENG"}`)}))
	// Output:
	// true <nil>
	// false <nil>
	// false there is no args.body
}
