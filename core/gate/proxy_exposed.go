package gate

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
)

// The names under which rules speak of what a server has beside tools.
const (
	ReadsResources = "resources/read"
	GetsPrompts    = "prompts/get"
)

// exposing says what is offered through to clients under its own name.
type exposing struct {
	tools   *policy.Policy // the patterns, as allow rules
	servers *policy.Policy // their halves before the colon
}

func newExposing(cfg *env.Config) (exposing, error) {
	tools, err := policy.Compile(policy.Rules{Allow: policy.Patterns(cfg.Expose...)})
	if err != nil {
		return exposing{}, elsewhere(err, "what is exposed is not valid; correct it in .pml.json or config.json", "/expose/")
	}
	halves := make([]string, 0, len(cfg.Expose))
	for _, pattern := range cfg.Expose {
		server, _, _ := strings.Cut(pattern, ":")
		halves = append(halves, server)
	}
	servers, err := policy.Compile(policy.Rules{Allow: policy.Patterns(halves...)})
	if err != nil { // a colon within a class: any server may be meant
		servers, err = policy.Compile(policy.Rules{Allow: policy.Patterns("*")})
	}
	return exposing{tools, servers}, err
}

// elsewhere moves the faults of patterns that were compiled as allow rules to
// where they stand.
func elsewhere(err error, message, place string) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Message, out.Faults = message, nil
	for _, f := range e.Faults {
		f.Path = strings.Replace(f.Path, "/permissions/allow/", place, 1)
		out.Faults = append(out.Faults, f)
	}
	return &out
}

// Exposure is what a configuration offers through, at one moment.
type Exposure struct {
	host *Host
	set  *settings
}

// Exposure reads what is offered through now. No server is started.
func (h *Host) Exposure() (*Exposure, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	h.flows.ready(s)
	return &Exposure{h, s}, nil
}

// Names are the servers of which something may be offered, in the order in
// which they are configured: those of the home first.
func (e *Exposure) Names() []string {
	var list []env.ServerEntry
	for name, entry := range e.set.granted.Servers {
		if name != Builtin && e.set.expose.servers.Decide(name+":*", false).Effect == policy.Allow {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(a, b env.ServerEntry) int {
		if a.Origin != b.Origin {
			if a.Origin == env.FromHome {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column), strings.Compare(a.Name, b.Name))
	})
	names := make([]string, len(list))
	for i, entry := range list {
		names[i] = entry.Name
	}
	return names
}

// Searched reports whether clients find the tools by search instead of a list.
func (e *Exposure) Searched() bool { return e.set.granted.ExposeMode == env.ExposeSearch }

// Offers reports whether a tool is offered: the configuration names it, no rule
// denies it, and this half of pml is the one that calls it.
func (e *Exposure) Offers(tool string) bool {
	server, name, ok := core.SplitTool(tool)
	if !ok || e.set.expose.tools.Decide(tool, false).Effect != policy.Allow || e.set.redact.Names(name) {
		return false
	}
	return e.set.refused(tool, server) == nil && !e.host.remote.makes(e.set, tool, server)
}

// Reads reports whether resources, or prompts, of a server are offered: only of
// one that is offered as a whole.
func (e *Exposure) Reads(server, what string) bool { return e.reads(server, what) == nil }

// reads refuses what is not offered of a server beside its tools. What the
// configuration offers may be read without another rule; one that asks or denies
// is stronger.
func (e *Exposure) reads(server, what string) *core.Error {
	id := server + ":" + what
	if deny := e.set.refused(id, server); deny != nil {
		return deny
	}
	if !e.Offers(id) {
		return core.Errorf(core.CodeNoSuchTool, "%s is not offered", core.Visible(id, 120, false))
	}
	// Without arguments: a condition on some has failed.
	v := e.set.policy.DecideCall(policy.Call{Tool: id, Facts: func() policy.Facts { return policy.Facts{} }}, true)
	switch {
	case v.Effect == policy.Deny:
		return deniedBy(id, v)
	case v.Effect == policy.Ask && v.Rule != "":
		return core.Errorf(core.CodePermissionDenied, "%s needs a person by the rule %q, who cannot be asked about it; allow it in permissions", core.Visible(id, 120, false), v.Rule)
	}
	return nil
}

// Key names what is known of a server: another entry or environment is another
// key.
func (e *Exposure) Key(server string) (string, error) {
	resolved, err := e.set.granted.Resolve(server)
	if err != nil {
		return "", e.set.clean(err)
	}
	return core.DigestOf([]string{e.host.o.Workspace.Dir, server, resolved.Digest})
}

// Ready reports whether nothing that is known speaks against starting a server.
func (e *Exposure) Ready(server string) bool {
	return e.host.info(e.set, server).State == api.ServerReady
}

// Findings names the patterns that offer nothing of the tools that are known
// (server:tool).
func (e *Exposure) Findings(known []string) []policy.Finding {
	return e.set.expose.tools.Lint(append(slices.Clone(known), e.wholes(known)...))
}

// wholes are the names for what the servers of tools have beside them.
func (e *Exposure) wholes(known []string) []string {
	var out []string
	for _, tool := range known {
		server, _, _ := core.SplitTool(tool)
		out = append(out, server+":"+ReadsResources, server+":"+GetsPrompts)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
