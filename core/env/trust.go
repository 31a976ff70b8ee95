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
	"strings"
	"time"
	"unicode"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/diff"
)

const (
	trustVersion = 1
	maxFlow      = 1 << 20 // bytes of a flow's file
	maxFlows     = 500     // files
)

// flowFile is one file of the folder of flows.
type flowFile struct {
	name string
	data []byte
}

// TrustState says what a workspace's files grant, and whether this machine
// trusts it.
type TrustState struct {
	Workspace string
	Trusted   bool   // Content was trusted, or there is nothing to trust
	Empty     bool   // nothing is granted, so nothing is asked
	Digest    string // of Content
	Content   string // what is granted, readable; hidden characters are escaped
	Old       string // what was trusted last, empty if nothing was
	Diff      string // from Old to Content, as lines with "+", "-" or " "

	base string // Content without pml.lock
}

// trustFile is what $PML_HOME/trust keeps of a workspace.
type trustFile struct {
	Version   int    `json:"version"`
	Workspace string `json:"workspace"`
	Digest    string `json:"digest"`
	Content   string `json:"content"`
	// Next is the digest of the content with the pml.lock that pml is about to
	// write: a kill in the middle leaves one of the two.
	Next string    `json:"next,omitempty"`
	At   time.Time `json:"at"`
}

// readFlows reads the folder of flows, so that what is trusted and what runs
// are the same bytes.
func (c *Config) readFlows() []core.Fault {
	p, _ := c.find("/flows")
	if p.origin == FromWorkspace {
		if rel, err := filepath.Rel(c.Workspace.Dir, c.Flows); err != nil || !filepath.IsLocal(rel) {
			at := p.file.pos[p.pointer]
			return []core.Fault{{File: p.file.name, At: &at, Path: p.pointer, Message: "must be a folder within the workspace"}}
		}
	}
	entries, err := os.ReadDir(c.Flows)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []core.Fault{{File: c.Flows, Message: "the folder of flows cannot be read"}}
	}
	var faults []core.Fault
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		if len(c.flows) == maxFlows {
			return append(faults, core.Fault{File: c.Flows, Message: fmt.Sprintf("has more than %d flows", maxFlows)})
		}
		data, fault := readBounded(filepath.Join(c.Flows, e.Name()), maxFlow)
		if fault != nil {
			faults = append(faults, *fault)
			continue
		}
		c.flows = append(c.flows, flowFile{name: e.Name(), data: data})
	}
	return faults
}

// FlowFiles returns the flows by file name, as they were when the
// configuration was loaded: the bytes that the trust covers.
func (c *Config) FlowFiles() map[string][]byte {
	out := make(map[string][]byte, len(c.flows))
	for _, f := range c.flows {
		out[f.name] = f.data
	}
	return out
}

