package suggest_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/suggest"
)

//go:embed testdata/tools.json
var toolsJSON []byte

//go:embed testdata/intents.txt
var intents string

//go:embed testdata/unseen.txt
var unseen string

// known are realistic tools: names, descriptions and schemas as servers have them.
func known(t testing.TB) []core.Tool {
	t.Helper()
	var tools []core.Tool
	if err := json.Unmarshal(toolsJSON, &tools); err != nil {
		t.Fatal(err)
	}
	return tools
}

type wanted struct {
	intent string
	tools  []string
}

func table(t testing.TB, text string) []wanted {
	t.Helper()
	var out []wanted
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		intent, tools, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("no tab: %q", line)
		}
		out = append(out, wanted{intent, strings.Split(tools, "|")})
	}
	return out
}

// Most intents get the tool that is meant, and nearly all have it among the first
// three. The second table was written before anything was tuned, and nothing was
// tuned to it.
func TestSuggest_Quality(t *testing.T) {
	t.Parallel()
	x := suggest.New(known(t))
	for name, tt := range map[string]struct {
		text       string
		top1, top3 float64
	}{
		"Known":  {intents, 0.90, 0.96},
		"Unseen": {unseen, 0.77, 0.88},
	} {
		list := table(t, tt.text)
		var first, third int
		for _, w := range list {
			got := names(x.Suggest(suggest.Request{Intent: w.intent}))
			n := slices.IndexFunc(got, func(id string) bool { return slices.Contains(w.tools, id) })
			switch n {
			case 0:
				first++
				third++
			case 1, 2:
				third++
				t.Logf("%s: %q: %s is number %d of %v", name, w.intent, w.tools[0], n+1, got[:min(3, len(got))])
			default:
				t.Logf("%s: %q: %s is not among %v", name, w.intent, w.tools[0], got[:min(3, len(got))])
			}
		}
		n := float64(len(list))
		top1, top3 := float64(first)/n, float64(third)/n
		t.Logf("%s: %d intents, %d tools: top-1 %.1f %%, top-3 %.1f %%", name, len(list), x.Len(), 100*top1, 100*top3)
		if len(list) < 30 || top1 < tt.top1 || top3 < tt.top3 {
			t.Errorf("%s: top-1 %.2f (at least %.2f), top-3 %.2f (at least %.2f)", name, top1, tt.top1, top3, tt.top3)
		}
	}
}

func names(s api.Suggestions) []string {
	var out []string
	for _, tool := range s.Tools {
		out = append(out, tool.CallName)
	}
	return out
}

// many are n tools of many servers.
func many(t testing.TB, n int) []core.Tool {
	base := known(t)
	out := make([]core.Tool, n)
	for i := range out {
		out[i] = base[i%len(base)]
		if round := i / len(base); round > 0 {
			out[i].Server = fmt.Sprintf("%s%d", out[i].Server, round)
		}
	}
	return out
}

func BenchmarkNew1000(b *testing.B) {
	tools := many(b, 1000)
	for b.Loop() {
		suggest.New(tools)
	}
}

func BenchmarkSuggest1000(b *testing.B) {
	x := suggest.New(many(b, 1000))
	past := make([]suggest.Run, 100)
	for i := range past {
		past[i] = suggest.Run{Intent: fmt.Sprintf("read report %d and post it", i), Tools: []string{"filesystem:read_text_file"}, Count: i}
	}
	b.ReportAllocs()
	for b.Loop() {
		x.Suggest(suggest.Request{Intent: `read the file notes.txt then post "done" to #general on slack and create an issue in acme/shop`, Past: past})
	}
}
