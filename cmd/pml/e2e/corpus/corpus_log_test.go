package corpus_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logEntry is a line of the recorder's log.
type logEntry struct {
	N      int             `json:"n"`
	Event  string          `json:"event"`
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
}

// observed is a call that was seen; Start and End are positions in the order
// of all events, End 0 when it never ended.
type observed struct {
	goldenCall
	Start, End int
}

// repeatable are the recorder's tools that may run again after a crash.
var repeatable = []string{"echo", "read", "put", "fail", "slow", "wait", "big", "list", "texts", "noise"}

// readLog returns the calls of a recorder's log in the order of their starts.
// No file means no calls; a last line without an end, of a recorder that was
// killed while it wrote, is no line.
func readLog(t *testing.T, file string) []observed {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var calls []observed
	at := map[int]int{} // number → index in calls
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	for i, line := range bytes.Split(raw, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e logEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
		if e.Event == "start" {
			at[e.N] = len(calls)
			calls = append(calls, observed{goldenCall: goldenCall{e.Server, e.Tool, compact(e.Args)}, Start: i + 1})
			continue
		}
		if k, ok := at[e.N]; ok {
			calls[k].End = i + 1
		}
	}
	return calls
}

// dropRepeats removes what a run that was killed may have done twice: of a
// repeatable call that was seen more often than the golden has it, the last
// ones count.
func dropRepeats(g golden, got []observed) []observed {
	want := map[string]int{}
	for _, c := range g.Calls {
		want[c.key()]++
	}
	kept := make([]observed, 0, len(got))
	for _, o := range slices.Backward(got) {
		k := o.key()
		if slices.Contains(repeatable, o.Tool) && want[k] == 0 {
			continue
		}
		want[k]--
		kept = append(kept, o)
	}
	slices.Reverse(kept)
	return kept
}

// checkCalls says in what the calls that were seen differ from the golden's:
// other calls, other arguments, more or fewer, or an order that the script
// does not allow.
func checkCalls(g golden, got []observed) []string {
	var faults []string
	place := make([]int, len(g.Calls)) // of each call of the golden in got
	taken := make([]bool, len(got))
	for i, c := range g.Calls {
		place[i] = -1
		for k, o := range got {
			if !taken[k] && o.key() == c.key() {
				place[i], taken[k] = k, true
				break
			}
		}
		if place[i] < 0 {
			faults = append(faults, "missing call "+c.key())
		}
	}
	for i, o := range got {
		if !taken[i] {
			faults = append(faults, "unexpected call "+o.key())
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return append(faults, checkOrder(g, got, place)...)
}

func checkOrder(g golden, got []observed, place []int) []string {
	after := g.After
	if g.Order == "total" {
		after = nil
		for j := 1; j < len(g.Calls); j++ {
			after = append(after, [2]int{j - 1, j})
		}
	}
	var faults []string
	for _, p := range after {
		i, j := got[place[p[0]]], got[place[p[1]]]
		if i.End == 0 || i.End > j.Start {
			faults = append(faults, fmt.Sprintf("%s started before %s had ended", j.key(), i.key()))
		}
	}
	return faults
}

func TestCorpus_CheckCalls(t *testing.T) {
	t.Parallel()
	call := func(tool, arg string, start, end int) observed {
		return observed{goldenCall{"rec", tool, json.RawMessage(`{"v":"` + arg + `"}`)}, start, end}
	}
	a, b, w := call("echo", "a", 1, 2), call("echo", "b", 3, 4), call("write", "w", 5, 6)
	g := golden{Order: "total", Calls: []goldenCall{a.goldenCall, b.goldenCall, w.goldenCall}}
	partial := golden{Order: "partial", After: [][2]int{{0, 2}}, Calls: g.Calls}
	tests := []struct {
		name   string
		golden golden
		got    []observed
		faults int
	}{
		{"Same", g, []observed{a, b, w}, 0},
		{"Missing", g, []observed{a, b}, 1},
		{"Unexpected", g, []observed{a, b, w, call("danger", "x", 7, 8)}, 1},
		{"Twice", g, []observed{a, b, w, call("write", "w", 7, 8)}, 1},
		{"OtherArguments", g, []observed{a, call("echo", "c", 3, 4), w}, 2},
		{"Swapped", g, []observed{call("echo", "b", 1, 2), call("echo", "a", 3, 4), w}, 1},
		{"Overlapping", g, []observed{call("echo", "a", 1, 3), call("echo", "b", 2, 4), w}, 1},
		{"OverlapAllowed", partial, []observed{call("echo", "b", 1, 6), call("echo", "a", 2, 3), call("write", "w", 4, 5)}, 0},
		{"ConstraintBroken", partial, []observed{call("write", "w", 1, 2), call("echo", "a", 3, 4), call("echo", "b", 5, 6)}, 1},
		{"NeverEnded", partial, []observed{call("echo", "a", 1, 0), b, w}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if faults := checkCalls(tt.golden, tt.got); len(faults) != tt.faults {
				t.Errorf("got %d faults, want %d: %q", len(faults), tt.faults, faults)
			}
		})
	}
}

func TestCorpus_DropRepeats(t *testing.T) {
	t.Parallel()
	echo := goldenCall{"rec", "echo", json.RawMessage(`{"v":1}`)}
	write := goldenCall{"rec", "write", json.RawMessage(`{"p":1}`)}
	g := golden{Order: "total", Calls: []goldenCall{echo, write}}
	got := dropRepeats(g, []observed{{echo, 1, 0}, {echo, 2, 3}, {write, 4, 5}, {write, 6, 7}})
	want := []observed{{echo, 2, 3}, {write, 4, 5}, {write, 6, 7}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(observed{})); diff != "" {
		t.Errorf("a repeated read is forgiven, a repeated write is not (-want +got):\n%s", diff)
	}
}
