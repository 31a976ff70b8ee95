package setup

import (
	"context"
	"errors"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/oauth"
)

// Servers are the MCP servers of a workspace and of the home.
type Servers struct {
	base
	pin *Pin

	mu       sync.Mutex
	removing map[string]string // by server: the URL of one that RemoveServers was asked for
}

// Servers lists the configured servers of the workspace and the home. Nothing
// is started and the network is not asked.
func (s *Servers) Servers(context.Context) ([]api.ServerInfo, error) {
	h, err := s.own()
	if err != nil {
		return nil, err
	}
	list, err := h.Servers()
	return s.elsewhere(list), err
}

// elsewhere adds what other processes have started. Where that cannot be read, the rest
// is listed without it.
func (s *Servers) elsewhere(list []api.ServerInfo) []api.ServerInfo {
	others, err := s.o.Machine.Elsewhere(s.o.Workspace.Dir)
	if err != nil {
		s.o.Machine.Logger().Warn("the servers of other processes cannot be listed", "error", err)
	}
	for i := range list {
		list[i].Elsewhere = others[list[i].Name]
	}
	return list
}

// CheckServers starts the servers that may be started, all of them without
// names, and says how they stand.
func (s *Servers) CheckServers(ctx context.Context, names ...string) ([]api.ServerInfo, error) {
	h, err := s.own()
	if err != nil {
		return nil, err
	}
	list, err := h.CheckServers(ctx, names...)
	return s.elsewhere(list), err
}

// RestartServer ends the process that a server has here, starts it anew, and says how
// it stands.
func (s *Servers) RestartServer(ctx context.Context, name string) ([]api.ServerInfo, error) {
	h, err := s.own()
	if err != nil {
		return nil, err
	}
	list, err := h.RestartServer(ctx, name)
	return s.elsewhere(list), err
}

// Purge removes what this machine keeps of a server, its credentials first.
func (s *Servers) Purge(_ context.Context, name string) (api.Removed, error) {
	h, err := s.own()
	if err != nil {
		return api.Removed{}, err
	}
	kept, err := s.disconnect(name)
	if err != nil {
		return api.Removed{}, err
	}
	removed, err := h.Packages().Purge(name)
	removed.Kept = append(removed.Kept, kept...)
	return removed, err
}

// disconnect forgets the credentials of a server that is configured, or that
// this process has prepared to remove, unless another one has the same URL.
func (s *Servers) disconnect(name string) (kept []string, err error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	address := s.removing[name]
	s.mu.Unlock()
	if now := addressOf(cfg, name); now != "" {
		address = now
	}
	if address == "" {
		return nil, nil
	}
	for other := range cfg.Servers {
		if other != name && addressOf(cfg, other) == address {
			return []string{"the credentials, which are those of " + other + " as well"}, nil
		}
	}
	return nil, s.o.Machine.Disconnect(oauth.Server{Name: name, URL: address})
}

// addressOf is the URL of a configured server, empty for one that has none.
func addressOf(cfg *env.Config, name string) string {
	r, err := cfg.Resolve(name)
	if err != nil {
		return "" // not configured, or a variable is not set: it was never reached
	}
	return r.URL
}

// LockServers pins servers in pml.lock, all of them without names, or with
// check only says which are not up to date. It approves and installs nothing.
func (s *Servers) LockServers(ctx context.Context, check bool, names ...string) (api.LockReport, error) {
	h, err := s.own()
	if err != nil {
		return api.LockReport{}, err
	}
	return h.Packages().Lock(ctx, check, names...)
}

// UpdateServer looks for a newer version of a server's package; with the digest
// of one that was shown it installs that, for which a PIN is needed where one
// is set.
func (s *Servers) UpdateServer(ctx context.Context, req api.UpdateRequest, progress func(string)) (api.Update, error) {
	h, err := s.own()
	if err != nil {
		return api.Update{}, err
	}
	if req.Digest != "" {
		if _, err := s.pin.Check(ctx, req.Pin, "pml", "servers", "update", req.Name); err != nil {
			return api.Update{}, err
		}
	}
	u, err := h.Packages().Update(ctx, req, progress)
	if !u.Installed {
		return u, err
	}
	return u, errors.Join(err, s.o.Audit.Record(ctx, core.AuditRow{
		Type: core.ApproveDependency, Tool: req.Name, Digest: req.Digest, Outcome: core.ApprovalApproved, By: req.By,
		Reason: installedAs(u) + u.Package + "@" + u.To,
	}))
}

// AcceptServer accepts what a server is now, which only a person does: one who was
// asked at a terminal, or has typed the PIN. The audit log has it first.
func (s *Servers) AcceptServer(ctx context.Context, req api.AcceptRequest) error {
	h, err := s.own()
	if err != nil {
		return err
	}
	proved, err := s.pin.Check(ctx, req.Pin, "pml", "servers", "install", req.Name)
	if err != nil {
		return err
	}
	if req.Presence != core.PresenceTerminal {
		if shows, err := s.pin.ShowsPerson(ctx); err != nil {
			return err
		} else if proved == "" || !shows {
			return core.Errorf(core.CodeAwaitingHuman, "a person accepts that %s is not what was approved, at a terminal or with the PIN; nothing was accepted", core.Visible(req.Name, 80, false)).
				WithNext("pml", "servers", "install", req.Name)
		}
		req.Presence = core.PresencePin
	}
	var asked core.Approval
	err = h.Accept(ctx, req.Name, req.Digest, func(a core.Approval) error {
		asked = a
		return s.o.Audit.Record(ctx, core.AuditRow{
			Type: a.Type, Tool: a.Tool, Digest: a.Digest, Outcome: core.ApprovalApproved, By: req.By, Asked: req.Presence,
			Reason: a.Description,
		})
	})
	if err == nil {
		s.o.Accepted(ctx, asked, req, proved)
	}
	return err
}

// installedAs tells a package's first version from a newer one.
func installedAs(u api.Update) string {
	if u.From == "" {
		return "installed "
	}
	return "updated to "
}

// ConnectServer takes a person through OAuth: show gets the URL to open. It
// returns once the server is connected, or the context ends.
func (s *Servers) ConnectServer(ctx context.Context, name string, show func(url string)) error {
	h, err := s.own()
	if err != nil {
		return err
	}
	if err := h.Connect(ctx, name, show); err != nil {
		return err
	}
	return s.o.Audit.Record(ctx, core.AuditRow{Type: core.ApproveOAuth, Tool: name, Outcome: core.ApprovalApproved, Reason: "connected"})
}
