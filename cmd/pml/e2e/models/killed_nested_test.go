//go:build unix

package models_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// The agents of TestAgent_KilledNested: a script starts one, each of whose rounds calls a tool
// and starts an agent inside, which has two rounds of two scripts itself.
const (
	nestedRounds = 3
	nestedCode   = `return (await mcp.agent.delegate({goal: "count for all rounds.", max_iterations: 20})).result`
)

// nestedAgents are the answers of these agents, by goal, and the calls that they make.
func nestedAgents() (fixtures []any, answers map[string]int, calls []string) {
	answers = map[string]int{"count for all rounds.": nestedRounds + 1}
	inc := func(keys ...string) (code string) {
		for _, k := range keys {
			calls = append(calls, fmt.Sprintf(`inc {"key":%q}`, k))
		}
		quoted, _ := json.Marshal(keys)
		return fmt.Sprintf(`await Promise.all(%s.map(key => mcp.rec.inc({key})));`, quoted)
	}
	var outer scenario
	for i := range nestedRounds {
		goal := fmt.Sprintf("round %d alone.", i)
		outer.answers = append(outer.answers, answer{text: fmt.Sprint("Round ", i), scripts: []string{
			inc(fmt.Sprint(i, "a")) + ` return 1`,
			fmt.Sprintf(`return (await mcp.agent.delegate({goal: %q})).result`, goal),
		}})
		var in scenario
		for k := range 2 {
			in.answers = append(in.answers, answer{text: fmt.Sprint("Inside ", k), scripts: []string{inc(fmt.Sprint(i, "b", k)) + ` return 1`, inc(fmt.Sprint(i, "c", k), fmt.Sprint(i, "d", k)) + ` return 2`}})
		}
		in.answers = append(in.answers, answer{text: "inside is counted"})
		answers[goal] = 3
		fixtures = append(fixtures, in.fixturesOf(strings.TrimSuffix(goal, "."))...)
	}
	outer.answers = append(outer.answers, answer{text: "all is counted"})
	fixtures = append(fixtures, outer.fixturesOf("count for all rounds")...)
	for _, f := range fixtures {
		f.(map[string]any)["latency"] = 8 // ms between two pieces: kills meet answers that are under way
	}
	slices.Sort(calls)
	return fixtures, answers, calls
}

// nested is a script with agents inside one another, whose process is killed.
type nested struct {
	t      *testing.T
	a      aimock
	m      *pmltest.Machine
	random *rand.Rand

	id    core.ID
	kills int
	lost  int
	made  int // calls of earlier runs
	// kept are the requests for each answer that is kept, by goal and number.
	kept map[string]int
}

// kills of a test; PML_TEST_KILLS says how many there have to be at least.
func wantedKills(few int) int {
	if n, err := strconv.Atoi(os.Getenv("PML_TEST_KILLS")); err == nil {
		return n
	}
	return few
}

// TestAgent_KilledNested is TestAgent_Killed for agents in scripts of agents in a script.
func TestAgent_KilledNested(t *testing.T) {
	t.Parallel()
	want := wantedKills(skiptest.Sized(t, 2, 4))
	fixtures, _, _ := nestedAgents()
	raw, err := json.Marshal(map[string]any{"fixtures": fixtures})
	if err != nil {
		t.Fatal(err)
	}
	a := startAimock(t, string(raw))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 2))
	calm := &nested{t: t, a: a, m: agentMachine(t, a)}
	calm.m.JSON(0, calm.command()...)
	undisturbed := calm.conversations()
	kills, lost, runs := 0, 0, 0
	for kills < want && !t.Failed() {
		n := &nested{t: t, a: a, m: agentMachine(t, a), random: random, kept: map[string]int{}}
		if runs%2 == 0 {
			n.byCommands(min(15, want-kills))
		} else {
			n.byServers(min(15, want-kills))
		}
		n.check(undisturbed)
		kills, lost, runs = kills+n.kills, lost+n.lost, runs+1
	}
	t.Logf("seed %d: %d runs, %d kills, %d requests lost on the way", seed, runs, kills, lost)
}

