package corpus_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/skiptest"
)

var update = flag.Bool("update", false, "write the goldens of the corpus from what node does")

// jitterRuns is how often -update runs each script with answers held back at
// random, to find the orders that do not depend on timing.
const jitterRuns = 6

// nodeOutcome is what run.mjs prints for a script.
type nodeOutcome struct {
	Name   string          `json:"name"`
	Result json.RawMessage `json:"result"`
	Error  *goldenError    `json:"error"`
	Calls  []nodeCall      `json:"calls"`
	Logs   []string        `json:"logs"`
}

type nodeCall struct {
	goldenCall
	Start int `json:"start"`
	End   int `json:"end"`
}

type nodeJob struct {
	Name   string          `json:"name"`
	JS     string          `json:"js"`
	Log    string          `json:"log"`
	Input  json.RawMessage `json:"input,omitempty"`
	Jitter int             `json:"jitter,omitempty"`
}

// startRecorder starts a recorder in HTTP mode whose logs are in dir.
func startRecorder(t *testing.T, bin, dir string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, "--log", filepath.Join(dir, "main.jsonl"), "--http", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the recorder printed no URL: %v", err)
	}
	return strings.TrimSpace(line)
}

// runNode runs jobs in one node process and returns the outcomes in order.
func runNode(t *testing.T, node, url string, jobs []nodeJob) []nodeOutcome {
	t.Helper()
	raw, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jobs.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "testdata/nodeharness/run.mjs", "--batch", file, url)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	var outcomes []nodeOutcome
	for line := range strings.Lines(string(out)) {
		var o nodeOutcome
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("node printed %q: %v", line, err)
		}
		outcomes = append(outcomes, o)
	}
	if len(outcomes) != len(jobs) {
		t.Fatalf("node ran %d of %d scripts", len(outcomes), len(jobs))
	}
	return outcomes
}

// TestCorpus_Node runs every script under plain node and compares it with its
// golden, as seen by node and as seen by the recorder.
func TestCorpus_Node(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "runs the whole corpus in node")
	node := skiptest.Tool(t, "node")
	scripts, dir := loadCorpus(t), t.TempDir()
	jobs := make([]nodeJob, len(scripts))
	for i, s := range scripts {
		jobs[i] = nodeJob{Name: s.Name, JS: stripTypes(t, s), Log: s.Name + ".jsonl", Input: s.Input}
	}
	url := startRecorder(t, pmltest.Recorder(t), dir)
	if *update {
		updateGoldens(t, node, url, scripts, jobs)
	}
	for i, got := range runNode(t, node, url, jobs) {
		t.Run(scripts[i].Name, func(t *testing.T) {
			g := loadGolden(t, scripts[i].Name)
			if g.Issue == "fixed" {
				compare(t, "calls as made", keysOf(g.Calls), keysOf(callsOf(got)))
			}
			compare(t, "result", string(compact(g.Result)), string(compact(got.Result)))
			compare(t, "error", g.Error, got.Error)
			compare(t, "console", g.Logs, got.Logs)
			for _, fault := range checkCalls(g, readLog(t, filepath.Join(dir, jobs[i].Log))) {
				t.Error("recorder: " + fault)
			}
		})
	}
}

func compare(t *testing.T, what string, want, got any) {
	t.Helper()
	if ws, ok := want.([]string); ok && len(ws) == 0 {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-golden +node):\n%s", what, diff)
	}
}

func callsOf(o nodeOutcome) []goldenCall {
	calls := make([]goldenCall, len(o.Calls))
	for i, c := range o.Calls {
		calls[i] = goldenCall{c.Server, c.Tool, compact(c.Args)}
	}
	return calls
}

func keysOf(calls []goldenCall) []string {
	keys := make([]string, len(calls))
	for i, c := range calls {
		keys[i] = c.key()
	}
	return keys
}

