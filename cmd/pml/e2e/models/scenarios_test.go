//go:build unix

package models_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The scripts of the scenarios, each of which calls the recorder.
const (
	callsA      = `return (await mcp.rec.inc({key: "a"})).count`
	callsB      = `return (await mcp.rec.inc({key: "b"})).count`
	callsThree  = `return (await Promise.all(["a", "b", "c"].map(key => mcp.rec.inc({key})))).length`
	callsDanger = `return await mcp.rec.danger({x: "b"})`
)

// answer is one answer of the stand-in: a text, scripts, or what goes wrong before.
type answer struct {
	text    string
	scripts []string
	finish  string         // the word for why it ended
	used    int            // tokens of the answer; 0: 20, less: nothing is said of it
	first   map[string]any // how the first attempt is answered instead
}

// scenario is an agent with a scripted model, and what has to come of it.
type scenario struct {
	answers   []answer
	args      []string
	unpriced  bool
	silence   string // how long the model may say nothing; 2m
	configure func(c *pmltest.Config)
	// decide goes on from the first answer of pml agent to the last; nil: that is it.
	decide func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result

	exit     int // of pml agent
	code     core.Code
	stop     core.AgentStop
	text     string // in the result
	calls    []string
	requests int
	check    func(t *testing.T, r core.AgentResult, sent []json.RawMessage)
}

