//go:build unix

package models_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
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

// longAgent are the answers of an agent with some iterations, each of which runs two
// scripts at once, and the calls that they make.
func longAgent(iterations int) (fixtures []any, calls []string) {
	tag := fmt.Sprintf("count for %d rounds.", iterations)
	var s scenario
	for i := range iterations {
		s.answers = append(s.answers, answer{text: fmt.Sprint("Round ", i), scripts: []string{
			fmt.Sprintf(`return (await mcp.rec.inc({key: "%da"})).count`, i),
			fmt.Sprintf(`return (await Promise.all(["%db", "%dc"].map(key => mcp.rec.inc({key})))).length`, i, i),
		}})
		for _, c := range "abc" {
			calls = append(calls, fmt.Sprintf(`inc {"key":"%d%c"}`, i, c))
		}
	}
	s.answers = append(s.answers, answer{text: "all is counted"})
	slices.Sort(calls)
	fixtures = s.fixturesOf(strings.TrimSuffix(tag, "."))
	for _, f := range fixtures {
		f.(map[string]any)["latency"] = 8 // ms between two pieces: kills meet answers that are under way
	}
	return fixtures, calls
}

// TestAgent_Killed kills pml with SIGKILL again and again, at random moments, until an
// agent is done all the same: by the command that runs it, taken up by continue, and by a
// server, taken up by the next one. No answer that was kept is asked for again, no tool is
// called twice, and the conversation is that of an agent that nobody has killed.
// PML_TEST_KILLS says how many kills there have to be at least.
func TestAgent_Killed(t *testing.T) {
	t.Parallel()
	want := skiptest.Sized(t, 4, 20)
	if n, err := strconv.Atoi(os.Getenv("PML_TEST_KILLS")); err == nil {
		want = n
	}
	const fewest, most = 5, 10 // iterations
	var fixtures []any
	for n := fewest; n <= most; n++ {
		list, _ := longAgent(n)
		fixtures = append(fixtures, list...)
	}
	raw, err := json.Marshal(map[string]any{"fixtures": fixtures})
	if err != nil {
		t.Fatal(err)
	}
	a := startAimock(t, string(raw))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	undisturbed := map[int]json.RawMessage{}
	kills, lost, agents, doubts := 0, 0, 0, 0
	for kills < want {
		k := &killed{t: t, a: a, m: agentMachine(t, a), random: random, iterations: fewest + random.IntN(most-fewest+1), kept: map[int]int{}}
		if undisturbed[k.iterations] == nil {
			calm := &killed{t: t, a: a, m: agentMachine(t, a), iterations: k.iterations}
			calm.m.JSON(0, calm.command()...)
			undisturbed[k.iterations] = calm.conversation()
		}
		if agents%2 == 0 {
			k.byCommands(min(15, want-kills))
		} else {
			k.byServers(min(15, want-kills))
		}
		k.check(undisturbed[k.iterations])
		kills, lost, doubts, agents = kills+k.kills, lost+k.lost, doubts+k.doubts, agents+1
		if t.Failed() {
			break
		}
	}
	t.Logf("seed %d: %d agents, %d kills, %d requests lost on the way, %d calls in doubt", seed, agents, kills, lost, doubts)
}

// killed is an agent whose process is killed.
type killed struct {
	t          *testing.T
	a          aimock
	m          *pmltest.Machine
	random     *rand.Rand
	iterations int

	id     core.ID
	kills  int
	doubts int
	lost   int
	// kept are the requests for each answer, counted when it was kept.
	kept map[int]int
}

func (k *killed) command(more ...string) []string {
	args := []string{"agent", fmt.Sprintf("count for %d rounds.", k.iterations), "--allow", "rec:*", "--max-iterations", "20"}
	return append(append(args, more...), "--json")
}

// soon kills a process at a random moment, unless it has ended before.
func (k *killed) soon(p *pmltest.Process) {
	select {
	case <-time.After(time.Duration(k.random.IntN(900)) * time.Millisecond):
		k.kills++
	case <-p.Ended():
	}
	p.Kill()
}

