package setup

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/diff"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/redact"
)

// maxChanged bounds the files that are changed, as those that are read.
const maxChanged = 1 << 20

// current is the content of a file, nil when it is not there.
func current(file string) ([]byte, error) {
	fi, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > maxChanged) {
		return nil, core.Errorf(core.CodeInvalidConfig, "%s is no file of at most %d bytes; correct it and try again", file, maxChanged)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "cannot read %s: %w; make it readable", file, err)
	}
	return data, nil
}

// Change is a change of a configuration file, with the difference that a
// person is shown. Values of keys and the hash of a PIN are left out of that.
func (b *base) Change(file string, before, after []byte) (api.Change, error) {
	cfg, err := b.load()
	if err != nil {
		return api.Change{}, err // what the keys are is not known
	}
	shown := diff.Lines(string(before), string(after))
	for _, text := range [][]byte{before, after} {
		if hash := env.PinIn(text); hash != "" {
			shown = strings.ReplaceAll(shown, hash, "«PIN»")
		}
	}
	shown = redact.New(cfg.Secrets()).String(shown)
	out := api.Change{File: file, Diff: core.Visible(shown, 0, true), Before: before, After: after}
	out.Digest = changeDigest(out)
	return out, nil
}

// keysChange is a change of .env: its difference has names, never values.
func keysChange(file string, before, after []byte, names []string) api.Change {
	var diff strings.Builder
	diff.WriteString("@@ at the end @@\n")
	for _, name := range names {
		diff.WriteString("+" + name + "=«" + name + "»\n")
	}
	out := api.Change{File: file, Diff: core.Visible(diff.String(), 0, true), Before: before, After: after}
	out.Digest = changeDigest(out)
	return out
}

func changeSet(changes ...api.Change) api.ChangeSet {
	var out api.ChangeSet
	for _, ch := range changes {
		if !bytes.Equal(ch.Before, ch.After) {
			out.Changes = append(out.Changes, ch)
		}
	}
	return out
}

// changeDigest covers the file, as it was and as it will be.
func changeDigest(ch api.Change) string {
	digest, err := core.DigestOf([]any{ch.File, ch.Before, ch.After, ch.Before == nil})
	if err != nil {
		return "" // which no digest is equal to
	}
	return digest
}

// Write writes what was shown, in its order, each file as a whole. All files
// must be those that the changes were made from, or nothing is written
// (core.CodeDigestMismatch). A kill leaves a beginning of the list written,
// never half of a file. With keepTrust, for which a PIN is needed where one is
// set, a trusted workspace stays trusted with exactly these changes, and the audit
// log has them; trusted says whether it is afterwards.
func (w *Workspace) Write(ctx context.Context, set api.ChangeSet, keepTrust bool, pin string) (trusted bool, err error) {
	if keepTrust {
		if _, err := w.pin.Check(ctx, pin, "pml", "trust"); err != nil {
			return false, err
		}
	}
	if err := w.writeAll(ctx, set, keepTrust); err != nil {
		return false, err
	}
	if keepTrust && slices.ContainsFunc(set.Changes, w.trusts) { // a server that was added runs what is there now
		if err := w.rememberCommands(); err != nil {
			return false, err
		}
	}
	state, err := w.Trust(ctx)
	return state.Trusted, err
}

// trusts reports whether a change is one of what trust in the workspace covers.
func (w *Workspace) trusts(ch api.Change) bool {
	return ch.File == w.o.Workspace.Config() || ch.File == w.o.Workspace.Lock()
}

func (w *Workspace) writeAll(ctx context.Context, set api.ChangeSet, keepTrust bool) error {
	unlock, err := w.o.Machine.Exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	targets := make([]string, len(set.Changes))
	for i, ch := range set.Changes {
		if ch.Digest == "" || ch.Digest != changeDigest(ch) {
			return core.Errorf(core.CodeDigestMismatch, "the change of %s is not the one that was shown; look at it again", ch.File)
		}
		if targets[i], err = w.target(ch.File); err != nil {
			return err
		}
		if err := unchanged(ch, targets[i]); err != nil {
			return err
		}
	}
	if keepTrust {
		if err := w.recordChanges(ctx, set); err != nil {
			return err
		}
	}
	for i, ch := range set.Changes {
		if err := w.writeOne(ch, targets[i], keepTrust); err != nil {
			return err
		}
	}
	return nil
}

// recordChanges puts changes that a person has agreed to into the audit log,
// before any is written: their files grant more than they did.
func (w *Workspace) recordChanges(ctx context.Context, set api.ChangeSet) error {
	rows := make([]core.AuditRow, 0, len(set.Changes))
	for _, ch := range set.Changes {
		rows = append(rows, core.AuditRow{Digest: ch.Digest, Outcome: core.ApprovalApproved, Reason: core.ChangeReason(ch.About, ch.File)})
	}
	return w.o.Audit.Record(ctx, rows...)
}

// writeOne replaces one file. The workspace's own configuration is what trust
// covers.
func (w *Workspace) writeOne(ch api.Change, target string, keepTrust bool) error {
	write := func() error {
		if err := unchanged(ch, target); err != nil {
			return err
		}
		if err := atomicfile.Write(target, ch.After, w.modeOf(ch, target)); err != nil {
			return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w; free some space or make it writable", ch.File, err)
		}
		return nil
	}
	if !keepTrust || ch.File != w.o.Workspace.Config() {
		return write()
	}
	cfg, err := w.load()
	if err != nil {
		return err
	}
	before, err := w.o.Home.TrustOf(cfg)
	if err != nil {
		return err
	}
	_, err = w.o.Home.TrustEdit(before, cfg, ch.After, write, w.now())
	return err
}

// unchanged refuses to write over another content than the one from which the
// change was made.
func unchanged(ch api.Change, target string) error {
	now, err := current(target)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, ch.Before) || (now == nil) != (ch.Before == nil) {
		return core.Errorf(core.CodeDigestMismatch, "%s has changed since the change was shown; nothing was written, look at it again", ch.File)
	}
	return nil
}

// target is the file to replace: one of those that pml may change, symbolic
// links followed. A link out of the workspace is refused: whoever cloned it
// did not choose what it points to.
func (w *Workspace) target(file string) (string, error) {
	ws := w.o.Workspace
	inside := file == ws.Config() || file == ws.DotEnv()
	if !inside && file != w.o.Home.Config() {
		return "", core.Errorf(core.CodeInvalidArguments, "pml does not change %s", core.Visible(file, 200, false))
	}
	within := ""
	if inside {
		within = ws.Dir
	}
	real, err := atomicfile.Target(file, within)
	switch {
	case errors.Is(err, atomicfile.ErrOutside):
		return "", core.Errorf(core.CodeInvalidArguments, "%s is a symbolic link out of the workspace, which pml does not follow; change that file by hand, or put a file in the place of the link", file)
	case err != nil:
		return "", core.Errorf(core.CodeStoreFailed, "cannot find what %s is: %w", file, err)
	}
	return real, nil
}

// modeOf is the mode that a replaced file keeps; a new one that holds keys, or
// belongs to the home, is for its owner alone.
func (w *Workspace) modeOf(ch api.Change, target string) fs.FileMode {
	if fi, err := os.Stat(target); err == nil {
		return fi.Mode().Perm()
	}
	if ch.File == w.o.Workspace.Config() {
		return 0o644
	}
	return 0o600
}
