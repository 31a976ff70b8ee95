package env

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/diff"
)

const trustVersion = 1

// TrustState says what a workspace's files grant, and whether this machine
// trusts it.
type TrustState struct {
	Workspace string
	Trusted   bool   // Content was trusted, or there is nothing to trust
	Empty     bool   // nothing is granted
	Digest    string // of Content and TakenOut: what a person agrees to
	Content   string // what is granted, readable; hidden characters are escaped
	Old       string // what was trusted last, empty if nothing was
	Diff      string // from Old to Content, as lines with "+", "-" or " "
	// TakenOut are the restrictions that were taken out of the files and hold
	// until a person trusts the files without them; see Config.TakenOut. What is
	// granted may be Trusted meanwhile.
	TakenOut []string
	// LockAside is set when pml.lock is not the one that was trusted, and all else
	// is: another pml with a home of its own has written it, or a colleague. What
	// the files grant counts then with Lock in its place, and nothing of what
	// stands in the file, until a person trusts that.
	LockAside bool
	Lock      []byte // with LockAside: the pml.lock that was trusted

	base     string       // Content without pml.lock
	counts   string       // with LockAside: Content with Lock
	file     []byte       // pml.lock as it is
	sum      string       // the digest of Content
	restrict restrictions // of the files as they are
	held     restrictions // as they are kept
}

// Counts reports whether what the files grant counts, with Lock in the place of
// pml.lock where that is set aside.
func (s TrustState) Counts() bool { return s.Trusted || s.LockAside }

// record is what is written down of a state that counts.
func (s TrustState) record() (content string, lock []byte) {
	if s.LockAside {
		return s.counts, s.Lock
	}
	return s.Content, s.file
}

// Agreed reports whether there is nothing that a person has not agreed to.
func (s TrustState) Agreed() bool { return s.Trusted && len(s.TakenOut) == 0 }

// trustFile is what $PML_HOME/trust keeps of a workspace.
type trustFile struct {
	Version   int    `json:"version"`
	Workspace string `json:"workspace"`
	Digest    string `json:"digest"`
	Content   string `json:"content"`
	// Lock is the pml.lock of Content, byte by byte.
	Lock string `json:"lock,omitempty"`
	// Next is the digest of the content with the pml.lock that pml is about to
	// write: a kill in the middle leaves one of the two.
	Next string    `json:"next,omitempty"`
	At   time.Time `json:"at"`
}

