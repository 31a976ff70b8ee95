package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AgentSpent is what an agent has used so far, beside its bounds. It is computed where
// a run is shown, and never kept.
type AgentSpent struct {
	Model         string      `json:"model,omitempty"` // as the configuration calls it
	Iterations    int         `json:"iterations"`
	MaxIterations int         `json:"max_iterations"`
	Calls         int         `json:"calls"` // of tools, by the runs that have ended
	Usage         AgentUsage  `json:"usage"`
	Budget        AgentBudget `json:"budget,omitzero"`
	Price         *AgentPrice `json:"price,omitempty"`
}

// Tokens are all that were read and written.
func (s AgentSpent) Tokens() int { return s.Usage.Tokens() }

// Bounded is what an agent has used of what it was given, in one line.
func (s AgentSpent) Bounded() string {
	var parts []string
	if s.Budget.Calls > 0 {
		parts = append(parts, of(s.Calls, s.Budget.Calls, "calls"))
	}
	if s.Budget.Tokens > 0 {
		parts = append(parts, of(s.Tokens(), s.Budget.Tokens, "tokens"))
	}
	if s.Budget.USD > 0 {
		parts = append(parts, fmt.Sprintf("%s of $%.2f", s.Cost(), s.Budget.USD))
	}
	return strings.Join(parts, ", ")
}

func of(n, most int, what string) string {
	if most > 0 {
		return fmt.Sprintf("%d of %d %s", n, most, what)
	}
	if n == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Text is what an agent has used in one line, beside what it may use.
func (s AgentSpent) Text() string {
	parts := []string{of(s.Iterations, s.MaxIterations, "iterations"), of(s.Calls, s.Budget.Calls, "calls"), of(s.Tokens(), s.Budget.Tokens, "tokens")}
	cost := s.Cost()
	if s.Budget.USD > 0 {
		cost += fmt.Sprintf(" of $%.2f", s.Budget.USD)
	}
	return strings.Join(append(parts, cost), ", ")
}

// Cost is the money that an agent has spent, as people read it. What nobody knows is
// never 0.
func (s AgentSpent) Cost() string {
	switch {
	case s.Usage.USD == nil && s.Iterations == 0:
		return "nothing spent"
	case s.Usage.USD == nil:
		return "cost unknown"
	}
	return CostText(*s.Usage.USD, s.Usage.LostAttempts > 0)
}

// CostText is an amount of dollars. More is set where some of it is not known.
func CostText(usd float64, more bool) string {
	text := fmt.Sprintf("$%.4f", usd)
	if usd > 0 && usd < 0.0001 {
		text = "< $0.0001"
	}
	if more {
		text += " or more"
	}
	return text
}

// AgentStep is one request of an agent to its model, and the runs that its answer led to.
type AgentStep struct {
	Ask    Task
	Answer AgentAnswer
	Runs   []AgentChild
}

// AgentAnswer is what is shown of an answer of a model.
type AgentAnswer struct {
	Text  string `json:"text"`
	Stop  string `json:"stop"`
	Model string `json:"model"` // as the provider calls it
	// Usage is nil where the provider has not said what the answer has used.
	Usage *AgentUsage `json:"usage"`
}

// AgentChild is a run that an agent has started, by the call that did.
type AgentChild struct {
	Task   Task
	ID     ID
	Intent string
	Calls  int        // that it made, once it has ended
	Usage  AgentUsage // by agents that it has started
}

// AgentSteps are the steps of an agent, oldest first; nil of any other run.
func AgentSteps(w Workflow) []AgentStep {
	if w.Kind != KindAgent {
		return nil
	}
	var steps []AgentStep
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			switch {
			case t.Tool == ModelTool:
				steps = append(steps, AgentStep{Ask: t, Answer: AnswerOf(t)})
			case t.Tool == RunTool && len(steps) > 0:
				last := &steps[len(steps)-1]
				last.Runs = append(last.Runs, ChildOf(t))
			}
		}
	}
	return steps
}

// AnswerOf is the answer that a request to a model came to.
func AnswerOf(t Task) (a AgentAnswer) {
	if t.State != TaskSuccess || json.Unmarshal(t.Output, &a) != nil {
		return AgentAnswer{}
	}
	return a
}

// ChildOf is the run that a task has started; without an id of any other task.
func ChildOf(t Task) AgentChild {
	c := AgentChild{Task: t}
	if t.Tool != RunTool {
		return c
	}
	var args struct {
		ID     ID     `json:"workflow_id"`
		Intent string `json:"intent"`
	}
	var out struct {
		Calls int        `json:"calls"`
		Usage AgentUsage `json:"usage"`
	}
	if json.Unmarshal(t.Arguments, &args) == nil {
		c.ID, c.Intent = args.ID, args.Intent
	}
	if len(t.Output) > 0 && json.Unmarshal(t.Output, &out) == nil {
		c.Calls, c.Usage = out.Calls, out.Usage
	}
	return c
}

