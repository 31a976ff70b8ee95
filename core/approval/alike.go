package approval

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Kin is what approvals have in common that can be decided as one: a decision on them
// never reaches across runs or risks, unless they ask the same for the workspace, whichever
// run asks ([ForWorkspace]).
type Kin struct {
	run  core.ID
	typ  core.ApprovalType
	tool string
	risk core.Risk
	once bool

	workspace, owner, digest string // of a question for the workspace, in place of the run
}

// KinOf is what an approval has in common with those like it; false for what is decided
// one by one.
func KinOf(a core.Approval) (Kin, bool) {
	if TypeOf(a.Type).Single || a.Type == core.ApproveInDoubt {
		return Kin{}, false
	}
	kin := Kin{run: a.RunID, typ: a.Type, tool: a.Tool, risk: a.Risk, once: a.Once}
	if ForWorkspace(a) {
		kin.run, kin.workspace, kin.owner, kin.digest = "", a.Workspace, a.Owner, a.Digest
	}
	return kin, true
}

// ForWorkspace reports whether a yes holds for the workspace, so that it answers each run
// that asks the same, which is what has the same digest: that a provider of models may be
// sent to, that a server is installed, and that it is what it is by now.
func ForWorkspace(a core.Approval) bool {
	return a.Digest != "" && (core.IsProvider(a.Tool) || a.Type == core.ApproveDependency || a.Type == core.ApproveIntegrity)
}

// Alike are the approvals of a list that one decision can be about together with the
// first: those of its kin, or itself alone.
func Alike(list []core.Approval) []core.Approval {
	kin, ok := KinOf(list[0])
	if !ok {
		return list[:1]
	}
	var out []core.Approval
	for _, a := range list {
		if k, ok := KinOf(a); ok && k == kin {
			out = append(out, a)
		}
	}
	return out
}

// Pattern is what texts have in common, with a * for what they have not. It is cut
// where a name begins or ends, so that "a/one.ts" and "a/once.ts" are "a/*.ts".
func Pattern(list []string) string {
	first, last := slices.Min(list), slices.Max(list)
	if first == last {
		return first
	}
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	before := first[:strings.LastIndexAny(first[:n], " /\\:=@.")+1]
	after := first[len(before):]
	for _, s := range list {
		s = s[len(before):]
		for !strings.HasSuffix(s, after) {
			after = after[1:]
		}
	}
	if i := strings.IndexAny(after, " /\\.@("); i >= 0 {
		return before + "*" + after[i:]
	}
	return before + "*"
}