// updateGoldens runs every script several times with jitter, keeps what all
// runs agree on, and refuses scripts whose outcome depends on timing.
func updateGoldens(t *testing.T, node, url string, scripts []corpusScript, jobs []nodeJob) {
	t.Helper()
	runs := make([][]nodeOutcome, 0, jitterRuns)
	for n := range jitterRuns {
		batch := slices.Clone(jobs)
		for i := range batch {
			batch[i].Log = "update-" + strconv.Itoa(n) + "-" + batch[i].Log
			if n > 0 { // the first run is the one without jitter
				batch[i].Jitter = 2 * n
			}
		}
		runs = append(runs, runNode(t, node, url, batch))
	}
	for i, s := range scripts {
		var outcomes []nodeOutcome
		for _, r := range runs {
			outcomes = append(outcomes, r[i])
		}
		writeGolden(t, s.Name, merge(t, s, outcomes))
	}
}

func merge(t *testing.T, s corpusScript, runs []nodeOutcome) golden {
	t.Helper()
	first := runs[0]
	g := golden{Result: compact(first.Result), Error: first.Error, Calls: callsOf(first), Issue: "fixed", Order: "total", Logs: first.Logs}
	if first.Error != nil {
		g.Result = nil
	}
	for _, r := range runs[1:] {
		if diff := cmp.Diff(string(g.Result), string(compact(r.Result))); diff != "" && r.Error == nil {
			t.Errorf("%s: the result depends on timing: %s", s.File, diff)
		}
		if diff := cmp.Diff(first.Error, r.Error); diff != "" {
			t.Errorf("%s: the error depends on timing: %s", s.File, diff)
		}
		if !slices.Equal(keysOf(g.Calls), keysOf(callsOf(r))) {
			g.Issue = "varies"
		}
	}
	if g.Issue == "varies" {
		sort.SliceStable(g.Calls, func(i, j int) bool { return g.Calls[i].key() < g.Calls[j].key() })
	}
	after := always(t, s, g.Calls, runs)
	for j := 1; j < len(g.Calls); j++ {
		if !after[j-1][j] {
			g.Order = "partial"
		}
	}
	if g.Order == "partial" && !s.Free {
		g.After = reduce(after)
	}
	if (g.Order == "partial") != s.Partial {
		t.Errorf("%s: the order of its calls is %s; the header says otherwise", s.File, g.Order)
	}
	if g.Error != nil && g.Error.Message != s.Throws {
		t.Errorf("%s: throws %q; the header says %q", s.File, g.Error.Message, s.Throws)
	}
	return g
}

// always returns for each pair of calls whether the first had settled before
// the second was made, in every run.
func always(t *testing.T, s corpusScript, calls []goldenCall, runs []nodeOutcome) [][]bool {
	t.Helper()
	after := make([][]bool, len(calls))
	for i := range after {
		after[i] = make([]bool, len(calls))
		for j := range after[i] {
			after[i][j] = i != j
		}
	}
	for _, r := range runs {
		left := slices.Clone(r.Calls)
		at := make([]nodeCall, len(calls))
		for i, c := range calls {
			k := slices.IndexFunc(left, func(n nodeCall) bool { return n.key() == c.key() })
			if k < 0 || len(r.Calls) != len(calls) {
				t.Errorf("%s: the calls depend on timing", s.File)
				return after
			}
			at[i] = left[k]
			left = slices.Delete(left, k, k+1)
		}
		for i := range at {
			for j := range at {
				after[i][j] = after[i][j] && at[i].End < at[j].Start
			}
		}
	}
	return after
}

// reduce drops the pairs that follow from others.
func reduce(after [][]bool) [][2]int {
	var pairs [][2]int
	for i := range after {
		for j := range after {
			implied := slices.ContainsFunc(rangeOf(len(after)), func(k int) bool { return after[i][k] && after[k][j] })
			if after[i][j] && !implied {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	return pairs
}

func rangeOf(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
