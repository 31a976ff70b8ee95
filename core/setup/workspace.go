package setup

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/launch"
)

// Workspace is the folder that pml works in, with the files that say what is
// allowed there.
type Workspace struct {
	base
	pin *Pin
}

// Trust says what the workspace's files grant and whether this machine trusts
// it.
func (w *Workspace) Trust(context.Context) (api.TrustState, error) {
	cfg, err := w.load()
	if err != nil {
		return api.TrustState{}, err
	}
	s, err := w.o.Home.TrustOf(cfg)
	if err != nil {
		return api.TrustState{}, err
	}
	return api.TrustState{
		Workspace: s.Workspace, Trusted: s.Agreed(), Empty: s.Empty, Digest: s.Digest, Content: s.Content, Diff: s.Diff,
		Human:    slices.ContainsFunc([]*env.Config{cfg, cfg.Effective(s.Counts())}, func(c *env.Config) bool { return c.Approvals.Decider == env.DeciderHuman }),
		TakenOut: s.TakenOut, LockAside: s.LockAside, Warnings: append(commandWarnings(cfg), cfg.FlowWarnings()...),
	}, nil
}

// commandWarnings say of the servers that a workspace brings what their command
// lines leave open, and which of them run any code: trust in the text is not
// trust in bytes there.
func commandWarnings(cfg *env.Config) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(cfg.Servers)) {
		e := cfg.Servers[name]
		if e.Origin != env.FromWorkspace || e.Command == "" {
			continue
		}
		spec, err := launch.Recognize(launch.Command{Name: name, Command: e.Command, Args: e.Args})
		if err == nil && spec.Unpinned != "" {
			out = append(out, name+": "+spec.Unpinned)
		}
		if err == nil && spec.AnyCode != "" {
			out = append(out, name+": runs any code, by its command line ("+core.Visible(spec.AnyCode, 60, false)+"); it is asked about before its first start")
		}
	}
	return out
}

// SetTrust trusts what was shown, named by its digest. pin is needed where one
// is set. It is in the audit log before it counts.
func (w *Workspace) SetTrust(ctx context.Context, digest, pin string) error {
	if _, err := w.pin.Check(ctx, pin, "pml", "trust"); err != nil {
		return err
	}
	cfg, err := w.load()
	if err != nil {
		return err
	}
	s, err := w.o.Home.TrustOf(cfg)
	if err != nil {
		return err
	}
	if digest == s.Digest {
		err := w.o.Audit.Record(ctx, core.AuditRow{Digest: digest, Outcome: core.ApprovalApproved, Reason: trustedReason(s)})
		if err == nil {
			err = w.rememberCommands()
		}
		if err != nil {
			return err
		}
	}
	return w.o.Home.SetTrust(s, digest, w.now())
}

func trustedReason(s env.TrustState) string {
	const reason = "trusted what the files of the workspace grant"
	if len(s.TakenOut) == 0 {
		return reason
	}
	return reason + ", and that these are taken out: " + strings.Join(s.TakenOut, "; ")
}

// rememberCommands records the files that the workspace's servers run, as they
// are when it is trusted. With a configuration that is not valid none is started.
func (w *Workspace) rememberCommands() error {
	h, err := w.own()
	if err == nil {
		err = h.RememberCommands()
	}
	if core.CodeOf(err) == core.CodeInvalidConfig {
		return nil
	}
	return err
}

// Init writes a first .pml.json. An existing one stays. With trust the workspace is
// trusted with exactly that file, if its files granted nothing before and no PIN is
// set.
func (w *Workspace) Init(ctx context.Context, who api.Deciders, trust bool) (string, error) {
	path, text := w.o.Workspace.Config(), env.Starter(who.Agents, who.Dialog)
	write := func() error { return writeFirst(path, text) }
	if _, err := os.Lstat(path); err == nil {
		return path, isThere(path)
	}
	if need, err := w.pin.NeedsPin(ctx); err != nil || need || !trust {
		return path, write()
	}
	unlock, err := w.o.Machine.Exclusive()
	if err != nil {
		return path, err
	}
	defer unlock()
	cfg, err := w.load()
	if err != nil {
		return path, write()
	}
	before, err := w.o.Home.TrustOf(cfg)
	if err != nil || !before.Empty || len(before.TakenOut) > 0 {
		return path, write()
	}
	_, err = w.o.Home.TrustEdit(before, cfg, text, func() error {
		ch := api.Change{File: path, After: text}
		ch.Digest = changeDigest(ch)
		if err := w.recordChanges(ctx, changeSet(ch)); err != nil {
			return err
		}
		return write()
	}, w.now())
	return path, err
}

func isThere(path string) error {
	return core.Errorf(core.CodeInvalidArguments, "%s is there already; it was left as it is", path).WithNext("pml", "config", "show")
}

// writeFirst writes a file that is not there yet.
func writeFirst(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return isThere(path)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", path, err)
	}
	return nil
}

// DecidersChange prepares who decides in the .pml.json that is there.
func (w *Workspace) DecidersChange(_ context.Context, who api.Deciders) (api.ChangeSet, error) {
	file := w.o.Workspace.Config()
	before, err := current(file)
	if err != nil {
		return api.ChangeSet{}, err
	}
	after, err := env.SetDecider(file, before, who.Agents, who.Dialog)
	if err != nil {
		return api.ChangeSet{}, err
	}
	ch, err := w.Change(file, before, after)
	if err != nil {
		return api.ChangeSet{}, err
	}
	return changeSet(ch), nil
}

// Config is the effective configuration; values of keys are left out.
func (w *Workspace) Config(context.Context) (json.RawMessage, error) {
	cfg, err := w.config()
	if err != nil {
		return nil, err
	}
	return cfg.Show(), nil
}

// Paths says where things are kept.
func (w *Workspace) Paths(context.Context) (api.Paths, error) {
	return api.Paths{
		Home: w.o.Home.Dir, HomeConfig: w.o.Home.Config(), Workspace: w.o.Workspace.Dir,
		Config: w.o.Workspace.Config(), Lock: w.o.Workspace.Lock(),
	}, nil
}
