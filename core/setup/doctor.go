package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/store"
)

// The states of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// Doctor looks for what is wrong.
type Doctor struct {
	base
	pin       *Pin
	workspace *Workspace
	notify    *Notify
	CheckTime time.Duration // the longest that one server is looked at
}

// Doctor looks at everything that pml needs and says what is wrong with it.
func (doc *Doctor) Doctor(ctx context.Context) ([]api.Check, error) {
	out := []api.Check{
		{Name: "workspace", Status: checkOK, Detail: fmt.Sprintf("%s (%s)", doc.o.Workspace.Dir, doc.o.Workspace.Source)},
		doc.checkHome(),
		doc.checkStore(ctx),
	}
	out = append(out, doc.checkHalt(ctx)...)
	out = append(out, doc.checkConfig(ctx)...)
	for _, name := range []string{"node", "npm"} {
		out = append(out, doc.checkProgram(name))
	}
	out = append(out, doc.checkSandbox(ctx), doc.checkAudit(ctx))
	if ctx.Err() != nil {
		// What did not come to an end is no finding.
		return nil, core.Errorf(core.CodeCancelled, "stopped before everything was looked at: %w", context.Cause(ctx))
	}
	return out, nil
}

func failed(name string, err error) api.Check {
	e := core.AsError(err)
	return api.Check{Name: name, Status: checkFail, Detail: oneLine(e.Error()), Next: e.Next}
}

// oneLine is a text of several lines as a check shows it, which is one line.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	joined := strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "; ")
	return strings.ReplaceAll(joined, ":; ", ": ")
}

// checkHalt says that calls are halted.
func (doc *Doctor) checkHalt(ctx context.Context) []api.Check {
	switch h, err := doc.o.Store.Halted(ctx); {
	case err != nil:
		return []api.Check{failed("halt", err)}
	case h != nil:
		return []api.Check{{Name: "halt", Status: checkWarn, Detail: "no call begins: " + h.Text(), Next: []string{"pml", "resume"}}}
	}
	return nil
}

func (doc *Doctor) checkHome() api.Check {
	fi, err := os.Stat(doc.o.Home.Dir)
	switch {
	case os.IsNotExist(err):
		return api.Check{Name: "home", Status: checkOK, Detail: doc.o.Home.Dir + " (made on first use)"}
	case err != nil:
		return failed("home", err)
	case fi.Mode().Perm()&0o077 != 0:
		return api.Check{
			Name: "home", Status: checkWarn, Detail: fmt.Sprintf("%s can be read by others (%s)", doc.o.Home.Dir, fi.Mode().Perm()),
			Next: []string{"chmod", "700", doc.o.Home.Dir},
		}
	}
	if err := probe(doc.o.Home.Dir); err != nil {
		return failed("home", core.Errorf(core.CodeStoreFailed, "nothing can be written to %s (%w); free some space or make it writable", doc.o.Home.Dir, err))
	}
	return api.Check{Name: "home", Status: checkOK, Detail: doc.o.Home.Dir}
}

// probe writes a file as large as a small step of a run, and removes it.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func (doc *Doctor) checkStore(ctx context.Context) api.Check {
	if _, err := doc.o.Store.Runs(ctx, store.RunFilter{Limit: 1}); err != nil {
		return failed("store", err)
	}
	return api.Check{Name: "store", Status: checkOK, Detail: "can be read"}
}

// checkConfig looks at the configuration, what of it is trusted, who decides,
// its servers and its rules.
func (doc *Doctor) checkConfig(ctx context.Context) []api.Check {
	all, err := doc.load()
	if err != nil {
		return []api.Check{failed("configuration", err)}
	}
	// That the files can be read says nothing of the patterns in them: what
	// compiles those is asked, as it is what every call asks.
	_, compiled := doc.config()
	out := []api.Check{{Name: "configuration", Status: checkOK, Detail: fmt.Sprintf("%d MCP server(s)", len(all.Servers))}}
	if compiled != nil {
		out = []api.Check{failed("configuration", compiled)}
	}
	for _, f := range all.Unset() {
		out = append(out, api.Check{Name: "configuration", Status: checkWarn, Detail: f.String()})
	}
	trust, err := doc.workspace.Trust(ctx)
	switch {
	case err != nil:
		out = append(out, failed("trust", err))
	case len(trust.TakenOut) > 0:
		out = append(out, api.Check{
			Name: "trust", Status: checkWarn, Detail: takenOutText(doc.o.Workspace.Config(), trust.TakenOut), Next: []string{"pml", "trust", "--show"},
		})
	case trust.LockAside:
		out = append(out, api.Check{
			Name: "trust", Status: checkWarn, Detail: lockAsideText(doc.o.Workspace.Lock()), Next: []string{"pml", "trust", "--show"},
		})
	case trust.Empty:
		out = append(out, api.Check{Name: "trust", Status: checkOK, Detail: "the workspace's files grant nothing"})
	case trust.Trusted:
		out = append(out, api.Check{Name: "trust", Status: checkOK, Detail: "the workspace's files are trusted on this machine"})
	default:
		out = append(out, api.Check{
			Name: "trust", Status: checkWarn, Detail: "the workspace's files grant something that is not trusted on this machine",
			Next: []string{"pml", "trust"},
		})
	}
	out = append(out, doc.checkDecider(ctx, all)...)
	out = append(out, doc.checkNotify(ctx)...)
	out = append(out, doc.checkCredentials()...)
	if compiled != nil {
		return out // nothing else works before it does
	}
	out = append(out, doc.checkFlows()...)
	out = append(out, doc.checkServers(ctx)...)
	return append(out, doc.checkRules(ctx)...)
}

