package install

import (
	"maps"
	"slices"
	"strings"
)

// PackageDiff is how one package of a tree differs from before.
type PackageDiff struct {
	Name string
	From string // version; empty: it is new
	To   string // version; empty: it is gone
	// Rebuilt is set when name and version are the same and the bytes are not.
	Rebuilt bool
	// Scripts is set when the new one wants to run something on installation.
	Scripts bool
}

// ComparePackages says how a tree differs from the one before, as
// LockEntry.Packages or Resolved.Packages have them, sorted by name. A package
// may be in a tree in several versions: the same version is paired with itself,
// the others that went and came in their order.
func ComparePackages(old, now []Package) []PackageDiff {
	before, after := byName(old), byName(now)
	names := maps.Clone(before)
	maps.Copy(names, after)
	var out []PackageDiff
	for _, name := range slices.Sorted(maps.Keys(names)) {
		gone, came := without(before[name], after[name]), without(after[name], before[name])
		for _, p := range came {
			if i := slices.IndexFunc(gone, func(q Package) bool { return q.Version == p.Version }); i >= 0 {
				gone = slices.Delete(gone, i, i+1)
				came = without(came, []Package{p})
				out = append(out, PackageDiff{Name: name, From: p.Version, To: p.Version, Rebuilt: true, Scripts: p.Scripts})
			}
		}
		for i := range max(len(gone), len(came)) {
			d := PackageDiff{Name: name}
			if i < len(gone) {
				d.From = gone[i].Version
			}
			if i < len(came) {
				d.To, d.Scripts = came[i].Version, came[i].Scripts
			}
			out = append(out, d)
		}
	}
	return out
}

func byName(packages []Package) map[string][]Package {
	out := map[string][]Package{}
	for _, p := range slices.SortedFunc(slices.Values(packages), func(a, b Package) int { return strings.Compare(a.line(), b.line()) }) {
		out[p.Name] = append(out[p.Name], p)
	}
	return out
}

// without returns the packages of a list that another one does not have.
func without(list, other []Package) []Package {
	return slices.DeleteFunc(slices.Clone(list), func(p Package) bool {
		return slices.ContainsFunc(other, func(q Package) bool { return p.line() == q.line() })
	})
}