// scenarios are what an agent meets, by name.
var scenarios = map[string]scenario{
	"Steps": {
		answers: []answer{{text: "I begin.", scripts: []string{callsA}}, {scripts: []string{callsB}}, {text: "done"}},
		stop:    core.AgentEndTurn, text: "done", calls: []string{`inc {"key":"a"}`, `inc {"key":"b"}`}, requests: 3,
		check: func(t *testing.T, _ core.AgentResult, sent []json.RawMessage) {
			if !strings.Contains(string(sent[2]), "call_Steps") {
				t.Errorf("the last request lacks the calls before it: %s", sent[2])
			}
		},
	},
	"Parallel": {
		answers: []answer{{scripts: []string{callsA, callsB, callsThree}}, {text: "done"}},
		stop:    core.AgentEndTurn, text: "done", requests: 2,
		calls: []string{`inc {"key":"a"}`, `inc {"key":"a"}`, `inc {"key":"b"}`, `inc {"key":"b"}`, `inc {"key":"c"}`},
	},
	"Refuses": {answers: []answer{{text: "I will not.", finish: "content_filter"}}, exit: 1, stop: core.AgentRefused, text: "I will not.", requests: 1},
	"MaxIterations": {
		answers: []answer{{text: "one", scripts: []string{callsA}}, {text: "two", scripts: []string{callsB}}, {text: "never"}}, args: []string{"--max-iterations", "2"},
		exit: 1, stop: core.AgentMaxIterations, text: "two", calls: []string{`inc {"key":"a"}`, `inc {"key":"b"}`}, requests: 2,
	},
	"BudgetTokens": {
		answers: []answer{{text: "one", scripts: []string{callsA}, used: 3000}, {text: "never"}}, args: []string{"--budget-tokens", "4000"},
		exit: 1, stop: core.AgentBudgetSpent, text: "one", calls: []string{`inc {"key":"a"}`}, requests: 1,
		check: func(t *testing.T, r core.AgentResult, _ []json.RawMessage) {
			if used := r.Usage.Input + r.Usage.Output; used > 4000 {
				t.Errorf("%d tokens of 4000", used)
			}
		},
	},
	"BudgetDollars": {
		answers: []answer{{text: "one", scripts: []string{callsA}, used: 900}, {text: "never"}}, args: []string{"--budget-usd", "0.02"},
		exit: 1, stop: core.AgentBudgetSpent, text: "one", calls: []string{`inc {"key":"a"}`}, requests: 1,
		check: func(t *testing.T, r core.AgentResult, _ []json.RawMessage) {
			if r.Usage.USD == nil || *r.Usage.USD > 0.02 {
				t.Errorf("%+v", r.Usage)
			}
		},
	},
	"BudgetCalls": {
		answers: []answer{{scripts: []string{callsThree}}, {text: "done"}}, args: []string{"--budget-calls", "2"},
		stop: core.AgentEndTurn, text: "done", calls: []string{}, requests: 2, // a script that asks for more than is left at once makes none
		check: func(t *testing.T, r core.AgentResult, sent []json.RawMessage) {
			if r.Calls != 0 || !strings.Contains(string(sent[1]), "call_limit") {
				t.Errorf("%d calls of 2, and the model is told %s", r.Calls, sent[1])
			}
		},
	},
	"UnknownPrice": {answers: []answer{{text: "never"}}, args: []string{"--budget-usd", "1"}, unpriced: true, exit: 2, code: core.CodeInvalidArguments},
	"PriceNotAsked": {
		answers: []answer{{text: "done"}}, unpriced: true, stop: core.AgentEndTurn, text: "done", requests: 1,
		check: func(t *testing.T, r core.AgentResult, _ []json.RawMessage) {
			if r.Usage.USD != nil {
				t.Errorf("an unknown price is %f", *r.Usage.USD)
			}
		},
	},
	"NothingReported": {
		answers: []answer{{text: "one", scripts: []string{callsA}, used: -1}, {text: "done", used: -1}}, args: []string{"--budget-tokens", "20000"},
		stop: core.AgentEndTurn, text: "done", calls: []string{`inc {"key":"a"}`}, requests: 2,
		check: func(t *testing.T, r core.AgentResult, sent []json.RawMessage) {
			unreported := 2
			if strings.Contains(string(sent[0]), "stream_options") {
				unreported = 0 // in the protocol of OpenAI the stand-in says what it thinks
			}
			if u := r.Usage; u.Input+u.Output == 0 || u.Unreported != unreported {
				t.Errorf("nothing is counted: %+v", u)
			}
		},
	},
	"RateLimited": {
		answers: []answer{{text: "done", first: map[string]any{"response": map[string]any{"error": map[string]any{"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}}}},
		stop:    core.AgentEndTurn, text: "done", requests: 2,
	},
	"Overloaded": {
		answers: []answer{{scripts: []string{callsA}}, {text: "done", first: map[string]any{"response": map[string]any{"error": map[string]any{"message": "overloaded", "type": "overloaded_error"}, "status": 529}}}},
		stop:    core.AgentEndTurn, text: "done", calls: []string{`inc {"key":"a"}`}, requests: 3,
	},
	"Disconnects": {
		answers: []answer{{text: "done", first: map[string]any{"response": map[string]any{"content": strings.Repeat("half of it ", 40)}, "truncateAfterChunks": 3}}},
		stop:    core.AgentEndTurn, text: "done", requests: 2,
	},
	"CutInACall": {
		answers: []answer{{scripts: []string{callsA}, first: map[string]any{"truncateAfterChunks": 4}}, {text: "done"}},
		stop:    core.AgentEndTurn, text: "done", calls: []string{`inc {"key":"a"}`}, requests: 3,
	},
	"Malformed": {
		answers: []answer{{text: "done", first: map[string]any{"response": map[string]any{"content": "x"}, "chaos": map[string]any{"malformedRate": 1}}}},
		stop:    core.AgentEndTurn, text: "done", requests: 2,
	},
	"SlowFirstByte": {
		answers: []answer{{text: "done", first: map[string]any{"response": map[string]any{"content": "x"}, "latency": 60_000}}}, silence: "20s",
		stop: core.AgentEndTurn, text: "done", requests: 2,
	},
	"TenMegabytes": {
		answers: []answer{{text: "never", first: map[string]any{"response": map[string]any{"content": strings.Repeat("x", 10<<20)}, "chunkSize": 1 << 18}}},
		exit:    1, code: core.CodeResultTooLarge, requests: 1,
	},
	"NotAllowed": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, args: []string{"--allow", "rec:inc"},
		stop: core.AgentEndTurn, text: "done", requests: 2,
		check: func(t *testing.T, _ core.AgentResult, sent []json.RawMessage) {
			if !strings.Contains(string(sent[1]), "allowed_tools") || strings.Contains(string(sent[0]), `danger`) {
				t.Errorf("the model is offered, or not refused, what is not allowed: %s", sent)
			}
		},
	},
	"Approved": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, exit: 8,
		decide: func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
			return m.JSON(0, "continue", string(r.WorkflowID), "--approve")
		},
		stop: core.AgentEndTurn, text: "done", calls: []string{`danger {"x":"b"}`}, requests: 2,
	},
	"ApprovedByTheScript": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, exit: 8,
		decide: func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
			m.JSON(0, "continue", string(r.Pending[0].ID), "--approve")
			return m.JSON(0, "continue", string(r.WorkflowID))
		},
		stop: core.AgentEndTurn, text: "done", calls: []string{`danger {"x":"b"}`}, requests: 2,
	},
	"ApprovedInTheTerminal": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, exit: 8, decide: inTheTerminal,
		stop: core.AgentEndTurn, text: "done", calls: []string{`danger {"x":"b"}`}, requests: 2,
	},
	"ApprovedAfterRestart": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, exit: 8,
		decide: func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
			p := m.Start("continue", string(r.WorkflowID), "--on-approval", "wait") // waits, and is killed
			pmltest.WaitFor(t, "it waits", func() bool { return m.Workflow(r.WorkflowID).State == core.RunWaiting })
			p.Kill()
			return m.JSON(0, "continue", string(r.WorkflowID), "--approve")
		},
		stop: core.AgentEndTurn, text: "done", calls: []string{`danger {"x":"b"}`}, requests: 2,
	},
	"ExpiredAndRenewed": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, exit: 8,
		configure: func(c *pmltest.Config) { c.Approvals = map[string]any{"ttl": "2s"} },
		decide: func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
			pmltest.WaitFor(t, "it has expired", func() bool { return r.Pending[0].StateAt(time.Now()) == core.ApprovalExpired })
			return m.JSON(0, "continue", string(r.WorkflowID), "--approve")
		},
		stop: core.AgentEndTurn, text: "done", calls: []string{`danger {"x":"b"}`}, requests: 2,
	},
	"Denied": {
		answers: []answer{{scripts: []string{callsDanger}}, {text: "done"}}, exit: 8,
		decide: func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
			return m.JSON(0, "continue", string(r.WorkflowID), "--deny", "--reason", "not this one")
		},
		stop: core.AgentEndTurn, text: "done", requests: 2,
		check: func(t *testing.T, _ core.AgentResult, sent []json.RawMessage) {
			if last := string(sent[len(sent)-1]); !strings.Contains(last, "not this one") {
				t.Errorf("the model does not know why: %s", last)
			}
		},
	},
	"OnlyPeopleDecide": {
		answers: []answer{{text: "I approve it myself.", scripts: []string{callsDanger, `return await mcp.pml.approve({})`, `return await mcp.agent.decide({approved: true})`}}, {text: "done"}}, exit: 8,
		configure: func(c *pmltest.Config) { c.Approvals = map[string]any{"decider": "human"} },
		decide: func(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
			for _, args := range [][]string{{"continue", string(r.WorkflowID), "--approve"}, {"approve", string(r.Pending[0].ID), "--yes"}} {
				if out := m.PML(append(args, "--json")...); out.Exit == 0 {
					t.Errorf("who is no person has decided with %v: %s", args, out.Stdout)
				}
			}
			if got := m.Calls(); len(got) != 0 {
				t.Errorf("nobody has decided, and called was %v", got)
			}
			m.ApproveOnTerminal(r.Pending[0])
			return m.JSON(0, "continue", string(r.WorkflowID))
		},
		stop: core.AgentEndTurn, text: "done", calls: []string{`danger {"x":"b"}`}, requests: 2,
	},
}

