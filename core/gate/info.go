package gate

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/upstream"
)

// The words for what a server is that has no command.
const (
	kindHTTP    = "http"
	kindBuiltin = "builtin"
)

// Servers lists all configured servers, by name, and the one that is built in.
// Nothing is started and the network is not asked: a server counts as ready
// when nothing that is known here speaks against it, and its last start neither failed nor
// left a question about its tools.
func (h *Host) Servers() ([]api.ServerInfo, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	var out []api.ServerInfo
	for _, name := range s.names() {
		i := h.info(s, name)
		h.starts.pending(h.serverOf(s, name), &i)
		out = append(out, i)
	}
	return out, nil
}

// names are all servers, trusted or not, the built-in ones last: that of agents where
// there is a model to ask.
func (s *settings) names() []string {
	names := slices.Sorted(maps.Keys(s.all.Servers))
	if s.granted.HasModel() {
		names = append(names, core.AgentServer)
	}
	return append(names, Builtin)
}

// selected checks names that were given; none are all.
func (s *settings) selected(names []string) ([]string, error) {
	if len(names) == 0 {
		return s.names(), nil
	}
	for _, name := range names {
		if _, ok := s.all.Servers[name]; !ok && !builtin(name) {
			return nil, core.Errorf(core.CodeNoSuchTool, "there is no server %q%s; servers are configured in mcpServers of .pml.json",
				core.Visible(name, 60, false), core.Suggest(name, s.names())).WithNext("pml", "servers", "ls")
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}

// info is what is known of a server without starting it.
func (h *Host) info(s *settings, name string) api.ServerInfo {
	if builtin(name) {
		return api.ServerInfo{Name: name, State: api.ServerReady, Origin: kindBuiltin, Kind: kindBuiltin, Tools: h.o.Upstream.LocalTools(name)}
	}
	e, granted := s.granted.Servers[name]
	if !granted {
		e = s.all.Servers[name]
	}
	srv := &server{host: h, set: s, name: name, entry: e}
	i := api.ServerInfo{
		Name: name, State: api.ServerReady, Origin: string(e.Origin), File: e.File, Kind: kindHTTP,
		URL: s.redact.String(e.URL), Health: srv.health(),
	}
	if e.Type == env.TypeStdio {
		srv.describeCommand(&i)
	}
	if configured := s.all.Servers[name]; granted && configured.Origin != e.Origin {
		warn(&i, "the entry in "+configured.File+", which is not trusted on this machine, replaces this one once it is")
	}
	if !granted {
		i.State, i.Next = api.ServerNotTrusted, []string{"pml", "trust"}
		return i
	}
	i.Tools = len(srv.locked().Tools)
	if i.State != api.ServerFailed {
		srv.expect(&i)
		h.starts.recall(srv, &i)
	}
	return i
}

// describeCommand fills in what the command of a server is, as configured, and
// what it is pinned to.
func (s *server) describeCommand(i *api.ServerInfo) {
	for _, word := range append([]string{s.entry.Command}, s.entry.Args...) {
		i.Command = append(i.Command, s.set.redact.String(word))
	}
	spec, err := launch.Recognize(launch.Command{Name: s.name, Command: s.entry.Command, Args: s.entry.Args})
	if err != nil {
		i.Kind = string(launch.KindOther)
		fault(i, s.set.clean(err))
		return
	}
	i.Kind, i.Package, i.Range, i.Warning = string(spec.Kind), spec.Package, spec.Range, spec.Unpinned
	if spec.AnyCode != "" {
		warn(i, "runs any code, by its command line ("+core.Visible(spec.AnyCode, 60, false)+")")
	}
	if pinned := s.pinned(spec); spec.Kind == launch.KindNPM && pinned != nil {
		i.Version, i.Digest = pinned.Version, pinned.Digest
		scripts, _ := s.host.o.Installer.Approvals.PackageApproved(s.approvalKey(), pinned.Digest)
		_, i.Installed, err = s.host.o.Installer.Installed(spec, pinned.Digest, scripts)
		if err != nil {
			fault(i, s.set.clean(err))
		}
	}
}

// expect fills in what stands against a server, as far as that is known without
// doing anything.
func (s *server) expect(i *api.ServerInfo) {
	resolved, err := s.set.granted.Resolve(s.name)
	if err != nil {
		fault(i, s.set.clean(err))
		return
	}
	if len(resolved.Missing) > 0 {
		need(i, s.keysAsk(resolved.Missing))
	}
	if resolved.Type != env.TypeStdio {
		if spec, err := endpoint(resolved); err != nil {
			fault(i, s.set.clean(err))
		} else if ask := s.commandChanged(spec, resolved); ask != nil {
			need(i, *ask)
		}
		return
	}
	spec, err := s.recognize(resolved)
	if err != nil {
		fault(i, s.set.clean(err))
		return
	}
	if _, approved := s.host.o.Installer.Approvals.PackageApproved(s.approvalKey(), i.Digest); spec.Kind == launch.KindNPM && (!i.Installed || !approved) {
		need(i, engine.Ask{
			Type: core.ApproveDependency, Digest: i.Digest,
			Description: spec.Package + "@" + cmp.Or(i.Version, spec.Range) + " is not installed, or was not approved on this machine.",
			Context:     map[string]any{"tool": s.name, "server": s.name, "range": spec.Range},
		})
		return
	}
	if ask := s.commandChanged(spec, resolved); ask != nil {
		need(i, *ask)
	}
}

// warn adds to what a person should know of a server.
func warn(i *api.ServerInfo, text string) {
	if i.Warning != "" {
		text = i.Warning + "; " + text
	}
	i.Warning = text
}

// fault says that a server does not work, and why.
func fault(i *api.ServerInfo, e *core.Error) {
	i.State, i.Error, i.Code, i.Next = api.ServerFailed, e.Error(), e.Code, e.Next
}

// unresolved names, in the error of a package that the registry does not have, the command
// that gives its server another one.
func unresolved(s *server, err error) error {
	if !install.IsNotFound(err) {
		return err
	}
	return core.AsError(err).WithNext(replaceCommand(s.name, string(s.entry.Origin))...)
}

// need says that somebody must decide something about a server first, and which
// command shows and decides it where there is one beside a call.
func need(i *api.ServerInfo, ask engine.Ask) {
	i.State = api.ServerNeeds
	if len(i.Next) == 0 {
		switch ask.Type {
		case core.ApproveDependency:
			i.Next = []string{"pml", "servers", "update", i.Name}
			if !i.Installed { // that is no update to who reads it, whatever pml.lock pins
				i.Next[2] = "install"
			}
		case core.ApproveIntegrity, core.ApproveKeys:
			i.Next = []string{"pml", "servers", "install", i.Name}
		case core.ApproveOAuth:
			i.Next = []string{"pml", "servers", "connect", i.Name}
		default:
		}
	}
	i.Needs = append(i.Needs, api.ServerNeed{Type: ask.Type, Description: ask.Description, Context: ask.Context, Digest: ask.Digest})
}

// health is what is known of a server's process, nil when it has none, and when it failed as it was configured before.
func (s *server) health() *api.ServerHealth {
	v, ok := s.host.o.Upstream.Health(s.name, s.host.o.Workspace.Dir)
	if !ok {
		return nil
	}
	if v.Failures > 0 && v.Entry != "" {
		if now, err := s.resolve(); err == nil && now.Digest != v.Entry {
			return nil
		}
	}
	return healthOf(s.set, v)
}

func healthOf(s *settings, v upstream.Health) *api.ServerHealth {
	out := &api.ServerHealth{
		State: v.State, PID: v.PID, StartMS: float64(v.Start.Microseconds()) / 1000, Protocol: s.redact.String(v.Protocol),
		Server: core.Visible(s.redact.String(v.Server), 200, false), Failures: v.Failures,
		LastError: s.redact.String(v.LastError), Stderr: s.redact.String(v.Stderr),
	}
	if !v.RetryAt.IsZero() {
		at := v.RetryAt.UTC()
		out.RetryAt = &at
	}
	return out
}

// atOnce is how many servers are checked at the same time.
const atOnce = 4

// CheckServers finds out how servers really stand: each is prepared as for a
// call, and started where nothing must be decided first. Without names it is
// all of them. What is wrong with one is part of its info; the error is for
// names that are not configured and for files that cannot be read. When the
// context ends first the error says so beside what was found.
func (h *Host) CheckServers(ctx context.Context, names ...string) ([]api.ServerInfo, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	if names, err = s.selected(names); err != nil {
		return nil, err
	}
	out := ofEach(h.o.Logger, names, "a server was checked",
		func(name string) api.ServerInfo { return h.checkServer(ctx, s, name) },
		func(name string, err *core.Error) api.ServerInfo {
			i := api.ServerInfo{Name: name}
			fault(&i, err)
			return i
		})
	return out, stopped(ctx)
}

// RestartServer ends the process that a server has here, if there is one, and starts it
// anew. Calls that it is in fail; processes that others have started go on.
func (h *Host) RestartServer(ctx context.Context, name string) ([]api.ServerInfo, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	if _, err := s.selected([]string{name}); err != nil {
		return nil, err
	}
	h.o.Upstream.Stop(name, h.o.Workspace.Dir)
	return h.CheckServers(ctx, name)
}

// ofEach asks some servers at the same time and returns the answers in the order of
// the names; failed is the answer of one at which the asking panicked.
func ofEach[T any](log *slog.Logger, names []string, doing string, ask func(name string) T, failed func(name string, err *core.Error) T) []T {
	out := make([]T, len(names))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for n, name := range names {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			defer core.Recover(log, doing, func(err *core.Error) { out[n] = failed(name, err) }, "server", name)
			out[n] = ask(name)
		})
	}
	wg.Wait()
	return out
}

