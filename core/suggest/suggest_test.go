package suggest_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/suggest"
)

func task(id, tool, args string, after ...string) core.TaskSpec {
	return core.TaskSpec{ID: id, Tool: tool, Arguments: json.RawMessage(args), DependsOn: after}
}

func missing(pairs ...string) []api.MissingArgument {
	var out []api.MissingArgument
	for _, p := range pairs {
		id, name, _ := strings.Cut(p, ".")
		out = append(out, api.MissingArgument{TaskID: id, Argument: name})
	}
	return out
}

func TestSuggest_DAG(t *testing.T) {
	t.Parallel()
	x := suggest.New(known(t))
	tests := map[string]struct {
		intent  string
		context string
		want    []core.TaskSpec
		missing []api.MissingArgument
	}{
		"OneCompleteStep": {
			intent: `read the file notes.txt`,
			want:   []core.TaskSpec{task("t1", "filesystem:read_text_file", `{"path":"notes.txt"}`)},
		},
		"FilesOfAFolder": {
			intent: `list the files of src`,
			want:   []core.TaskSpec{task("t1", "filesystem:list_directory", `{"path":"src"}`)},
		},
		"FilesOfAll": {
			intent:  `list the directory with the files of the project`,
			want:    []core.TaskSpec{task("t1", "filesystem:list_directory", `{}`)},
			missing: []api.MissingArgument{{TaskID: "t1", Argument: "path"}},
		},
		"ThenOrders": {
			intent: `create the directory build/out, then move report.pdf to build/out/report.pdf`,
			want: []core.TaskSpec{
				task("t1", "filesystem:create_directory", `{"path":"build/out"}`),
				task("t2", "filesystem:move_file", `{"destination":"build/out/report.pdf","source":"report.pdf"}`, "t1"),
			},
		},
		"AndDoesNotOrder": {
			intent: `read a.txt and fetch https://go.dev`,
			want: []core.TaskSpec{
				task("t1", "filesystem:read_text_file", `{"path":"a.txt"}`),
				task("t2", "fetch:fetch", `{"url":"https://go.dev"}`),
			},
		},
		"ThenWaitsForAllBefore": {
			intent: `read a.txt and fetch https://go.dev then list slack channels`,
			want: []core.TaskSpec{
				task("t1", "filesystem:read_text_file", `{"path":"a.txt"}`),
				task("t2", "fetch:fetch", `{"url":"https://go.dev"}`),
				task("t3", "slack:slack_list_channels", `{}`, "t1", "t2"),
			},
		},
		"OutputFeeds": {
			intent: `read the file a.txt and write its content to b.txt`,
			want: []core.TaskSpec{
				task("t1", "filesystem:read_text_file", `{"path":"a.txt"}`),
				task("t2", "filesystem:write_file", `{"content":"$t1.content","path":"b.txt"}`, "t1"),
			},
		},
		"WholeOutputFeeds": {
			intent: `fetch https://go.dev; then save it to page.md`,
			want: []core.TaskSpec{
				task("t1", "fetch:fetch", `{"url":"https://go.dev"}`),
				task("t2", "filesystem:write_file", `{"content":"$t1","path":"page.md"}`, "t1"),
			},
		},
		"French": {
			intent: `lire le fichier a.txt puis lister les tables de la base`,
			want: []core.TaskSpec{
				task("t1", "filesystem:read_text_file", `{"path":"a.txt"}`),
				task("t2", "sqlite:list_tables", `{}`, "t1"),
			},
		},
		"NumberedList": {
			intent: "1. read the file a.txt\n2. describe the table orders",
			want: []core.TaskSpec{
				task("t1", "filesystem:read_text_file", `{"path":"a.txt"}`),
				task("t2", "sqlite:describe_table", `{"table_name":"orders"}`, "t1"),
			},
		},
		"OwnerAndRepo": {
			intent: `open an issue titled "Crash on start" in acme/shop`,
			want:   []core.TaskSpec{task("t1", "github:create_issue", `{"owner":"acme","repo":"shop","title":"Crash on start"}`)},
		},
		"NumberBehindItsNoun": {
			intent:  `add a comment to issue 12 saying "thanks"`,
			want:    []core.TaskSpec{task("t1", "github:add_issue_comment", `{"body":"thanks","issue_number":12}`)},
			missing: missing("t1.owner", "t1.repo"),
		},
		"Keys": {
			intent: `get the weather forecast city=Oslo days=3`,
			want:   []core.TaskSpec{task("t1", "weather:get_forecast", `{"city":"Oslo","days":3}`)},
		},
		"KeysWithColons": {
			intent: `weather forecast, city: "New York"`,
			want:   []core.TaskSpec{task("t1", "weather:get_forecast", `{"city":"New York"}`)},
		},
		"Context": {
			intent:  `commit the changes with the message "fix typo"`,
			context: `{"repoPath":"/w","message":"other","revision":5}`,
			want:    []core.TaskSpec{task("t1", "git:git_commit", `{"message":"fix typo","repo_path":"/w"}`)},
		},
		"WrongTypeInContext": {
			intent:  `commit the changes with the message "fix typo"`,
			context: `{"repo_path":7}`,
			want:    []core.TaskSpec{task("t1", "git:git_commit", `{"message":"fix typo"}`)},
			missing: missing("t1.repo_path"),
		},
		"NothingIsMadeUp": {
			intent:  `send an email`,
			want:    []core.TaskSpec{task("t1", "mail:send_email", `{}`)},
			missing: missing("t1.to", "t1.subject", "t1.body"),
		},
		"SeparatorsInValues": {
			intent: `search the knowledge graph for "this, then that; and more"`,
			want:   []core.TaskSpec{task("t1", "memory:search_nodes", `{"query":"this, then that; and more"}`)},
		},
		"Enum": {
			intent: `list all local git branches of /srv/app`,
			want:   []core.TaskSpec{task("t1", "git:git_branch", `{"repo_path":"/srv/app"}`)},
			// "all" and "local" are both values of it.
			missing: missing("t1.branch_type"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := x.Suggest(suggest.Request{Intent: tt.intent, Context: json.RawMessage(tt.context)})
			if got.SuggestedDAG == nil {
				t.Fatalf("no DAG: %+v", got)
			}
			if diff := cmp.Diff(tt.want, got.SuggestedDAG.Tasks, raw); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.missing, got.SuggestedDAG.Missing); diff != "" {
				t.Error(diff)
			}
			if complete := suggest.Complete(got); complete != (len(tt.missing) == 0) {
				t.Errorf("complete: %v", complete)
			}
		})
	}
}