// content is what the workspace's files grant, for a person to read. Its
// digest is what trust is bound to, so nothing is trusted that was not shown.
func (c *Config) content(withLock bool) (text string, empty bool) {
	grants := c.work.layer.grants()
	all := struct {
		layer
		FlowFiles    map[string]any    `json:"flow files,omitempty"`
		FlowPrograms map[string]string `json:"programs of flows (sha256),omitempty"`
		Lock         any               `json:"pml.lock,omitempty"`
	}{layer: grants, FlowPrograms: c.flowPrograms}
	if files := c.workFlows.Files(); len(files) > 0 {
		all.FlowFiles = map[string]any{}
		for name, data := range files {
			all.FlowFiles[name] = readable(data)
		}
	}
	if withLock && len(bytes.TrimSpace(c.lock)) > 0 {
		all.Lock = readable(c.lock)
	}
	if reflect.ValueOf(grants).IsZero() && all.FlowFiles == nil && all.Lock == nil {
		return "", true
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(all); err != nil {
		// Only a foreign raw value could fail, and all of them were parsed.
		return "", false
	}
	return visibleJSON(b.String()), false
}

// readable shows a file's content: JSON as JSON, anything else as lines, with
// the digest of its bytes, because two readers may understand the same bytes
// differently.
func readable(data []byte) any {
	sum := sha256.Sum256(data)
	out := struct {
		SHA256  string          `json:"sha256"`
		Content json.RawMessage `json:"content,omitempty"`
		Lines   []string        `json:"lines,omitempty"`
	}{SHA256: hex.EncodeToString(sum[:])}
	if json.Valid(data) {
		out.Content = data
	} else {
		out.Lines = strings.Split(strings.ToValidUTF8(string(data), "\ufffd"), "\n")
	}
	return out
}

// visibleJSON escapes the characters that a terminal would hide or obey; in
// JSON text they occur within strings only.
func visibleJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && core.Hidden(r) {
			for _, u := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// TrustOf compares what the workspace's files grant with what was trusted. c
// is what Load returned, not Effective(false). A record that cannot be read
// trusts nothing. Error: core.CodeStoreFailed when the folder of records is
// there and cannot be read. It writes down the restrictions that it finds.
func (h Home) TrustOf(c *Config) (TrustState, error) {
	s := TrustState{Workspace: c.Workspace.Dir, TakenOut: c.TakenOut(), restrict: c.restrictions(true)}
	s.Content, s.Empty = c.content(true)
	s.base, _ = c.content(false)
	s.file = c.lock
	s.sum = textDigest(s.Content)
	if s.Digest = s.sum; len(s.TakenOut) > 0 {
		s.Digest = textDigest(s.Content + "\nwithout\n" + strings.Join(s.TakenOut, "\n"))
	}
	if !s.Empty && s.Content == "" {
		return s, core.Errorf(core.CodeInternal, "cannot write down what %s grants", s.Workspace)
	}
	data, err := os.ReadFile(h.trustPath(s.Workspace))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s, core.Errorf(core.CodeStoreFailed, "cannot read what this machine trusts: %w; check the permissions of %s", err, h.Trust())
	default:
		var f trustFile
		// The record's own digest is checked: half a record trusts nothing.
		if json.Unmarshal(data, &f) == nil && f.Version == trustVersion && f.Workspace == s.Workspace && textDigest(f.Content) == f.Digest {
			s.Old = f.Content
			s.Trusted = f.Digest == s.sum || f.Next == s.sum
			s.aside(c, f)
		}
	}
	if s.Empty {
		s.Trusted = true
	}
	if s.Old != "" && s.Old != s.Content && !s.Trusted {
		s.Diff = diff.Lines(s.Old, s.Content)
	}
	s.held = h.holdAll(c, s.Counts())
	return s, nil
}

// aside finds out whether the files are what was trusted but for pml.lock: they
// are that with the lock of the record.
func (s *TrustState) aside(c *Config, f trustFile) {
	if s.Trusted || s.Empty {
		return
	}
	with := *c
	with.lock = []byte(f.Lock)
	content, _ := with.content(true)
	if sum := textDigest(content); content == "" || sum != f.Digest && sum != f.Next {
		return
	}
	s.LockAside, s.Lock, s.counts, s.Old = true, with.lock, content, content
}

// SetTrust records that a person trusts the content that has the digest: what
// the files grant, and that they forbid no more than they do now.
// Another digest than the state's is core.CodeDigestMismatch: the files have
// changed since they were shown. A file that cannot be written is
// core.CodeStoreFailed.
func (h Home) SetTrust(state TrustState, digest string, now time.Time) error {
	if digest != state.Digest {
		return core.Errorf(core.CodeDigestMismatch,
			"the files of %s are not those that were shown: their digest is %s, not %s; look at them again",
			state.Workspace, state.Digest, core.Visible(digest, 80, false)).WithNext("pml", "trust", "--show")
	}
	state.LockAside = false // the person has agreed to the one in the file
	// A kill in between leaves restrictions that are asked about again.
	if err := h.recordTrust(state, "", now); err != nil {
		return err
	}
	return h.writeHeld(state.Workspace, state.held, state.restrict)
}

func (h Home) recordTrust(state TrustState, next string, now time.Time) error {
	content, lock := state.record()
	data, err := json.MarshalIndent(trustFile{
		Version: trustVersion, Workspace: state.Workspace, Digest: textDigest(content), Content: content, Lock: string(lock), Next: next, At: now.UTC(),
	}, "", "  ")
	if err == nil {
		err = atomicfile.Write(h.trustPath(state.Workspace), append(data, '\n'), 0o600)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write down that %s is trusted: %w; check the permissions of %s",
			state.Workspace, err, h.Trust())
	}
	return nil
}

// ExpectLock announces the pml.lock that pml is about to write because a
// person approved an installation. It records that the workspace stays trusted
// with it, so that a kill between that file and TrustLock takes no trust away.
// before is the state on which pml acts, current the configuration as it is
// now; when the workspace is not trusted, or grants something else by now, it
// does nothing and returns false, and TrustLock must not be called.
func (h Home) ExpectLock(before TrustState, current *Config, lock []byte, now time.Time) (bool, error) {
	with := *current
	with.lock = lock
	state, err := h.TrustOf(current)
	if err != nil || !state.Follows(before) || !state.Trusted {
		return false, err
	}
	_, err = h.expect(state, &with, now)
	return err == nil, err
}

// Follows reports whether a state counts as the one before did, and grants the
// same but for pml.lock.
func (s TrustState) Follows(before TrustState) bool {
	return before.Counts() && s.Counts() && before.Workspace == s.Workspace && before.base == s.base
}

// expect records that a workspace whose state counts stays trusted when its files
// become those of with. Until that is confirmed both contents are trusted and
// nothing else is.
func (h Home) expect(state TrustState, with *Config, now time.Time) (next string, err error) {
	content, empty := with.content(true)
	if content == "" && !empty {
		return "", core.Errorf(core.CodeInternal, "cannot write down what %s grants", state.Workspace)
	}
	next = textDigest(content)
	return next, h.recordTrust(state, next, now)
}

