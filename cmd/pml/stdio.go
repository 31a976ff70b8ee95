package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/local"
	"github.com/casys-ai/pml/core/mcp"
	"github.com/casys-ai/pml/core/route"
	"github.com/casys-ai/pml/core/suggest"
	"github.com/casys-ai/pml/core/upstream"
)

// stdio answers an agent's host on stdin and stdout. Stdout has nothing but its
// messages; what a person should know goes to stderr.
func stdio(ctx context.Context, o cli.OpenOptions) error {
	collectAsUsual()
	log := newLogger(o.Log)
	o.Via, o.Warn = core.ViaMCP, func(text string) { log.Warn(core.Visible(text, 2000, false)) }
	scope := api.Scope{Confined: true, By: core.Actor{Who: userName(), Via: core.ViaMCP}}
	b, err := openHalves(o, func(half *local.Client) (*local.Client, error) { return half.In(scope) })
	if err != nil {
		return err
	}
	edge, err := newMCP(log, mcp.Fixed(scope), func(api.Scope) (mcp.Backend, error) { return agentBackend{b.Backend}, nil })
	if err == nil {
		err = edge.ServeStdio(ctx, os.Stdin, os.Stdout)
	}
	return errors.Join(err, b.Close())
}

// agentBackend is both halves as the tools of an agent see them.
type agentBackend struct{ *route.Backend }

// Events implements mcp.Backend: those of a run, whose half numbers them.
func (a agentBackend) Events(ctx context.Context, id core.ID, since int64, follow bool, f func(core.Event) error) error {
	return a.Backend.Events(ctx, id, api.Since{Any: since}, follow, f)
}

// newMCP makes the tools of an agent.
func newMCP(log *slog.Logger, scope func(context.Context) (api.Scope, bool), backend func(api.Scope) (mcp.Backend, error)) (*mcp.Edge, error) {
	return mcp.New(mcp.Options{
		Backend: backend, Scope: scope, Validate: new(upstream.Validator).Faults,
		Rank: func(intent string, tools []core.Tool, limit int) []api.SuggestedTool {
			found := suggest.New(tools).Suggest(suggest.Request{Intent: intent}).Tools
			return found[:min(limit, len(found))]
		},
		Clock: systemClock{}, Log: log, Version: build().Version,
	})
}