// USD is what an answer has cost; nil where that is not known.
func (a AgentAnswer) USD(p *AgentPrice) *float64 {
	if a.Usage == nil || p == nil {
		return nil
	}
	usd := (float64(a.Usage.Input)*p.Input + float64(a.Usage.Output)*p.Output + float64(a.Usage.CacheRead)*p.CacheRead + float64(a.Usage.CacheWrite)*p.CacheWrite) / 1e6
	return &usd
}

// SpentBy is what an agent has used, by its steps: of one that is complete its own
// result says it. What a person has let it use again is in its bounds.
func SpentBy(spec AgentSpec, w Workflow) AgentSpent {
	if slices.ContainsFunc(w.Approvals, func(a Approval) bool {
		return a.Type == ApproveBudget && a.RunID == w.ID && a.State == ApprovalApproved
	}) {
		spec.Extend(AgentMore{Tokens: spec.Budget.Tokens, USD: spec.Budget.USD, Calls: spec.Budget.Calls})
	}
	for _, m := range spec.More {
		spec.Extend(m)
	}
	s := AgentSpent{Model: spec.Model, MaxIterations: spec.Iterations, Budget: spec.Budget, Price: spec.Price}
	var r AgentResult
	if w.State == RunComplete && json.Unmarshal(w.Result, &r) == nil {
		s.Iterations, s.Calls, s.Usage = r.Iterations, r.Calls, r.Usage
		return s
	}
	if spec.Price != nil {
		s.Usage.USD = new(float64)
	}
	for _, step := range AgentSteps(w) {
		if step.Ask.State == TaskSuccess {
			s.Add(step.Answer)
			if strings.HasPrefix(step.Ask.ID, "s") { // a summary is no iteration
				s.Iterations--
			}
		}
		for _, c := range step.Runs {
			s.Calls += c.Calls
			s.Usage.Add(c.Usage)
		}
	}
	return s
}

// Add adds an answer and what it has used.
func (s *AgentSpent) Add(a AgentAnswer) {
	s.Iterations++
	if a.Usage == nil {
		s.Usage.Unreported++
		return
	}
	s.Usage.Input += a.Usage.Input
	s.Usage.Output += a.Usage.Output
	s.Usage.CacheRead += a.Usage.CacheRead
	s.Usage.CacheWrite += a.Usage.CacheWrite
	if usd := a.USD(s.Price); usd != nil && s.Usage.USD != nil {
		*s.Usage.USD += *usd
	}
}

// UsedText is the request of a step in a line: the model and what it has used.
func (s AgentStep) UsedText(p *AgentPrice) string {
	var parts []string
	switch s.Ask.State {
	case TaskQueued, TaskRunning, TaskWaiting, TaskError, TaskFailedSafe, TaskSkipped:
		parts = append(parts, string(s.Ask.State))
	case TaskSuccess:
		parts = append(parts, s.Answer.Model, s.used(), s.cost(p))
	}
	if s.Ask.DurationMS > 0 {
		parts = append(parts, time.Duration(s.Ask.DurationMS*float64(time.Millisecond)).Round(10*time.Millisecond).String())
	}
	if s.Ask.Error != nil {
		parts = append(parts, s.Ask.Error.Message)
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return Visible(strings.Join(parts, "  "), 0, false)
}

// SaidText is what the model said in a step, in one line and in quotes.
func (s AgentStep) SaidText() string {
	if s.Answer.Text == "" {
		return ""
	}
	return "“" + OneLine(s.Answer.Text, 200) + "”"
}

func (s AgentStep) used() string {
	u := s.Answer.Usage
	if u == nil {
		return "tokens not reported"
	}
	return fmt.Sprintf("%d+%d tokens", u.Input+u.CacheRead+u.CacheWrite, u.Output)
}

func (s AgentStep) cost(p *AgentPrice) string {
	if usd := s.Answer.USD(p); usd != nil {
		return CostText(*usd, false)
	}
	return "cost unknown"
}

// Below reports whether an agent, or a program by one, has started the run: lists have
// it below the one that did. What hooks of a flow have called stands for itself.
func (r Run) Below() bool { return r.ParentID != "" && (r.Kind != KindDAG || r.UnderAgent != "") }

// AgentPiece is the data of an event of EventAgentText.
type AgentPiece struct {
	// Offset counts the bytes of the answer before this piece; 0 begins an answer anew.
	Offset int `json:"offset"`
}

// PieceOf is the data of such an event.
func PieceOf(e Event) (p AgentPiece) {
	if e.Type != EventAgentText || json.Unmarshal(e.Data, &p) != nil {
		return AgentPiece{}
	}
	return p
}
