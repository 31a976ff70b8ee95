package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/mcp"
	"github.com/casys-ai/pml/core/presence"
	"github.com/casys-ai/pml/core/proxy"
	"github.com/casys-ai/pml/core/route"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/core/setup"
	"github.com/casys-ai/pml/core/suggest"
	"github.com/casys-ai/pml/core/upstream"
)

// stdio answers an agent's host on stdin and stdout. Stdout has nothing but its
// messages; what a person should know goes to stderr.
func stdio(ctx context.Context, o app.OpenOptions) error {
	log := newLogger(o.Log, core.ViaMCP)
	o.Via, o.Warn = core.ViaMCP, func(text string) { log.Warn(core.Visible(text, 2000, false)) }
	scope := api.Scope{Confined: true, By: core.Actor{Who: userName(), Via: core.ViaMCP}}
	var view *service.Service
	b, err := openBackend(o, func(half *service.Service) (_ *service.Service, err error) {
		view, err = half.In(scope)
		return view, err
	})
	if err != nil {
		return err
	}
	said := newOnce(view.Logger().Handler())
	quiet := slog.New(said)
	defer context.AfterFunc(ctx, said.leave)()
	offered := &offering{Proxy: proxy.New(proxy.Options{Half: view, Log: quiet, Rank: rank}), log: quiet}
	defer sayConfiguration(ctx, view)()
	seen := agentBackend{b.Backend, view}
	var agent mcp.Backend = seen
	if b.server.named == "" {
		agent = ownBackend{seen, view}
	}
	here := attendance{log: quiet, dir: b.server.home.Clients(), host: api.ConnectedHost{
		Who: scope.By.Who, Workspace: b.server.workspace.Dir, Transport: "stdio", PID: os.Getpid(),
	}}
	edge, err := newMCP(b.server.home, mcp.Options{
		Log: quiet, Scope: mcp.Fixed(scope), Backend: func(api.Scope) (mcp.Backend, error) { return agent, nil },
		Proxy: func(api.Scope) (mcp.Proxy, error) { return offered, nil }, Introduced: here.join,
	})
	if err == nil {
		defer survivingPipes()()
		defer here.close()
		err = edge.ServeStdio(ctx, heard{os.Stdin, said.leave}, os.Stdout)
	}
	said.leave()
	offered.Close()
	return errors.Join(err, b.Close())
}

// attendance lists the client of this process among the hosts that are connected.
type attendance struct {
	log  *slog.Logger
	dir  string
	host api.ConnectedHost
	mu   sync.Mutex
	left func()
}

func (a *attendance) join(c core.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.host.Client, a.host.Since = c, systemClock{}.Now()
	left, err := presence.Join(a.dir, a.host)
	if err != nil {
		a.log.Warn("this host is not listed among those that are connected", "error", err)
		return
	}
	a.left = left
}

func (a *attendance) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left != nil {
		a.left()
	}
}

// sayConfiguration logs, beside everything else, why nothing of the
// configuration counts. What it returns waits until that is done.
func sayConfiguration(ctx context.Context, view *service.Service) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := view.Setup.Workspace.Config(ctx); err != nil && ctx.Err() == nil {
			view.Logger().Error("the configuration cannot be used, and no server with it", "error", core.AsError(err))
		}
	})
	return wg.Wait
}

// survivingPipes lets a host close its side of stdout or stderr without that
// being the end of the process in the middle of a call: the write fails, and
// calls get their time. The signal is caught, not ignored, as what is ignored is
// ignored by children too.
func survivingPipes() (stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGPIPE)
	return func() { signal.Stop(caught) }
}

// agentBackend is the backend of an agent: its runs, wherever they are, and the hook flows
// of this machine.
type agentBackend struct {
	*route.Backend
	api.FlowReads
}

// ownBackend is that of an agent whose runs are all this process's own.
type ownBackend struct {
	agentBackend
	half *service.Service
}

// Hold implements mcp.Holder.
func (o ownBackend) Hold(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error) {
	return o.half.Hold(ctx, id, limit)
}

// newMCP makes the tools of an agent.
func newMCP(home env.Home, o mcp.Options) (_ *mcp.Edge, err error) {
	if o.Secret, err = setup.Secret(home); err != nil {
		return nil, err
	}
	o.Validate = new(upstream.Validator).Faults
	o.Rank = rank
	o.Clock, o.Version = systemClock{}, buildVersion().Version
	return mcp.New(o)
}

// rank names the tools that fit an intent, best first.
func rank(intent string, tools []core.Tool, limit int) []api.SuggestedTool {
	found := suggest.New(tools).Suggest(suggest.Request{Intent: intent}).Tools
	return found[:min(limit, len(found))]
}

// gateways are the gateways of a server, one for each workspace and owner: what
// they know outlives a request.
type gateways struct {
	in func(api.Scope) (*service.Service, error)

	mu   sync.Mutex
	made map[[2]string]*proxy.Proxy
}

// of is the gateway of a scope.
func (g *gateways) of(scope api.Scope) (mcp.Proxy, error) {
	key := [2]string{scope.Workspace, scope.Owner}
	g.mu.Lock()
	defer g.mu.Unlock()
	if made := g.made[key]; made != nil {
		return made, nil
	}
	half, err := g.in(scope)
	if err != nil {
		return nil, err
	}
	if g.made == nil {
		g.made = map[[2]string]*proxy.Proxy{}
	}
	made := proxy.New(proxy.Options{Half: half, Log: slog.New(newOnce(half.Logger().Handler())), Rank: rank})
	g.made[key] = made
	return made, nil
}

// Close stops what they find out.
func (g *gateways) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, made := range g.made {
		made.Close()
	}
	g.made = nil
	return nil
}
