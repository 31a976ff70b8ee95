package core

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// AgentSpec is what an agent works towards, and within which bounds. It is the
// program of a run of kind agent.
type AgentSpec struct {
	Goal string `json:"goal"`
	// Context is data that the caller gives along. It is shown to the model as data,
	// never as instructions.
	Context json.RawMessage `json:"context,omitempty"`
	// Allowed are the tools that the runs of the agent may call, as globs of
	// server:tool; nil: all that the caller may use; empty: none.
	Allowed *[]string `json:"allowed_tools,omitempty"`
	// Iterations bounds how many answers of the model are worked off.
	Iterations int         `json:"max_iterations"`
	Budget     AgentBudget `json:"budget,omitzero"`
	// Model is the name of the configured model.
	Model string `json:"model,omitempty"`
	// MaxTokens bounds one answer of the model.
	MaxTokens int `json:"max_tokens"`
	// Window is how many tokens the model takes in all; 0: that is not known.
	Window int `json:"window,omitempty"`
	// Price is that of the model when the run was made, nil where nobody knows it.
	Price *AgentPrice `json:"price,omitempty"`
	// System is the text that every request to the model begins with, as it was when
	// the run was made: whoever takes the run up asks with the same words.
	System string `json:"system"`
	// OutputSchema is the JSON schema of what the model says at the end; without it that
	// is text.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// Plain: the model is offered no tool and gives one answer.
	Plain bool `json:"plain,omitempty"`
	// More is what people have given the agent each time it had used up what it had,
	// oldest first.
	More []AgentMore `json:"more,omitempty"`
}

// AgentMore is what a person gives an agent that has used up what it had.
type AgentMore struct {
	Iterations int     `json:"iterations,omitempty"`
	Tokens     int     `json:"tokens,omitempty"`
	USD        float64 `json:"usd,omitempty"`
	Calls      int     `json:"calls,omitempty"`
}

// Text is what is given, in one line.
func (m AgentMore) Text() string {
	var parts []string
	for _, n := range []struct {
		n    int
		what string
	}{{m.Iterations, "iterations"}, {m.Tokens, "tokens"}, {m.Calls, "calls"}} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprintf("%d more %s", n.n, n.what))
		}
	}
	if m.USD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f more", m.USD))
	}
	return strings.Join(parts, ", ")
}

// Extend adds more to the bounds of an agent. What has no bound gets none.
func (s *AgentSpec) Extend(m AgentMore) {
	s.Iterations += m.Iterations
	if s.Budget.Tokens > 0 {
		s.Budget.Tokens += m.Tokens
	}
	if s.Budget.USD > 0 {
		s.Budget.USD += m.USD
	}
	if s.Budget.Calls > 0 {
		s.Budget.Calls += m.Calls
	}
}

// AgentBudget bounds what an agent may spend; 0: no bound.
type AgentBudget struct {
	Tokens int     `json:"tokens,omitempty"` // read and written, all requests together
	USD    float64 `json:"usd,omitempty"`
	Calls  int     `json:"calls,omitempty"` // of tools
	// Ask: a person is asked once, when most of it is used, whether the agent may use as
	// much again.
	Ask bool `json:"ask,omitempty"`
}

// Rest is what is left of a budget after something was spent of it, never less than
// next to nothing where there is a bound: 0 would be none.
func (b AgentBudget) Rest(tokens int, usd float64, calls int) AgentBudget {
	if b.Tokens > 0 {
		b.Tokens = max(1, b.Tokens-tokens)
	}
	if b.USD > 0 {
		b.USD = max(leastUSD, b.USD-usd)
	}
	if b.Calls > 0 {
		b.Calls = max(1, b.Calls-calls)
	}
	return b
}

// leastUSD pays for nothing.
const leastUSD = 1e-9

// Share is an equal part of a budget for one of several.
func (b AgentBudget) Share(n int) AgentBudget {
	if b.Tokens > 0 {
		b.Tokens = max(1, b.Tokens/n)
	}
	if b.USD > 0 {
		b.USD = max(leastUSD, b.USD/float64(n))
	}
	if b.Calls > 0 {
		b.Calls = max(1, b.Calls/n)
	}
	return b
}

// Within is a budget that is no larger than another one.
func (b AgentBudget) Within(o AgentBudget) AgentBudget {
	if o.Tokens > 0 && (b.Tokens == 0 || b.Tokens > o.Tokens) {
		b.Tokens = o.Tokens
	}
	if o.USD > 0 && (b.USD == 0 || b.USD > o.USD) {
		b.USD = o.USD
	}
	if o.Calls > 0 && (b.Calls == 0 || b.Calls > o.Calls) {
		b.Calls = o.Calls
	}
	return b
}

