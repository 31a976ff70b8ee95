package local

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
)

// Tools lists the tools of every server that needs no decision first; problems
// names the others and why.
func (c *Client) Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error) {
	h, err := c.own()
	if err != nil {
		return nil, nil, err
	}
	return h.Tools(ctx)
}

// load reads the files of the client's own workspace.
func (c *Client) load() (*env.Config, error) {
	return env.Load(env.LoadOptions{Workspace: c.o.Workspace, Home: c.o.Home, Environ: c.o.Environ, Server: c.o.Server})
}

// Trust says what the workspace's files grant and whether this machine trusts
// it.
func (c *Client) Trust(context.Context) (api.TrustState, error) {
	cfg, err := c.load()
	if err != nil {
		return api.TrustState{}, err
	}
	s, err := c.o.Home.TrustOf(cfg)
	if err != nil {
		return api.TrustState{}, err
	}
	return api.TrustState{
		Workspace: s.Workspace, Trusted: s.Trusted, Empty: s.Empty, Digest: s.Digest, Content: s.Content, Diff: s.Diff,
	}, nil
}

// SetTrust trusts what was shown, named by its digest. pin is needed where one
// is set. It is in the audit log before it counts.
func (c *Client) SetTrust(ctx context.Context, digest, pin string) error {
	if err := c.checkPin(pin, "pml", "trust"); err != nil {
		return err
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	s, err := c.o.Home.TrustOf(cfg)
	if err != nil {
		return err
	}
	if digest == s.Digest {
		err := c.record(ctx, core.AuditRow{Digest: digest, Outcome: core.ApprovalApproved, Reason: "trusted what the files of the workspace grant"})
		if err != nil {
			return err
		}
	}
	return c.o.Home.SetTrust(s, digest, c.now())
}

// Init writes a first .pml.json. An existing one stays.
func (c *Client) Init(context.Context) (string, error) {
	path := c.o.Workspace.Config()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return path, core.Errorf(core.CodeInvalidArguments, "%s is there already; it was left as it is", path).WithNext("pml", "config", "show")
	}
	if err != nil {
		return path, core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", path, err)
	}
	_, err = f.Write(env.Starter())
	if err = errors.Join(err, f.Close()); err != nil {
		return path, core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", path, err)
	}
	return path, nil
}

// Config is the effective configuration; values of keys are left out.
func (c *Client) Config(context.Context) (json.RawMessage, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	return cfg.Show(), nil
}

// Paths says where things are kept.
func (c *Client) Paths(context.Context) (api.Paths, error) {
	return api.Paths{
		Home: c.o.Home.Dir, HomeConfig: c.o.Home.Config(), Workspace: c.o.Workspace.Dir,
		Config: c.o.Workspace.Config(), Lock: c.o.Workspace.Lock(),
	}, nil
}
