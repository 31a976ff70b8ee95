package setup

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Notices are what a caller has to know of a workspace; taken is the one about
// restrictions, without what to run. There are none of files that cannot be read.
func (w *Workspace) Notices(workspace string) (list []string, taken string) {
	h, err := w.o.Machine.Host(workspace)
	if err != nil {
		return nil, ""
	}
	cfg, err := h.Config()
	if err != nil {
		return nil, ""
	}
	if trust, err := h.Trust(); err == nil && trust.LockAside {
		list = append(list, lockAsideText(cfg.Workspace.Lock())+api.LookAndTrust)
	}
	if out := cfg.TakenOut(); len(out) > 0 {
		taken = takenOutText(cfg.Workspace.Config(), out)
		list = append(list, taken+api.LookAndTrust)
	}
	return list, taken
}

// NotTrusted says that a workspace's files grant what does not count, as nobody has trusted
// them; empty where nothing is granted, or all counts.
func (w *Workspace) NotTrusted(workspace string) string {
	h, err := w.o.Machine.Host(workspace)
	if err != nil {
		return ""
	}
	if trust, err := h.Trust(); err != nil || trust.Counts() || trust.Empty {
		return ""
	}
	return "what this workspace's files grant counts only once trusted" + api.LookAndTrust
}

// lockAsideText says that a lock is not the one that counts.
func lockAsideText(file string) string {
	return core.Visible(file, 0, false) + " is not the one that was trusted here, which stays in force; another pml, or a person, has written it: it counts once a person looks at the change and trusts it"
}

// takenOutText says which restrictions are not in a file any more.
func takenOutText(file string, taken []string) string {
	return "restrictions were taken out of " + core.Visible(file, 0, false) + " (" + core.Visible(strings.Join(taken, "; "), 1000, false) +
		"); they hold until a person looks at the change and trusts it"
}