func (h *Host) checkServer(ctx context.Context, s *settings, name string) api.ServerInfo {
	i := h.info(s, name)
	if i.State == api.ServerNotTrusted {
		return i
	}
	k := h.servers.of(name)
	h.servers.forget(name)
	r, err := k.prepare(ctx, s)
	i.Health = h.serverOf(s, name).health()
	if err != nil {
		i.Tools, i.Needs, i.FailedAt = 0, nil, nil
		fault(&i, s.clean(err))
		mend(h.serverOf(s, name).entry, &i)
		return i
	}
	i.State, i.Needs, i.Error, i.Code, i.Next, i.FailedAt = api.ServerReady, nil, "", "", nil, nil
	asks, err := h.serverOf(s, name).stillAsks(r)
	for _, ask := range asks {
		need(&i, ask)
	}
	if err != nil {
		fault(&i, s.clean(err))
	}
	i.Tools, i.Changed = len(r.tools), r.diff
	if now := h.serverOf(s, name).entryNow(); i.Package != "" && now.Package == i.Package && now.Range == i.Range {
		i.Version, i.Digest = now.Version, now.Digest
	}
	return i
}

// stillAsks are what a server that was looked at asks for before any of its tools is
// called.
func (s *server) stillAsks(r readiness) ([]engine.Ask, error) {
	if len(r.asks) > 0 || !s.claimsOpen(r) {
		return r.asks, nil
	}
	ask, err := s.claimsAsk(r)
	if err != nil {
		return nil, err
	}
	return []engine.Ask{ask}, nil
}

// entryNow is the server's entry of the pml.lock in force now; what cannot be
// read is left out.
func (s *server) entryNow() install.LockEntry {
	now, err := s.host.reader.fresh()
	if err != nil {
		return install.LockEntry{}
	}
	return s.host.serverOf(now, s.name).locked()
}