// inTheTerminal approves in pml tui beside the run, and has the run go on there.
func inTheTerminal(t *testing.T, m *pmltest.Machine, r api.Result) api.Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := m.OnScreen(120, 40, m.Command(ctx, "tui"))
	s.Shows("rec:danger")
	s.Types("2")
	s.Shows("HIGH")
	s.Types("\r")
	s.Shows("iteration 1", "Deny")
	s.Types("G")
	s.Does("a", "to approve: ")
	code := regexp.MustCompile(`type ([0-9a-f]{4}) to approve: `).FindStringSubmatch(s.Shows("to approve: "))[1]
	for i := range code { // what comes at once counts as pasted
		s.Types(code[i : i+1])
		if i+1 < len(code) {
			s.Shows("to approve: " + code[:i+1])
		}
	}
	s.Shows("right. Now approve")
	s.Does("a", " approved")
	pmltest.WaitFor(t, "the agent has ended", func() bool { return m.Workflow(r.WorkflowID).State.Final() })
	return m.JSON(0, "continue", string(r.WorkflowID))
}

// fixturesOf are the answers of a scenario as the stand-in wants them, for one protocol: a
// tag in the goal says whose the first request is, the id of a call whose the later ones.
func (s scenario) fixturesOf(tag string) (out []any) {
	match := map[string]any{"userMessage": tag + "."}
	for n, a := range s.answers {
		response := map[string]any{"content": a.text}
		if a.finish != "" {
			response["finishReason"] = a.finish
		}
		if a.used >= 0 {
			n := cmp.Or(a.used, 20)
			response["usage"] = map[string]int{"input_tokens": 400, "output_tokens": n, "prompt_tokens": 400, "completion_tokens": n}
		}
		var calls []any
		last := ""
		for i, code := range a.scripts {
			last = fmt.Sprintf("call_%s_%d_%d", tag, n, i)
			calls = append(calls, map[string]any{"id": last, "name": "pml_execute", "arguments": map[string]string{"intent": fmt.Sprint("step ", n+1), "code": code}})
		}
		if calls != nil {
			response["toolCalls"] = calls
		}
		if a.first != nil {
			first := map[string]any{"match": with(match, "sequenceIndex", 0), "response": response}
			maps.Copy(first, a.first)
			out = append(out, first)
		}
		out = append(out, map[string]any{"match": match, "response": response})
		match = map[string]any{"toolCallId": last}
	}
	slices.Reverse(out) // later steps come first, as their requests have the goal, too
	for i := 0; i+1 < len(out); i++ {
		if m := out[i+1].(map[string]any)["match"].(map[string]any); m["sequenceIndex"] != nil {
			out[i], out[i+1] = out[i+1], out[i]
			i++
		}
	}
	return out
}