// KeepLock writes down another pml.lock in the place of the one that counts where
// the file is set aside (LockAside): the file stays as somebody else has written
// it. before is the state on which pml acts, current the configuration as it is
// now. When the lock is not set aside, or the files grant something else by now,
// it does nothing and returns false.
func (h Home) KeepLock(before TrustState, current *Config, lock []byte, now time.Time) (bool, error) {
	state, err := h.TrustOf(current)
	if err != nil || !state.Follows(before) || !state.LockAside {
		return false, err
	}
	with := *current
	with.lock = lock
	content, empty := with.content(true)
	if content == "" && !empty {
		return false, core.Errorf(core.CodeInternal, "cannot write down what %s grants", state.Workspace)
	}
	state.counts, state.Lock = content, lock
	return true, h.recordTrust(state, "", now)
}

// TrustEdit calls write, which replaces the workspace's .pml.json by after,
// and keeps a trusted workspace trusted over it: a kill at any moment leaves a
// workspace that is trusted with the file as it was or with after, and with
// nothing else. before is the state that a person was shown, current the
// configuration as it is now. When the workspace is not trusted, or grants
// something else by now, write is called all the same and nothing new is
// trusted: then, and when something else changed meanwhile (a folder of other
// flows, too), it returns false. Its caller holds off
// other writers of these files. Errors: those of write, then nothing is left
// trusted that was not before; core.CodeInvalidConfig for an after that could
// not be loaded, and write is not called.
func (h Home) TrustEdit(before TrustState, current *Config, after []byte, write func() error, now time.Time) (trusted bool, err error) {
	with, err := current.edited(after)
	if err != nil {
		return false, err
	}
	state, err := h.TrustOf(current)
	if err != nil {
		return false, err
	}
	ok, next := state.Follows(before), ""
	if ok {
		if state.LockAside {
			with.lock = state.Lock
		}
		if next, err = h.expect(state, with, now); err != nil {
			return false, err
		}
	}
	if err := write(); err != nil {
		if ok {
			err = errors.Join(err, h.recordTrust(state, "", now))
		}
		return false, err
	}
	if !ok {
		return false, nil
	}
	written, err := Load(LoadOptions{Workspace: current.Workspace, Home: current.Home, Environ: current.environ, Server: current.flag})
	if err != nil {
		return false, err
	}
	if state, err = h.TrustOf(written); err != nil || !state.Counts() {
		return false, err
	}
	if content, _ := state.record(); textDigest(content) != next {
		return false, nil
	}
	if err := h.recordTrust(state, "", now); err != nil {
		return false, err
	}
	left := written.held.without(current.restrictions(true), state.restrict)
	return true, h.writeHeld(state.Workspace, state.held, left)
}

// edited is the configuration with another text of the workspace's file, and
// the same lock and flows.
func (c *Config) edited(text []byte) (*Config, error) {
	f, faults := parseFile(c.work.name, FromWorkspace, text)
	if len(faults) > 0 {
		return nil, invalid(faults)
	}
	out := build(LoadOptions{Workspace: c.Workspace, Home: c.Home, Environ: c.environ, Server: c.flag}, c.home, f, c.held)
	if faults := out.expandServerURL(); len(faults) > 0 {
		return nil, invalid(faults)
	}
	out.lock, out.trusted = c.lock, c.trusted
	out.homeFlows, out.workFlows = c.homeFlows, c.workFlows
	out.flowPrograms = c.flowPrograms
	return out, nil
}

// TrustLock keeps a trusted workspace trusted after pml itself has written
// pml.lock because a person approved an installation. before is the state from
// before that, after the configuration loaded since, lock the bytes that were
// written. Anything else that changed meanwhile is not covered: then, and
// when the workspace was not trusted, it does nothing and returns false.
func (h Home) TrustLock(before TrustState, after *Config, lock []byte, now time.Time) (bool, error) {
	state, err := h.TrustOf(after)
	if err != nil || !before.Counts() || before.Workspace != state.Workspace || before.base != state.base || !bytes.Equal(lock, after.lock) {
		return false, err
	}
	state.LockAside = false
	return true, h.recordTrust(state, "", now)
}

func (h Home) trustPath(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(h.Trust(), hex.EncodeToString(sum[:])+".json")
}

// TrustedWorkspaces are the folders whose files were trusted on this machine, sorted. A
// record that cannot be read names none.
func (h Home) TrustedWorkspaces() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(h.Trust(), "*.json"))
	if err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "cannot list what this machine trusts: %w", err)
	}
	var out []string
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, core.Errorf(core.CodeStoreFailed, "cannot read what this machine trusts: %w; check the permissions of %s", err, h.Trust())
		}
		var f trustFile
		if json.Unmarshal(data, &f) == nil && f.Digest != "" && filepath.IsAbs(f.Workspace) {
			out = append(out, f.Workspace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func textDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}
