package agent_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/model"
)

// TestLoop_OneAnswerOver: whatever answers cost, and whether their provider says so or not, no
// request is made once a budget is used up, so that it is passed by one answer at most; and by
// none where the provider keeps to the length that it is asked for.
func TestLoop_OneAnswerOver(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		sp := spec()
		sp.Iterations = 50
		sp.Price = &core.AgentPrice{Input: float64(random.IntN(4)), Output: float64(random.IntN(20)), CacheWrite: float64(random.IntN(5))}
		switch random.IntN(3) {
		case 0:
			sp.Budget.Tokens = 500 + random.IntN(30000)
		case 1:
			sp.Budget.USD = 0.001 + random.Float64()/10
		default:
			sp.Budget.Tokens, sp.Budget.USD = 500+random.IntN(30000), 0.001+random.Float64()/10
		}
		obeys := random.IntN(2) == 0
		l := agent.New(sp, objectsOnly)
		s := l.Begin()
		tokens, usd, asked := 0, 0.0, 0 // before the newest answer
		for !s.Done {
			now := l.Failed(core.AgentAborted).Usage
			tokens, usd = now.Tokens(), *now.USD
			asked++
			if limit := sp.Budget; limit.Tokens > 0 && tokens > limit.Tokens || limit.USD > 0 && usd > limit.USD {
				t.Fatalf("seed %d: it is asked with %d tokens and $%f used of %+v", seed, tokens, usd, limit)
			}
			a := script(fmt.Sprint("return ", asked))
			a.Usage = &model.Usage{Input: model.Estimate(*s.Ask), Output: int64(random.IntN(s.Ask.MaxTokens + 1))}
			if !obeys {
				a.Usage.Input, a.Usage.CacheWrite, a.Usage.Output = int64(random.IntN(4000)), int64(random.IntN(500)), int64(random.IntN(9000))
				if random.IntN(3) == 0 {
					a.Usage, a.Blocks = nil, json.RawMessage(`"`+strings.Repeat("x", random.IntN(20000))+`"`)
				}
			}
			s = l.Answered(a, 1)
			for _, r := range s.Runs {
				s = l.Ran(r.Call, agent.Outcome{Result: json.RawMessage(strconv.Itoa(asked))})
			}
		}
		u := s.Result.Usage
		if b := sp.Budget; obeys && (b.Tokens > 0 && u.Tokens() > b.Tokens || b.USD > 0 && *u.USD > b.USD+1e-9) {
			t.Errorf("seed %d: %d tokens and $%f of %+v", seed, u.Tokens(), *u.USD, b)
		}
		if s.Result.Stop != core.AgentBudgetSpent && s.Result.Stop != core.AgentMaxIterations {
			t.Errorf("seed %d: %+v", seed, s.Result)
		}
	}
}

// TestLoop_FreeAnswers: money for prompts counts, also where answers cost nothing.
func TestLoop_FreeAnswers(t *testing.T) {
	t.Parallel()
	sp := spec()
	sp.Price, sp.Budget.USD = &core.AgentPrice{Input: 1000}, 0.01
	l := agent.New(sp, objectsOnly)
	s := l.Begin()
	asked := 0
	for ; !s.Done; asked++ {
		a := script(fmt.Sprint("return ", asked))
		a.Usage = &model.Usage{Input: model.Estimate(*s.Ask), Output: 5}
		s = l.Answered(a, 1)
		for _, r := range s.Runs {
			s = l.Ran(r.Call, agent.Outcome{Result: json.RawMessage(strconv.Itoa(asked))})
		}
	}
	if s.Result.Stop != core.AgentBudgetSpent || *s.Result.Usage.USD > sp.Budget.USD {
		t.Errorf("after %d answers: %+v, $%f", asked, s.Result, *s.Result.Usage.USD)
	}
}

// TestLoop_PausesForEver: a model that never gets to an end, and one whose answers are always
// cut off, use up their iterations.
func TestLoop_PausesForEver(t *testing.T) {
	t.Parallel()
	for _, stop := range []model.Stop{model.StopPause, model.StopTokens, model.StopContext} {
		l := agent.New(spec(), objectsOnly)
		s := l.Begin()
		asked := 0
		for ; !s.Done && asked < 100; asked++ {
			s = l.Answered(model.Answer{Stop: stop, Text: "still", Blocks: json.RawMessage(`["raw"]`), Usage: &model.Usage{Input: 10, Output: 5}}, 1)
		}
		if asked != spec().Iterations || s.Result == nil || s.Result.Stop != core.AgentMaxIterations || s.Result.Result != "still" {
			t.Errorf("%s: after %d answers: %+v", stop, asked, s.Result)
		}
	}
}