func with(m map[string]any, key string, value any) map[string]any {
	out := map[string]any{key: value}
	maps.Copy(out, m)
	return out
}

// TestAgent_Scenarios: what agents meet, in both protocols, with the requests that the
// stand-in has counted and the calls that the recorder has.
func TestAgent_Scenarios(t *testing.T) {
	t.Parallel()
	var fixtures []any
	for name, s := range scenarios {
		for _, protocol := range []string{"anthropic", "openai"} {
			fixtures = append(fixtures, s.fixturesOf(name+"_"+protocol)...)
		}
	}
	raw, err := json.Marshal(map[string]any{"fixtures": fixtures})
	if err != nil {
		t.Fatal(err)
	}
	a := startAimock(t, string(raw))
	t.Run("All", func(t *testing.T) {
		for name, s := range scenarios {
			for _, protocol := range []string{"anthropic", "openai"} {
				t.Run(name+"/"+protocol, func(t *testing.T) {
					t.Parallel()
					s.play(t, a, name+"_"+protocol, protocol)
				})
			}
		}
	})
}

// machine is one whose models are at the stand-in, with and without a price.
func (s scenario) machine(t *testing.T, a aimock, protocol string) *pmltest.Machine {
	t.Helper()
	m := agentMachine(t, a)
	base, price := a.url, `, "price": {"input": 3, "output": 15}`
	if protocol == "openai" {
		base += "/v1"
	}
	if s.unpriced {
		price = ""
	}
	config := fmt.Sprintf(`{"permissions": {"allow": ["pml:model/*"]}, "models": {"m": {"protocol": %q, "model": "m-1", "base_url": %q, "api_key": "${KEY}", "max_tokens": 1000, "timeout": %q%s}}}`, protocol, base, cmp.Or(s.silence, "2m"), price)
	if err := os.WriteFile(filepath.Join(m.Home, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.configure != nil {
		c := pmltest.AllowRec()
		s.configure(&c)
		if m.WriteConfig(c); c.Approvals["decider"] == nil {
			m.OK("trust", "--yes")
		}
	}
	return m
}

func (s scenario) play(t *testing.T, a aimock, tag, protocol string) {
	m := s.machine(t, a, protocol)
	args := append([]string{"agent", "work on " + tag + ".", "--json"}, s.args...)
	if !slices.Contains(s.args, "--allow") {
		args = append(args, "--allow", "rec:*")
	}
	out := m.PML(args...).Want(s.exit)
	sent := func() []json.RawMessage { return a.about(t, "work on "+tag+".") }
	if s.code != "" {
		f := out.Fault()
		if n := len(sent()); f.Code != s.code || n != s.requests {
			t.Errorf("%d requests, want %d: %+v", n, s.requests, f)
		}
		return
	}
	r := out.Result()
	if s.decide != nil {
		r = s.decide(t, m, r)
	}
	result := agentOf(t, r.Result)
	if result.Stop != s.stop || result.Success != (s.stop == core.AgentEndTurn) || result.Result != s.text {
		t.Errorf("%+v", result)
	}
	requests := sent()
	if len(requests) != s.requests {
		t.Errorf("%d requests, want %d", len(requests), s.requests)
	}
	got := m.Calls()
	slices.Sort(got)
	if s.calls != nil || s.stop != core.AgentEndTurn || strings.HasPrefix(tag, "NotAllowed") || strings.HasPrefix(tag, "Denied") {
		if diff := gocmp.Diff(s.calls, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
	if s.check != nil && !t.Failed() {
		s.check(t, result, requests)
	}
}

// about is what has reached the stand-in with a text in it.
func (a aimock) about(t *testing.T, text string) (bodies []json.RawMessage) {
	t.Helper()
	var journal []struct {
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(a.do("GET", "journal", ""), &journal); err != nil {
		t.Fatal(err)
	}
	for _, j := range journal {
		if strings.Contains(string(j.Body), text) {
			bodies = append(bodies, j.Body)
		}
	}
	return bodies
}