// byCommands has pml agent run it, and pml continue go on.
func (k *killed) byCommands(most int) {
	args := k.command()
	for range 100 {
		p := k.m.Start(args...)
		if k.kills < most {
			k.soon(p)
		} else {
			p.Wait()
		}
		w, found := k.look()
		if found && w.State.Final() {
			return
		}
		if found {
			args = append(k.next(w), "--json")
		}
	}
	k.t.Fatal("the agent does not end")
}

// byServers has a server run it, and the next one take it up.
func (k *killed) byServers(most int) {
	s := k.m.Serving()
	defer func() { s.Kill() }()
	k.m.Exit(0, k.command("--detach")...)
	for k.kills < most {
		k.soon(s)
		s = k.m.Serving()
		w, found := k.look()
		if found && w.State.Final() {
			return
		}
		if found && w.State == core.RunWaiting {
			k.m.PML(append(k.next(w), "--wait", "1s", "--json")...)
		}
	}
	pmltest.WaitFor(k.t, "the agent has ended", func() bool {
		w, found := k.look()
		if found && w.State == core.RunWaiting {
			k.m.PML(append(k.next(w), "--wait", "1s", "--json")...)
		}
		return found && w.State.Final()
	})
}

// look is the agent as it stands, with how often each answer was asked for that is kept.
func (k *killed) look() (w core.Workflow, found bool) {
	var page api.Page[core.Run]
	k.m.OK("workflows", "ls", "--json").Decode(&page)
	i := slices.IndexFunc(page.Items, func(r core.Run) bool { return r.Kind == core.KindAgent })
	if i < 0 {
		return w, false // killed before there was a run
	}
	k.id = page.Items[i].ID
	w = k.m.Workflow(k.id)
	asked := k.asked()
	for n, step := range core.AgentSteps(w) {
		if _, known := k.kept[n]; !known && step.Ask.State == core.TaskSuccess {
			k.kept[n] = asked[n]
		}
	}
	return w, true
}

func (k *killed) next(w core.Workflow) []string {
	args := agentStep(k.m, w)
	if slices.Contains(args, "--answer") {
		k.doubts++
	}
	return args
}

// sent are the requests of this agent.
func (k *killed) sent() []json.RawMessage {
	return k.a.about(k.t, fmt.Sprintf("count for %d rounds.", k.iterations))
}

// asked counts the requests for each answer, by how many answers they have.
func (k *killed) asked() map[int]int {
	out := map[int]int{}
	for _, body := range k.sent() {
		out[strings.Count(string(body), `"role":"assistant"`)]++
	}
	return out
}

// conversation is what the last request has; the stand-in forgets all of them.
func (k *killed) conversation() json.RawMessage {
	list := k.sent()
	k.a.do("POST", "reset/journal", "")
	if len(list) == 0 {
		k.t.Fatal("the model was asked nothing")
	}
	var body struct {
		Messages json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(list[len(list)-1], &body); err != nil {
		k.t.Fatal(err)
	}
	return body.Messages
}

func (k *killed) check(undisturbed json.RawMessage) {
	t := k.t
	t.Helper()
	w, _ := k.look()
	out := agentOf(t, w.Result)
	if w.State != core.RunComplete || out.Result != "all is counted" || out.Iterations != k.iterations+1 {
		t.Errorf("the agent is %s, %v: %+v", w.State, w.Error, out)
	}
	asked, total := k.asked(), 0
	for n, kept := range k.kept {
		if asked[n] != kept {
			t.Errorf("answer %d was kept after %d requests, and there were %d", n+1, kept, asked[n])
		}
	}
	for _, n := range asked {
		total += n
	}
	if k.lost = out.Usage.LostAttempts; total < k.iterations+1 || total > k.iterations+1+k.lost {
		t.Errorf("%d requests for %d answers, and %d are said to be lost", total, k.iterations+1, k.lost)
	}
	_, want := longAgent(k.iterations)
	got := k.m.Calls()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pmltest.Compact(t, undisturbed), pmltest.Compact(t, k.conversation())); diff != "" {
		t.Errorf("the conversation (-undisturbed +killed):\n%s", diff)
	}
}
