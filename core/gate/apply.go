package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
)

// Apply carries out what was approved.
func (h *Host) Apply(ctx context.Context, a core.Approval, progress func(string)) error {
	subject := a.Subject
	if a.Type == core.ApproveTool {
		subject = a.Tool
	}
	name, tool, isTool := core.SplitTool(subject)
	if !isTool {
		name = subject
	}
	s, err := h.reader.fresh()
	if err != nil {
		return err
	}
	if a.Type == core.ApproveTool {
		return h.remember(s, a)
	}
	if core.IsProvider(a.Tool) {
		return nil // its keys: they are read anew with each request
	}
	if deny := s.refused(name+":*", name); deny != nil && deny.Code != core.CodePermissionDenied {
		return deny
	}
	srv := h.serverOf(s, name)
	if h.o.Applied != nil {
		defer h.o.Applied(name)
	}
	defer h.servers.forget(name)
	switch a.Type {
	case core.ApproveDependency:
		return srv.install(ctx, a, progress)
	case core.ApproveIntegrity:
		return srv.accept(a, tool)
	case core.ApproveOAuth:
		return srv.awaitConnection(ctx, progress)
	case core.ApproveKeys, core.ApproveTool, core.ApproveLayer, core.ApproveInDoubt, core.ApproveHook, core.ApproveBudget, core.ApproveHost:
	}
	return nil
}

// install installs exactly the tree that was approved. Why it could not is kept
// for the next question about that tree.
func (s *server) install(ctx context.Context, a core.Approval, progress func(string)) error {
	err := s.installTree(ctx, a, progress)
	if err == nil {
		return nil
	}
	failure := s.set.clean(err)
	switch failure.Code {
	case core.CodeInstallFailed, core.CodeIntegrityFailed:
		failure.Next = []string{"pml", "servers", "update", s.name}
		if err := s.host.o.Installer.Failures.Record(a.Digest, err, failure.Message); err != nil {
			s.host.o.Logger.Warn("cannot keep why a package was not installed", "server", s.name, "err", err)
		}
	default:
	}
	return failure
}

// cannotInstall is the error of a tree that npm could not install and would not
// install the next time: nobody is asked about it again before it is another one.
func (s *server) cannotInstall(want install.Resolved, f install.Failure) error {
	return core.Errorf(f.Code, "%s@%s was approved for the server %s and cannot be installed: %s; pml does not ask about the same tree again: look for a newer one with pml servers update %s, or name another version in the server's entry",
		want.Name, want.Version, s.name, s.set.redact.String(f.Message), s.name).WithNext("pml", "servers", "update", s.name)
}

// resolving bounds what npm does to find out what a package stands for.
func (s *settings) resolving(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.npmWithin(ctx, s.granted.Limits.InstallFor(0), "")
}

// installing bounds what npm does to install a tree, by its size.
func (s *settings) installing(ctx context.Context, want install.Resolved) (context.Context, context.CancelFunc) {
	n := len(want.Packages)
	return s.npmWithin(ctx, s.granted.Limits.InstallFor(n), fmt.Sprintf(", which is %s here and grows with the %d packages", s.granted.Limits.Install, n))
}

func (s *settings) npmWithin(ctx context.Context, limit time.Duration, why string) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, core.Errorf(core.CodeInstallFailed, "npm did not finish within %s (limits.install%s); check the network, or set a longer limit", limit, why))
}

func (s *server) installTree(ctx context.Context, a core.Approval, progress func(string)) error {
	resolved, err := s.set.granted.Resolve(s.name)
	if err != nil {
		return err
	}
	in := s.host.o.Installer
	spec, err := s.recognize(resolved)
	if err != nil {
		return err
	}
	resolving, cancel := s.set.resolving(ctx)
	defer cancel()
	want, err := in.Resolve(resolving, spec, s.pinned(spec))
	if err != nil {
		return err
	}
	if want.Digest != a.Digest {
		return core.Errorf(core.CodeDigestMismatch, "%s@%s is no longer the tree that was approved (%s, now %s); look at it again",
			want.Name, want.Version, a.Digest, want.Digest)
	}
	scripts := a.Answer != nil && a.Answer.Scripts
	ctx, cancel = s.set.installing(ctx, want)
	defer cancel()
	if _, err := in.Install(ctx, spec, want, scripts, progress); err != nil {
		return err
	}
	if _, known := in.Approvals.PackageApproved(s.approvalKey(), want.Digest); !known {
		// Its tools come with it.
		if err := in.Approvals.ForgetBelow(rememberedTool, s.toolKey("")); err != nil {
			return err
		}
	}
	return s.pin(spec, want, scripts, func(e install.LockEntry) map[string]string {
		if e.Digest != want.Digest {
			return nil
		}
		return e.Tools
	})
}

// pin records an approved tree in pml.lock and on this machine; tools says
// which of the recorded tools stay recorded. The lock comes first: a tree that
// is pinned and not approved is asked for again, one that is approved and not
// pinned would run without a pin.
func (s *server) pin(spec launch.Spec, want install.Resolved, scripts bool, tools func(install.LockEntry) map[string]string) error {
	err := s.updateLock(func(e *install.LockEntry) {
		kept, claims := tools(*e), e.ReadOnly
		*e = want.Entry(spec)
		if e.Tools = kept; kept != nil {
			e.ReadOnly = claims
		}
	})
	if err != nil {
		return err
	}
	// Its command is approved, or asked about, when it is about to run.
	return s.host.o.Installer.Approvals.ApprovePackage(s.approvalKey(), want.Digest, scripts && len(want.Scripts) > 0)
}

// accept records what a person has accepted as the new state of things.
func (s *server) accept(a core.Approval, tool string) error {
	var c struct {
		Kind    string `json:"kind"`
		NewHash string `json:"new_hash"`
		File    string `json:"file_hash"` // of the files of a command
		// ReadOnly are the tools of which it is accepted that they only read.
		ReadOnly []string `json:"read_only"`
	}
	if err := json.Unmarshal(a.Context, &c); err != nil {
		return core.Errorf(core.CodeInternal, "cannot read the approval %s: %w", a.ID.Short(), err)
	}
	if c.Kind == approvedClaims {
		return s.updateLock(func(e *install.LockEntry) { acceptClaims(e, c.ReadOnly...) })
	}
	key := s.approvalKey()
	if c.Kind == approvedTool {
		key = s.toolKey(tool)
	}
	agreed := []install.Approval{{Kind: c.Kind, Key: key, Digest: c.NewHash}}
	if c.Kind == approvedCommand && c.File != "" {
		agreed = append(agreed, install.Approval{Kind: approvedFile, Key: key, Digest: c.File})
	}
	if err := s.host.o.Installer.Approvals.ApproveAll(agreed); err != nil {
		return err
	}
	return s.updateLock(func(e *install.LockEntry) {
		switch c.Kind {
		case approvedCommand:
			// Exactly the files that were shown come with it.
			if e.CommandDigest != c.NewHash || c.File != "" {
				e.CommandDigest, e.FileDigest = c.NewHash, c.File
			}
		case approvedFile:
			e.FileDigest = c.NewHash
		case approvedTool:
			if e.Tools == nil {
				e.Tools = map[string]string{}
			}
			e.Tools[tool] = c.NewHash
			acceptClaims(e, c.ReadOnly...)
		}
	})
}