// TestAgent_KilledServers is TestAgent_KilledNested with two servers that share a database:
// one is killed, the other one takes over, and the first comes back.
func TestAgent_KilledServers(t *testing.T) {
	t.Parallel()
	at := ownDatabase(t)
	want := wantedKills(2)
	fixtures, _, _ := nestedAgents()
	raw, err := json.Marshal(map[string]any{"fixtures": fixtures})
	if err != nil {
		t.Fatal(err)
	}
	a := startAimock(t, string(raw))
	seed := uint64(time.Now().UnixNano())
	n := &nested{t: t, a: a, m: agentMachine(t, a), random: rand.New(rand.NewPCG(seed, 3))}
	n.m.JSON(0, n.command()...) // trusts what both use
	undisturbed := n.conversations()
	beside := *n.m
	beside.Home = filepath.Join(n.m.Dir, "home-b")
	beside.Env = append(slices.Clone(n.m.Env), "PML_HOME="+beside.Home)
	config, err := os.ReadFile(filepath.Join(n.m.Home, "config.json"))
	if err == nil {
		err = os.MkdirAll(beside.Home, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(beside.Home, "config.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	beside.OK("trust", "--yes")
	nodes := []*pmltest.Node{n.m.Node("--store", at), beside.Node("--store", at)}
	runs := 0
	for n.kills < want && !t.Failed() {
		n.kept, n.made = map[string]int{}, len(n.m.Calls())
		n.id = nodes[0].Begin(api.ExecuteRequest{Code: nestedCode})
		runs++
		for k := 0; ; k++ {
			victim, other := nodes[k%2], nodes[(k+1)%2]
			if n.ends(other, n.random.IntN(900)) {
				break
			}
			if n.kills < want {
				victim.Process.Kill()
				n.kills++
				n.ends(other, 100+n.random.IntN(900)) // it takes over
				victim.Up()
			}
		}
		w, err := nodes[0].Client.Workflow(t.Context(), n.id)
		if err != nil {
			t.Fatal(err)
		}
		outer, err := nodes[0].Client.Workflow(t.Context(), core.ChildID(n.id, "c1"))
		if err != nil {
			t.Fatal(err)
		}
		n.judge(w, outer, undisturbed)
	}
	t.Logf("seed %d: %d runs, %d kills, %d requests lost on the way", seed, runs, n.kills, n.lost)
}

// ends answers what is asked at a server for some time, and reports whether the run has ended.
func (n *nested) ends(at *pmltest.Node, ms int) bool {
	until := time.After(time.Duration(ms) * time.Millisecond)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		w, err := at.Client.Workflow(n.t.Context(), n.id)
		if err != nil {
			n.t.Fatal(err)
		}
		if w.State.Final() {
			return true
		}
		n.keep(func(id core.ID) (core.Workflow, bool) {
			w, err := at.Client.Workflow(n.t.Context(), id)
			return w, err == nil
		})
		for _, ap := range w.Approvals {
			if ap.StateAt(time.Now()) != core.ApprovalOpen {
				continue
			}
			answer := core.Answer{InDoubt: core.RunAgain}
			if n.called(ap) {
				answer = core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"count":1}`)}
			}
			ctx, cancel := context.WithTimeout(n.t.Context(), pmltest.Patience)
			_, _ = at.Client.Continue(ctx, api.ContinueRequest{ID: ap.RunID, Decision: &api.Decision{Approve: true, Checkpoint: ap.ID, Answer: &answer}})
			cancel() // somebody may have been faster
		}
		select {
		case <-tick.C:
		case <-until:
			return false
		}
	}
}

// called reports whether the recorder has the call that a question is about.
func (n *nested) called(ap core.Approval) bool {
	return slices.ContainsFunc(n.m.Calls()[n.made:], func(call string) bool {
		tool, rest, _ := strings.Cut(call, " ")
		return ap.Tool == "rec:"+tool && strings.Contains(pmltest.Compact(n.t, ap.Context), rest)
	})
}

func (n *nested) command(more ...string) []string {
	return append(append([]string{"execute", "--code", nestedCode}, more...), "--json")
}

func (n *nested) soon(p *pmltest.Process) {
	select {
	case <-time.After(time.Duration(n.random.IntN(900)) * time.Millisecond):
		n.kills++
	case <-p.Ended():
	}
	p.Kill()
}

func (n *nested) byCommands(most int) {
	args := n.command()
	for range 200 {
		p := n.m.Start(args...)
		if n.kills < most {
			n.soon(p)
		} else {
			p.Wait()
		}
		w, found := n.look()
		if found && w.State.Final() {
			return
		}
		if found {
			args = append(agentStep(n.m, w), "--json")
		}
	}
	n.t.Fatal("the run does not end")
}

func (n *nested) byServers(most int) {
	s := n.m.Serving()
	defer func() { s.Kill() }()
	n.m.Exit(0, n.command("--detach")...)
	for n.kills < most {
		n.soon(s)
		s = n.m.Serving()
		w, found := n.look()
		if found && w.State.Final() {
			return
		}
		n.decide(w, found)
	}
	pmltest.WaitFor(n.t, "the run has ended", func() bool {
		w, found := n.look()
		n.decide(w, found)
		return found && w.State.Final()
	})
}

// decide answers the first question of a run.
func (n *nested) decide(w core.Workflow, found bool) {
	if found && slices.ContainsFunc(w.Approvals, func(ap core.Approval) bool { return ap.StateAt(time.Now()) == core.ApprovalOpen }) {
		n.m.PML(append(agentStep(n.m, w), "--wait", "1s", "--json")...)
	}
}

// look is the run as it stands, with the answers that are kept.
func (n *nested) look() (w core.Workflow, found bool) {
	if n.id == "" {
		var page api.Page[core.Run]
		n.m.OK("workflows", "ls", "--json").Decode(&page)
		if len(page.Items) == 0 {
			return w, false
		}
		n.id = page.Items[0].ID
	}
	n.keep(func(id core.ID) (w core.Workflow, ok bool) {
		out := n.m.PML("workflows", "show", string(id), "--json")
		return w, out.Exit == 0 && json.Unmarshal([]byte(out.Stdout), &w) == nil
	})
	return n.m.Workflow(n.id), true
}

// keep notes how often each answer was asked for that is kept by now, of the outer agent and
// of one inside.
func (n *nested) keep(show func(core.ID) (core.Workflow, bool)) {
	i := n.random.IntN(nestedRounds)
	outer := core.ChildID(n.id, "c1")
	for goal, id := range map[string]core.ID{
		"count for all rounds.":           outer,
		fmt.Sprintf("round %d alone.", i): core.ChildID(core.ChildID(outer, fmt.Sprintf("m%d.t2", i+1)), "c1"),
	} {
		w, ok := show(id)
		if !ok {
			continue
		}
		asked := n.asked()
		for k, step := range core.AgentSteps(w) {
			key := fmt.Sprint(goal, " ", k)
			if _, known := n.kept[key]; !known && step.Ask.State == core.TaskSuccess {
				n.kept[key] = asked[key]
			}
		}
	}
}

// sent are the requests of a conversation.
func (n *nested) sent(goal string) []json.RawMessage {
	return slices.DeleteFunc(n.a.about(n.t, goal), func(body json.RawMessage) bool { return !strings.Contains(string(body), `Goal:\n`+goal) })
}

// asked counts the requests for each answer, by goal and number.
func (n *nested) asked() map[string]int {
	out := map[string]int{}
	_, answers, _ := nestedAgents()
	for goal := range answers {
		for _, body := range n.sent(goal) {
			out[fmt.Sprint(goal, " ", strings.Count(string(body), `"role":"assistant"`))]++
		}
	}
	return out
}

// conversations are the last requests, by goal; the stand-in forgets all of them.
func (n *nested) conversations() map[string]string {
	out := map[string]string{}
	_, answers, _ := nestedAgents()
	for goal := range answers {
		list := n.sent(goal)
		if len(list) == 0 {
			n.t.Fatalf("nothing was asked for %q", goal)
		}
		var body struct {
			Messages json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(list[len(list)-1], &body); err != nil {
			n.t.Fatal(err)
		}
		out[goal] = pmltest.Compact(n.t, body.Messages)
	}
	n.a.do("POST", "reset/journal", "")
	return out
}

func (n *nested) check(undisturbed map[string]string) {
	n.t.Helper()
	w, _ := n.look()
	n.judge(w, n.m.Workflow(core.ChildID(n.id, "c1")), undisturbed)
}

// judge looks at what a run and its outer agent came to: each answer that was kept was asked
// for no more after that, what was asked for in vain is counted, each call was made once, and
// the conversations are those of a run without kills.
func (n *nested) judge(w, outer core.Workflow, undisturbed map[string]string) {
	t := n.t
	t.Helper()
	if w.State != core.RunComplete || string(w.Result) != `"all is counted"` {
		t.Errorf("the run is %s, %v: %s", w.State, w.Error, w.Result)
	}
	asked := n.asked()
	for key, kept := range n.kept {
		if asked[key] != kept {
			t.Errorf("%q was kept after %d requests, and there were %d", key, kept, asked[key])
		}
	}
	_, answers, want := nestedAgents()
	before := n.lost
	for goal, count := range answers {
		for k := range count {
			key := fmt.Sprint(goal, " ", k)
			if asked[key] == 0 {
				t.Errorf("%q was never asked for", key)
			}
			n.lost += asked[key] - 1
		}
	}
	if lost, said := n.lost-before, agentOf(t, outer.Result).Usage.LostAttempts; lost > said {
		t.Errorf("%d answers were asked for again, and %d are said to be lost", lost, said)
	}
	got := n.m.Calls()[n.made:]
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(undisturbed, n.conversations()); diff != "" {
		t.Errorf("conversations (-undisturbed +killed):\n%s", diff)
	}
}