var raw = cmp.Transformer("json", func(r json.RawMessage) string { return string(r) })

func TestSuggest_Nothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tools  []core.Tool
		intent string
	}{
		"NoTools":   {nil, "read a file"},
		"NoWords":   {known(t), "the of and …"},
		"NoMatch":   {known(t), "zzyzx qwrtp"},
		"OnlyAPast": {nil, ""},
	} {
		got := suggest.New(tt.tools).Suggest(suggest.Request{Intent: tt.intent})
		if got.Confidence != 0 || got.Error == "" || got.SuggestedDAG != nil || got.Tools == nil || len(got.Tools) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A step without a tool is said, and the DAG of the others is not complete.
func TestSuggest_UnmatchedStep(t *testing.T) {
	t.Parallel()
	got := suggest.New(known(t)).Suggest(suggest.Request{Intent: "read the file notes.txt then bake a cake"})
	if suggest.Complete(got) || !strings.Contains(got.Error, "bake a cake") || len(got.SuggestedDAG.Tasks) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestSuggest_Past(t *testing.T) {
	t.Parallel()
	x := suggest.New(known(t))
	const intent = "prepare the weekly digest for the team"
	before := x.Suggest(suggest.Request{Intent: intent})
	past := []suggest.Run{{Intent: "prepare the weekly digest", Tools: []string{"memory:read_graph", "gone:tool"}, Count: 5}}
	after := x.Suggest(suggest.Request{Intent: intent, Past: past})
	if slices.Contains(names(before), "memory:read_graph") || names(after)[0] != "memory:read_graph" {
		t.Errorf("before %v, after %v", names(before), names(after))
	}
	more := x.Suggest(suggest.Request{Intent: intent, Past: []suggest.Run{{Intent: past[0].Intent, Tools: past[0].Tools, Count: 50}}})
	if more.Confidence < after.Confidence {
		t.Errorf("more runs say less: %v, %v", more.Confidence, after.Confidence)
	}
	other := x.Suggest(suggest.Request{Intent: "read the file notes.txt", Past: past})
	if names(other)[0] != "filesystem:read_text_file" {
		t.Errorf("a run with another intent speaks for %v", names(other))
	}
}

// More of what is wanted in a tool's name never lowers its score, and all scores
// are between 0 and 1, best first.
func TestSuggest_Scores(t *testing.T) {
	t.Parallel()
	x := suggest.New(known(t))
	for _, w := range append(table(t, intents), table(t, unseen)...) {
		last := 1.0
		s := x.Suggest(suggest.Request{Intent: w.intent})
		for i, tool := range s.Tools {
			if tool.Score <= 0 || tool.Score >= 1 || i > 0 && tool.Score > last && s.SuggestedDAG == nil {
				t.Errorf("%q: %s has %v after %v", w.intent, tool.CallName, tool.Score, last)
			}
			last = tool.Score
		}
	}
	tool := func(name string) core.Tool { return core.Tool{Server: "s", Name: name} }
	y := suggest.New([]core.Tool{tool("read"), tool("report"), tool("other")})
	one := y.Suggest(suggest.Request{Intent: "report"}).Confidence
	z := suggest.New([]core.Tool{tool("read_report"), tool("report"), tool("other")})
	two := z.Suggest(suggest.Request{Intent: "read report"})
	if two.Tools[0].CallName != "s:read_report" || two.Confidence <= one/2 {
		t.Errorf("%v %+v", one, two)
	}
}

func TestSuggest_Deterministic(t *testing.T) {
	t.Parallel()
	tools := many(t, 300)
	r := suggest.Request{Intent: `read a.txt, fetch https://go.dev then create an issue and post to #x`, Context: json.RawMessage(`{"a_b":1,"aB":2}`),
		Past: []suggest.Run{{Intent: "read a.txt", Tools: []string{"fetch:fetch", "git:git_log"}, Count: 2}}}
	want := suggest.New(tools).Suggest(r)
	for range 20 {
		if got := suggest.New(tools).Suggest(r); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, then %+v", want, got)
		}
	}
}

func TestDestroys(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"delete_file": true, "removeUser": true, "git_reset": true, "DROP-table": true, "read_file": false, "undelete": false, "list_deleted": true} {
		if got := suggest.Destroys(core.Tool{Server: "s", Name: name}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A tool that destroys comes after its gentle sister unless destruction is meant.
func TestSuggest_Gentle(t *testing.T) {
	t.Parallel()
	x := suggest.New([]core.Tool{{Server: "a", Name: "drop_note"}, {Server: "b", Name: "keep_note"}})
	if got := names(x.Suggest(suggest.Request{Intent: "my note"})); got[0] != "b:keep_note" {
		t.Error(got)
	}
	if got := names(x.Suggest(suggest.Request{Intent: "delete my note"})); got[0] != "a:drop_note" {
		t.Error(got)
	}
}

func TestSuggest_NewID(t *testing.T) {
	t.Parallel()
	got := suggest.New(known(t)).Suggest(suggest.Request{
		Intent: "read a.txt and write its content to b.txt",
		NewID:  func(n int) string { return fmt.Sprintf("replan_%d", n) },
	})
	last := got.SuggestedDAG.Tasks[1]
	if last.ID != "replan_2" || !strings.Contains(string(last.Arguments), `"$replan_1.content"`) {
		t.Errorf("%+v", last)
	}
}

// Schemas come from servers: whatever they are, nothing breaks.
func FuzzSuggest_Schema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`, `{"path":1}`)
	f.Add(`{"properties":{"a":true,"b":{"type":["string","null"],"enum":[1,"x"]}},"required":["c",3]}`, `[]`)
	f.Add(`{"properties":[],"required":{}}`, ``)
	f.Fuzz(func(t *testing.T, schema, context string) {
		x := suggest.New([]core.Tool{{Server: "s", Name: "read_file", InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(schema)}})
		s := x.Suggest(suggest.Request{Intent: `read file a.txt n=1 "x" then read its content`, Context: json.RawMessage(context)})
		check(t, s)
	})
}

func FuzzSuggest_Intent(f *testing.F) {
	for _, w := range []string{`read "a b" then write it`, "a=b c: d #x #1 x@y.z", "1. a\n2. b", "«é» ‘x’ 'it's so'", "key=\"", "\xff then \xfe, and é et puis"} {
		f.Add(w)
	}
	x := suggest.New(known(f))
	f.Fuzz(func(t *testing.T, intent string) {
		check(t, x.Suggest(suggest.Request{Intent: intent}))
	})
}

// check holds for every suggestion.
func check(t *testing.T, s api.Suggestions) {
	t.Helper()
	if s.Confidence < 0 || s.Confidence >= 1 {
		t.Errorf("confidence %v", s.Confidence)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
	if s.SuggestedDAG == nil {
		return
	}
	seen := map[string]bool{}
	for _, task := range s.SuggestedDAG.Tasks {
		var args map[string]any
		if err := json.Unmarshal(task.Arguments, &args); err != nil || args == nil {
			t.Errorf("arguments %s: %v", task.Arguments, err)
		}
		for _, dep := range task.DependsOn {
			if !seen[dep] {
				t.Errorf("%s depends on %s, which does not come before it", task.ID, dep)
			}
		}
		seen[task.ID] = true
	}
}
