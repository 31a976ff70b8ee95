package mcp

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// delegateArgs are the arguments of agent_delegate.
type delegateArgs struct {
	Goal          string           `json:"goal"`
	Name          string           `json:"name"`
	Context       json.RawMessage  `json:"context"`
	Allowed       *[]string        `json:"allowed_tools"`
	Alias         *[]string        `json:"allowedTools"`
	MaxIterations int              `json:"max_iterations"`
	Budget        core.AgentBudget `json:"budget"`
	Model         string           `json:"model"`
	Schema        json.RawMessage  `json:"output_schema"`
	Options       struct {
		api.ExecuteOptions
		Wait *int64 `json:"wait"`
	} `json:"options"`
}

// delegate starts an agent. What it waits for and how long is as with execute.
func delegate(ctx context.Context, e *Edge, c *call) (any, error) {
	in := &delegateArgs{}
	if err := decode(c, in); err != nil {
		return nil, err
	}
	switch {
	case in.Options.Timeout > maxMS:
		return nil, refuse(c.name, "/options/timeout", "it must be at most "+strconv.Itoa(maxMS)+", a year")
	case in.Allowed != nil && in.Alias != nil:
		return nil, refuse(c.name, "/allowedTools", "it is the same as allowed_tools; give one of them")
	case in.Allowed == nil:
		in.Allowed = in.Alias
	}
	in.Budget.Ask = in.Budget.Ask || c.asks()
	p := patienceOf(in.Options.Wait)
	req := &api.ExecuteRequest{
		Agent: &core.AgentSpec{
			Goal: in.Goal, Context: in.Context, Allowed: in.Allowed, Iterations: in.MaxIterations, Budget: in.Budget, Model: in.Model, OutputSchema: in.Schema,
		},
		Name: in.Name, By: c.by, Wait: p.limit, HoldApprovals: p.hold && !c.asks(), IdempotencyKey: in.Options.IdempotencyKey,
		RunOptions: core.RunOptions{TimeoutMS: in.Options.Timeout},
	}
	return e.runHeld(ctx, c, req, p)
}
