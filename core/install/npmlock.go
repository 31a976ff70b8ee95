package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// npmEntry is what pml reads of one package in npm's lock.
type npmEntry struct {
	Name             string `json:"name"`
	Version          string `json:"version"`
	Resolved         string `json:"resolved"`
	Integrity        string `json:"integrity"`
	HasInstallScript bool   `json:"hasInstallScript"`
	Link             bool   `json:"link"`
	InBundle         bool   `json:"inBundle"`

	OS  json.RawMessage `json:"os"`
	CPU json.RawMessage `json:"cpu"`
}

// readNPMLock reads a package-lock.json of version 2 or 3, of which name is the
// root's only dependency. What it returns holds a lock of its own making, with
// nothing in it that says where to fetch from: the registry of npm's
// configuration does, and the integrity decides.
func readNPMLock(raw []byte, name, rng string) (Resolved, error) {
	var doc struct {
		LockfileVersion int                                   `json:"lockfileVersion"`
		Packages        map[string]map[string]json.RawMessage `json:"packages"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Resolved{}, core.Errorf(core.CodeInstallFailed, "the lock of %s is not one of npm's: %w", name, err)
	}
	if doc.LockfileVersion != 2 && doc.LockfileVersion != 3 {
		return Resolved{}, core.Errorf(core.CodeInstallFailed, "the lock of %s has version %d, not 3; npm 7 or newer is needed", name, doc.LockfileVersion)
	}
	r := Resolved{Name: name, Range: rng}
	for at, fields := range doc.Packages {
		if at == "" {
			continue
		}
		p, err := readEntry(at, fields)
		if err != nil {
			return Resolved{}, err
		}
		if at == "node_modules/"+name {
			r.Version = p.Version
		}
		r.Packages = append(r.Packages, p)
		if p.Scripts {
			r.Scripts = append(r.Scripts, p.Name)
		}
		delete(fields, "resolved")
	}
	if r.Version == "" {
		return Resolved{}, core.Errorf(core.CodeInstallFailed, "the lock of %s does not contain %s", name, name)
	}
	root, err := json.Marshal(map[string]string{name: r.Version})
	if err != nil {
		return Resolved{}, core.Errorf(core.CodeInternal, "cannot encode a lock: %w", err)
	}
	doc.Packages[""] = map[string]json.RawMessage{"dependencies": root}
	r.lock, err = json.Marshal(map[string]any{"lockfileVersion": 3, "requires": true, "packages": doc.Packages})
	if err != nil {
		return Resolved{}, core.Errorf(core.CodeInternal, "cannot encode a lock: %w", err)
	}
	r.settle()
	return r, nil
}

// settle brings the lists into their order and computes the digest.
func (r *Resolved) settle() {
	slices.SortFunc(r.Packages, func(a, b Package) int { return strings.Compare(a.line(), b.line()) })
	r.Packages = slices.CompactFunc(r.Packages, func(a, b Package) bool { return a.line() == b.line() })
	slices.Sort(r.Scripts)
	r.Scripts = slices.Compact(r.Scripts)
	r.Digest = packagesDigest(r.Packages)
	r.InstallCommand = "npx -y " + r.Name + "@" + r.Version
}

func (p Package) line() string { return p.Name + "@" + p.Version + " " + p.Integrity + "\n" }

// packagesDigest hashes the lines of packages that are sorted.
func packagesDigest(packages []Package) string {
	h := sha256.New()
	for _, p := range packages {
		h.Write([]byte(p.line()))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// readEntry reads one package of npm's lock; at is its folder.
func readEntry(at string, fields map[string]json.RawMessage) (Package, error) {
	var e npmEntry
	raw, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	shown := core.Visible(at, 200, false)
	if err != nil {
		return Package{}, core.Errorf(core.CodeInstallFailed, "npm's lock has an entry %s that cannot be read: %w", shown, err)
	}
	cut := strings.LastIndex(at, "node_modules/")
	if cut < 0 || path.Clean(at) != at || strings.HasPrefix(at, "..") || !launch.ValidName(at[cut+len("node_modules/"):]) || !strings.HasPrefix(at, "node_modules/") {
		return Package{}, core.Errorf(core.CodeInstallFailed, "npm's lock has an entry %s that is no package folder", shown)
	}
	name := at[cut+len("node_modules/"):]
	if e.Name != "" && e.Name != name {
		// An alias: both names matter, as code asks for one and gets the other.
		name += ">" + core.Visible(e.Name, 214, false)
	}
	p := Package{Name: name, Version: core.Visible(e.Version, 100, false), Integrity: e.Integrity, Resolved: e.Resolved, Scripts: e.HasInstallScript}
	p.Elsewhere = !platformFits(e.OS, nodeOS) || !platformFits(e.CPU, nodeCPU)
	switch {
	case e.Version == "":
		return Package{}, core.Errorf(core.CodeInstallFailed, "npm's lock has no version for %s", shown)
	case e.InBundle && e.Integrity == "":
		// It comes inside its parent's archive, whose hash covers it.
		p.Integrity = "bundled"
	case e.Link || !strongIntegrity(e.Integrity) || !registryURL(e.Resolved):
		return Package{}, core.Errorf(core.CodeInstallFailed,
			"the package %s@%s does not come from the npm registry with a SHA-512 hash, so that it cannot be pinned", core.Visible(name, 100, false), p.Version)
	}
	return p, nil
}

// strongIntegrity reports whether an integrity value is one that pins.
func strongIntegrity(s string) bool {
	return strings.HasPrefix(s, "sha512-") && len(s) == len("sha512-")+88 && !strings.ContainsAny(s, " \n")
}

// registryURL reports whether npm's lock names a registry's archive, or leaves
// that to npm's configuration.
func registryURL(s string) bool {
	if s == "" {
		return true
	}
	return (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && strings.Contains(s, "/-/") && strings.HasSuffix(s, ".tgz")
}

// differences names up to ten packages by which two lists differ.
func differences(old, now []Package) string {
	var out []string
	say := func(sign string, a, b []Package) {
		for _, p := range a {
			if !slices.ContainsFunc(b, func(q Package) bool { return q.line() == p.line() }) {
				out = append(out, sign+p.Name+"@"+p.Version)
			}
		}
	}
	say("-", old, now)
	say("+", now, old)
	if len(out) > 10 {
		out = append(out[:10], "…")
	}
	return strings.Join(out, " ")
}

// Entry returns what pml.lock records of the tree.
func (r Resolved) Entry(spec launch.Spec) LockEntry {
	packages := make([]Package, len(r.Packages))
	for i, p := range r.Packages {
		packages[i] = Package{Name: p.Name, Version: p.Version, Integrity: p.Integrity}
	}
	return LockEntry{
		Package: r.Name, Range: r.Range, Version: r.Version, Digest: r.Digest,
		Packages: packages, NPM: bytes.Clone(r.lock), CommandDigest: spec.CommandDigest,
	}
}