// AgentShare is what an agent that a call has started was given of its run's budget, and
// what it has used.
type AgentShare struct {
	Granted AgentBudget `json:"granted,omitzero"`
	Usage   AgentUsage  `json:"usage,omitzero"`
	Calls   int         `json:"calls,omitempty"`
}

// Add adds what somebody else has used. An amount of money that is not known makes the sum
// unknown.
func (u *AgentUsage) Add(o AgentUsage) {
	if o.Tokens() > 0 && o.USD == nil {
		u.USD = nil
	} else if u.USD != nil && o.USD != nil {
		sum := *u.USD + *o.USD
		u.USD = &sum
	}
	u.Input += o.Input
	u.Output += o.Output
	u.CacheRead += o.CacheRead
	u.CacheWrite += o.CacheWrite
	u.LostAttempts += o.LostAttempts
	u.Unreported += o.Unreported
}

// The built-in server of agents: its tools start agents, as runs below the one that calls
// them.
const (
	AgentServer  = "agent"
	DelegateTool = "agent:delegate"
)

// StartsAgent reports whether a tool is one of the built-in server of agents.
func StartsAgent(tool string) bool { return strings.HasPrefix(tool, AgentServer+":") }

// ProviderTool is what a permission to send conversations to the provider of a model at a
// URL is about: a name beside those of tools, for rules and approvals.
func ProviderTool(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return ModelTool + "/unknown"
	}
	return ModelTool + "/" + strings.ToLower(u.Host)
}

// IsProvider reports whether a permission is about a provider of models.
func IsProvider(tool string) bool { return strings.HasPrefix(tool, ModelTool+"/") }

// MaxAgents is how many agents may be inside one another.
const MaxAgents = 3

// AgentPrice is the price of a model in US dollars for a million tokens.
type AgentPrice struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read,omitempty"`
	CacheWrite float64 `json:"cache_write,omitempty"`
}

// AgentStop says why an agent stopped.
type AgentStop string

// The reasons to stop.
const (
	AgentEndTurn       AgentStop = "end_turn"       // the model had nothing more to do
	AgentMaxIterations AgentStop = "max_iterations" // the bound of iterations
	AgentBudgetSpent   AgentStop = "budget"         // the next answer could cost more than is left
	AgentRefused       AgentStop = "refused"        // the model refused
	AgentNoProgress    AgentStop = "no_progress"    // it went round in circles, and pml had warned it
	AgentDenied        AgentStop = "denied"         // a person has refused the same call twice
	AgentFailed        AgentStop = "failed"         // its run has failed
	AgentTimeout       AgentStop = "timeout"        // its run took longer than it may
	AgentAborted       AgentStop = "aborted"        // somebody has ended its run
)

// AgentUsage is what an agent has used. USD is nil where the price is not known.
type AgentUsage struct {
	Input      int      `json:"input"`
	Output     int      `json:"output"`
	CacheRead  int      `json:"cache_read"`
	CacheWrite int      `json:"cache_write"`
	USD        *float64 `json:"usd,omitempty"`
	// LostAttempts counts the requests whose answer nobody has kept, because pml ended
	// first: what they cost is not known.
	LostAttempts int `json:"lost_attempts"`
	// Unreported counts the answers whose provider did not say what they used; what
	// pml estimates of them is in the other numbers.
	Unreported int `json:"unreported,omitempty"`
}

// Exhausted reports whether an agent has stopped because it had used up what it was
// given: with more of it, it can go on.
func (s AgentStop) Exhausted() bool { return s == AgentMaxIterations || s == AgentBudgetSpent }

// Tokens are all that were read and written.
func (u AgentUsage) Tokens() int { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// AgentResult is what an agent came to: the result of its run.
type AgentResult struct {
	Success bool   `json:"success"`
	Result  string `json:"result"`
	// Output is the result as JSON, where a schema was asked for.
	Output     json.RawMessage `json:"output,omitempty"`
	Stop       AgentStop       `json:"stop_reason"`
	Iterations int             `json:"iterations"`
	Usage      AgentUsage      `json:"usage"`
	Calls      int             `json:"calls"`
	Runs       []ID            `json:"runs"`
}

// ChildID is the id of the run that a call of another run starts. It follows from
// the two, so that whoever takes the parent up finds the child that is there.
func ChildID(parent ID, call string) ID {
	h := sha256.Sum256([]byte(string(parent) + "\x00" + call))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8 of RFC 9562: made by a rule of our own
	return ID(fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}