// content is what the workspace's files grant, for a person to read. Its
// digest is what trust is bound to, so nothing is trusted that was not shown.
func (c *Config) content(withLock bool) (text string, empty bool) {
	grants := c.work.layer.grants()
	all := struct {
		layer
		FlowFiles map[string]any `json:"flow files,omitempty"`
		Lock      any            `json:"pml.lock,omitempty"`
	}{layer: grants}
	if c.Origin("/flows") != FromHome && len(c.flows) > 0 {
		all.FlowFiles = map[string]any{}
		for _, f := range c.flows {
			all.FlowFiles[f.name] = readable(f.data)
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
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)) {
			for _, u := range utf16Of(r) {
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
// there and cannot be read.
func (h Home) TrustOf(c *Config) (TrustState, error) {
	s := TrustState{Workspace: c.Workspace.Dir}
	s.Content, s.Empty = c.content(true)
	s.base, _ = c.content(false)
	s.Digest = textDigest(s.Content)
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
			s.Trusted = f.Digest == s.Digest || f.Next == s.Digest
		}
	}
	if s.Empty {
		s.Trusted = true
	}
	if s.Old != "" && s.Old != s.Content && !s.Trusted {
		s.Diff = diff.Lines(s.Old, s.Content)
	}
	return s, nil
}

// SetTrust records that a person trusts the content that has the digest.
// Another digest than the state's is core.CodeDigestMismatch: the files have
// changed since they were shown. A file that cannot be written is
// core.CodeStoreFailed.
func (h Home) SetTrust(state TrustState, digest string, now time.Time) error {
	if digest != state.Digest {
		return core.Errorf(core.CodeDigestMismatch,
			"the files of %s are not those that were shown: their digest is %s, not %s; look at them again",
			state.Workspace, state.Digest, core.Visible(digest, 80, false)).WithNext("pml", "trust", "--show")
	}
	return h.recordTrust(state, "", now)
}

func (h Home) recordTrust(state TrustState, next string, now time.Time) error {
	data, err := json.MarshalIndent(trustFile{
		Version: trustVersion, Workspace: state.Workspace, Digest: state.Digest, Content: state.Content, Next: next, At: now.UTC(),
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

// ExpectLock is told of the pml.lock that pml is about to write because a
// person approved an installation. It records that the workspace stays trusted
// with it, so that a kill between that file and TrustLock takes no trust away.
// before is the state on which pml acts, current the configuration as it is
// now; when the workspace is not trusted, or grants something else by now, it
// does nothing and returns false, and TrustLock must not be called.
func (h Home) ExpectLock(before TrustState, current *Config, lock []byte, now time.Time) (bool, error) {
	with := *current
	with.lock = lock
	_, _, ok, err := h.expect(before, current, &with, now)
	return ok, err
}

// expect records that a workspace that is trusted, and grants what it did
// before, stays trusted when its files become those of with. Until that is
// confirmed both contents are trusted and nothing else is.
func (h Home) expect(before TrustState, current, with *Config, now time.Time) (state TrustState, next string, ok bool, err error) {
	state, err = h.TrustOf(current)
	if err != nil || !before.Trusted || !state.Trusted || before.Workspace != state.Workspace || before.base != state.base {
		return state, "", false, err
	}
	content, empty := with.content(true)
	if content == "" && !empty {
		return state, "", false, core.Errorf(core.CodeInternal, "cannot write down what %s grants", state.Workspace)
	}
	next = textDigest(content)
	return state, next, true, h.recordTrust(state, next, now)
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
	state, next, ok, err := h.expect(before, current, with, now)
	if err != nil {
		return false, err
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
	if state, err = h.TrustOf(written); err != nil || state.Digest != next {
		return false, err
	}
	return true, h.recordTrust(state, "", now)
}

// edited is the configuration with another text of the workspace's file, and
// the same lock and flows.
func (c *Config) edited(text []byte) (*Config, error) {
	f, faults := parseFile(c.work.name, FromWorkspace, text)
	if len(faults) > 0 {
		return nil, invalid(faults)
	}
	out := build(LoadOptions{Workspace: c.Workspace, Home: c.Home, Environ: c.environ, Server: c.flag}, c.home, f)
	if faults := out.expandServerURL(); len(faults) > 0 {
		return nil, invalid(faults)
	}
	out.lock, out.flows, out.trusted = c.lock, c.flows, c.trusted
	return out, nil
}

// TrustLock keeps a trusted workspace trusted after pml itself has written
// pml.lock because a person approved an installation. before is the state from
// before that, after the configuration loaded since, lock the bytes that were
// written. Anything else that changed meanwhile is not covered: then, and
// when the workspace was not trusted, it does nothing and returns false.
func (h Home) TrustLock(before TrustState, after *Config, lock []byte, now time.Time) (bool, error) {
	state, err := h.TrustOf(after)
	if err != nil || !before.Trusted || before.Workspace != state.Workspace || before.base != state.base || !bytes.Equal(lock, after.lock) {
		return false, err
	}
	return true, h.SetTrust(state, state.Digest, now)
}

func (h Home) trustPath(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(h.Trust(), hex.EncodeToString(sum[:])+".json")
}

func textDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}
