package agent_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/model"
)

// TestLoop_Shortens: a conversation that takes most of the model's window, or more than the
// model takes, is summarised before it goes on; the goal and the newest turns stay as they are, and
// the summary costs what it costs but is no iteration.
func TestLoop_Shortens(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]int{"Window": 12000, "Refused": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sp := spec()
			sp.Window = window
			l := agent.New(sp, nil)
			s := l.Begin()
			summaries, refused := 0, false
			for n := 1; !s.Done && n < 30; n++ {
				if strings.HasPrefix(s.Call, "s") {
					summaries++
					if len(s.Ask.Tools) > 0 || !strings.Contains(s.Ask.Messages[0].Text, "xxxx") {
						t.Errorf("it is asked: %.300s", s.Ask.Messages[0].Text)
					}
					s = l.Answered(says("SHORT"), 1)
					m := s.Ask.Messages
					if len(m) != 3 || !strings.HasPrefix(m[0].Text, "Goal:") || !strings.Contains(m[0].Text, "SHORT") || m[1].Answer == nil || len(m[2].Results) != 1 {
						t.Fatalf("it goes on with %+v", m)
					}
					continue
				}
				if window == 0 && len(s.Ask.Messages) > 8 && !refused {
					refused = true
					var ok bool
					if s, ok = l.TooLong(); !ok {
						t.Fatal("nothing is shortened")
					}
					continue
				}
				if s = l.Answered(script(fmt.Sprint("return ", n)), 1); s.Done {
					break
				}
				big, _ := json.Marshal(strings.Repeat("x", 6000) + strconv.Itoa(n))
				s = l.Ran(s.Runs[0].Call, agent.Outcome{Result: big})
			}
			if summaries == 0 || s.Result == nil || s.Result.Iterations != sp.Iterations || s.Result.Usage.Tokens() != 15*(sp.Iterations+summaries) {
				t.Errorf("%d summaries, %+v", summaries, s.Result)
			}
		})
	}
	l := agent.New(spec(), nil)
	l.Begin()
	if _, ok := l.TooLong(); ok {
		t.Error("a conversation of one turn is shortened")
	}
}

// TestLoop_SummaryNotPaid: where a summary costs more than is left, a person is asked for
// more as before any other request, or the agent ends; what it is given then pays the
// summary.
func TestLoop_SummaryNotPaid(t *testing.T) {
	t.Parallel()
	sp := spec()
	sp.Budget.Tokens = 6000
	sp.Window = 1500
	// tooLong is the step of an agent whose third request would be too long for its model, and
	// that has 400 tokens left, which do not pay a summary.
	tooLong := func(sp core.AgentSpec) (*agent.Loop, agent.Step) {
		l := agent.New(sp, nil)
		s := l.Begin()
		for n := range 2 {
			a := script(fmt.Sprint("return ", n))
			a.Usage = &model.Usage{Input: int64(1000 + n*3500), Output: 50}
			l.Answered(a, 1)
			big, _ := json.Marshal(strings.Repeat("x", 4000) + strconv.Itoa(n))
			s = l.Ran(fmt.Sprintf("m%d.t1", n+1), agent.Outcome{Result: big})
		}
		return l, s
	}
	if _, s := tooLong(sp); !s.Done || s.Result.Stop != core.AgentBudgetSpent {
		t.Errorf("nobody is asked: %+v", s)
	}
	ask := sp
	ask.Budget.Ask = true
	l, s := tooLong(ask)
	if s.Call != "s1" || s.Question == nil || s.Question.More.Tokens != 6000 || s.Question.Usage.Tokens() != 5600 {
		t.Fatalf("a person is asked: %+v", s)
	}
	if s := l.Answered(says("SHORT"), 1); s.Call != "m3" || s.Question != nil {
		t.Errorf("after a yes: %+v", s)
	}
	l, _ = tooLong(ask)
	if s := l.Stopped(); !s.Done || s.Result.Stop != core.AgentBudgetSpent {
		t.Errorf("after a no: %+v", s)
	}
	for name, given := range map[string]core.AgentSpec{"NotAsked": sp, "AfterNo": ask} {
		given.More = []core.AgentMore{{Tokens: 9000}}
		l, s := tooLong(given)
		if name == "AfterNo" {
			s = l.Stopped()
		}
		if !strings.HasPrefix(s.Call, "s") || s.Question != nil {
			t.Fatalf("%s, given more: %+v", name, s)
		}
		if s := l.Answered(says("SHORT"), 1); s.Call != "m3" {
			t.Errorf("%s, after the summary: %+v", name, s)
		}
	}
}
