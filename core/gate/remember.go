package gate

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

// remember carries out how long a permission for a tool is to be remembered.
func (h *Host) remember(s *settings, a core.Approval) error {
	if a.Answer == nil {
		return nil
	}
	switch a.Answer.Remember {
	case core.RememberSession:
		h.sessions.grant(permit{a.Owner, a.Tool})
	case core.RememberRule:
		if a.Owner != "" {
			return core.Errorf(core.CodePermissionDenied, "a rule would allow %s to everybody who uses this workspace, so the decision about a run of %s writes none",
				core.Visible(a.Tool, 120, false), core.Visible(a.Owner, 60, false))
		}
		return h.writeRule(s, a.Tool)
	case core.RememberRun: // the engine's own
	}
	return nil
}

// permit is a tool that somebody may call: the owner of an API key or, where the
// owner is empty, the person whose process this is.
type permit struct{ owner, tool string }

// ownerSession is how long a session of an owner lasts: a server lives too long
// to be one.
const ownerSession = 8 * time.Hour

// forSession is what a call says of whom it was allowed by (core.Task.AllowedBy), that a person
// has permitted for the session.
const forSession = "a person, for the session"

// sessions are the tools that a person has allowed for the time of a session.
type sessions struct {
	clock core.Clock
	mu    sync.Mutex
	until map[permit]time.Time // zero: until this process ends
}

// grant remembers a permission until the session ends: that of an owner by time,
// any other one with this process.
func (g *sessions) grant(p permit) {
	var until time.Time
	now := g.clock.Now()
	if p.owner != "" {
		until = now.Add(ownerSession)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.until, func(_ permit, until time.Time) bool { return !until.IsZero() && !now.Before(until) })
	g.until[p] = until
}

// allow reports whether a person has allowed a call's tool for the
// session of its owner, whatever its arguments. It beats a rule that asks, which
// is what the person has answered; it never beats one that denies.
func (g *sessions) allow(call engine.Call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.until[permit{call.Owner, call.Tool}]
	return ok && (until.IsZero() || g.clock.Now().Before(until))
}

// Rule returns the rule that would remember the permission of a tool, and the
// workspace's .pml.json as it is and as it would be; they are equal when the
// rule stands there already. It changes nothing. A tool that is denied, or that
// a rule as specific asks for, is core.CodePermissionDenied: a rule that allows
// it would decide nothing. A file that cannot be written is an error too, so that
// nothing is decided on the strength of a rule that will not be there.
func (h *Host) Rule(tool string) (list, pattern, file string, before, after []byte, err error) {
	list, pattern, file = "allow", policy.Literal(tool), h.config.path
	fail := func(err error) (string, string, string, []byte, []byte, error) { return "", "", "", nil, nil, err }
	s, err := h.reader.recent()
	if err != nil {
		return fail(err)
	}
	if err := s.ruleDecides(tool, pattern); err != nil {
		return fail(err)
	}
	before, err = os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(core.Errorf(core.CodeInvalidConfig, "cannot read %s: %w", file, err))
	}
	if slices.Contains(s.all.Permissions.Allow, policy.Rule{Tool: pattern}) {
		return list, pattern, file, before, before, nil
	}
	after, err = env.AddRule(file, before, list, policy.Rule{Tool: pattern})
	if err == nil {
		err = h.config.writable()
	}
	if err != nil {
		return fail(err)
	}
	return list, pattern, file, before, after, nil
}

// ruleDecides reports, as an error, that a rule which allows a tool would not
// let it through.
func (s *settings) ruleDecides(tool, pattern string) error {
	if _, _, ok := core.SplitTool(tool); !ok {
		return core.Errorf(core.CodeNoSuchTool, "%s is not the name of a tool", core.Visible(tool, 120, false))
	}
	rules := s.all.Permissions
	rules.Allow = append(slices.Clone(rules.Allow), policy.Rule{Tool: pattern})
	with, err := policy.Compile(rules)
	if err != nil {
		return err
	}
	if v := with.Decide(tool, false); v.Effect != policy.Allow {
		return core.Errorf(core.CodePermissionDenied, "a rule that allows %s would decide nothing: %q in permissions.%s stands against it; change that rule by hand",
			core.Visible(tool, 120, false), v.Rule, v.List).WithNext("pml", "config", "show")
	}
	return nil
}

// writeRule writes the rule that remembers the permission of a tool into the
// workspace's .pml.json, which stays trusted if it was. A rule that stands
// there already is left.
func (h *Host) writeRule(s *settings, tool string) error {
	unlock, err := h.locks.exclusive()
	if err != nil {
		return notWritten(tool, err)
	}
	defer unlock()
	_, _, file, before, after, err := h.Rule(tool)
	if err != nil {
		return notWritten(tool, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	now, err := h.reader.load()
	if err != nil {
		return notWritten(tool, err)
	}
	trusted, err := h.o.Home.TrustEdit(s.trust, now, after, func() error { return h.config.replace(before, after) }, h.o.Clock.Now())
	h.reader.lookAgain()
	switch {
	case err != nil:
		return notWritten(tool, err)
	case !trusted:
		return core.Errorf(core.CodeNotTrusted, "the rule that allows %s was written to %s, which is not trusted on this machine; it counts once it is", core.Visible(tool, 120, false), file).
			WithNext("pml", "trust")
	}
	return nil
}

func notWritten(tool string, err error) error {
	e := core.AsError(err)
	out := core.Errorf(e.Code, "the rule that allows %s was not written: %w", core.Visible(tool, 120, false), err)
	out.Next = e.Next
	return out
}

// configFile is the workspace's .pml.json, which a person keeps.
type configFile struct{ path, workspace string }

// target is the file to replace. A link stays a link, and one out of the workspace
// is refused.
func (c configFile) target() (string, error) {
	target, err := atomicfile.Target(c.path, c.workspace)
	switch {
	case errors.Is(err, atomicfile.ErrOutside):
		return "", core.Errorf(core.CodeInvalidArguments, "%s is a symbolic link out of the workspace, which pml does not follow; change that file by hand, or put a file in the place of the link", c.path)
	case err != nil:
		return "", core.Errorf(core.CodeStoreFailed, "cannot find what %s is: %w", c.path, err)
	}
	return target, nil
}

// writable reports, as an error, that the file could not be replaced.
func (c configFile) writable() error {
	target, err := c.target()
	if err != nil {
		return err
	}
	draft, err := atomicfile.Create(target)
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", c.path, err)
	}
	draft.Discard()
	return nil
}

// replace replaces the file, unless it is no longer the one that was read.
func (c configFile) replace(before, after []byte) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if fi, err := os.Stat(target); err == nil {
		mode = fi.Mode().Perm()
	}
	if now, err := os.ReadFile(target); err != nil && !errors.Is(err, fs.ErrNotExist) || !bytes.Equal(now, before) {
		return core.Errorf(core.CodeDigestMismatch, "%s has just been changed by something else; try again", c.path)
	}
	if err := atomicfile.Write(target, after, mode); err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", c.path, err)
	}
	return nil
}