// checkFlows names the enabled flows, and those that refuse the calls that they match
// because they cannot run.
func (doc *Doctor) checkFlows() []api.Check {
	h, err := doc.own()
	if err != nil {
		return []api.Check{failed("flows", err)}
	}
	flows, err := h.EnabledFlows()
	if err != nil {
		return []api.Check{failed("flows", err)}
	}
	var out []api.Check
	var run []string
	for _, f := range flows {
		if f.Refuses == nil {
			run = append(run, f.File)
			continue
		}
		out = append(out, api.Check{
			Name: "flows", Status: checkWarn, Detail: "calls are refused: " + core.Visible(f.Refuses.Error(), 500, true), Next: f.Refuses.Next,
		})
	}
	if len(run) > 0 {
		out = append(out, api.Check{Name: "flows", Status: checkOK, Detail: "enabled: " + core.Visible(strings.Join(run, ", "), 300, false)})
	}
	return out
}

// checkRules names rules that can never match, or that another one hides.
func (doc *Doctor) checkRules(ctx context.Context) []api.Check {
	cfg, err := doc.config()
	if err != nil {
		return []api.Check{failed("configuration", err)}
	}
	p, err := policy.Compile(cfg.Permissions)
	if err != nil {
		return []api.Check{failed("permissions", err)}
	}
	short, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	h, err := doc.own()
	if err != nil {
		return []api.Check{failed("servers", err)}
	}
	tools, problems, err := h.Tools(short) // why servers have none was told already
	if err != nil && short.Err() == nil {
		return []api.Check{failed("servers", err)}
	}
	var out []api.Check
	known := make([]string, len(tools))
	for i, t := range tools {
		known[i] = t.ID()
	}
	var unknown []string
	for _, f := range problems {
		unknown = append(unknown, f.Path)
	}
	for _, f := range p.Lint(known) {
		if concerns(f.Rule, unknown) {
			continue
		}
		out = append(out, api.Check{Name: "permissions", Status: checkWarn, Detail: fmt.Sprintf("%s %q: %s", f.List, f.Rule, f.Message)})
	}
	if len(out) == 0 {
		out = append(out, api.Check{Name: "servers", Status: checkOK, Detail: fmt.Sprintf("%d tools can be listed", len(tools))})
	}
	return append(out, doc.checkExposed(short, known)...)
}

// concerns reports whether a pattern may be about a server of which no tools are
// known: then that it matches none says nothing.
func concerns(rule string, servers []string) bool {
	half, _, _ := strings.Cut(rule, ":")
	p, err := policy.Compile(policy.Rules{Allow: policy.Patterns(half)})
	return slices.ContainsFunc(servers, func(name string) bool {
		return err != nil || p.Decide(name+":*", false).Effect == policy.Allow
	})
}

func (doc *Doctor) checkProgram(name string) api.Check {
	path, err := doc.o.LookPath(name)
	if err != nil {
		return api.Check{Name: name, Status: checkWarn, Detail: name + " is not on PATH; MCP servers from npm need it"}
	}
	return api.Check{Name: name, Status: checkOK, Detail: path}
}

func (doc *Doctor) checkSandbox(ctx context.Context) api.Check {
	if _, err := doc.o.Sandbox.Compile(ctx, "return 1", ""); err != nil {
		return failed("sandbox", err)
	}
	return api.Check{Name: "sandbox", Status: checkOK, Detail: "a child starts and answers"}
}

func (doc *Doctor) checkAudit(ctx context.Context) api.Check {
	r, err := doc.o.Audit.VerifyAudit(ctx)
	switch {
	case err != nil:
		return failed("audit", err)
	case !r.OK:
		return api.Check{Name: "audit", Status: checkFail, Detail: fmt.Sprintf("row %d: %s", r.Bad, r.Reason)}
	}
	return api.Check{Name: "audit", Status: checkOK, Detail: fmt.Sprintf("%d row(s), the chain holds", r.Rows)}
}
