package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/gate"
)

// A doctor must not hang on what it looks at.
const (
	checkTime    = 10 * time.Second // for one server
	checksAtOnce = 8
	listTime     = 2 * time.Second // for the tools of servers that were just checked
)

// checkServers looks at each configured server, all at once, as it would be for
// a call, and at pml.lock.
func (doc *Doctor) checkServers(ctx context.Context) []api.Check {
	h, err := doc.own()
	if err != nil {
		return []api.Check{failed("servers", err)}
	}
	list, err := h.Servers()
	if err != nil {
		return []api.Check{failed("servers", err)}
	}
	var mu sync.Mutex
	found := map[string]api.Check{}
	var wg sync.WaitGroup
	places := make(chan struct{}, checksAtOnce)
	for _, s := range list {
		if s.Name == gate.Builtin || s.Name == core.AgentServer {
			continue
		}
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			check := doc.checkedServer(ctx, h, s.Name)
			mu.Lock()
			defer mu.Unlock()
			found[s.Name] = check
		})
	}
	wg.Wait()
	var out []api.Check
	for _, s := range list {
		if check, ok := found[s.Name]; ok {
			out = append(out, check)
		}
	}
	broken := func(name string) bool { return found[name].Status == checkFail }
	return append(out, doc.checkLock(ctx, h, list, broken)...)
}

// checkedServer is checkServer, also of a server with which pml panics.
func (doc *Doctor) checkedServer(ctx context.Context, h *gate.Host, name string) (check api.Check) {
	defer core.Recover(doc.o.Logger, "a server was checked", func(err *core.Error) { check = failed("server "+name, err) }, "server", name)
	return checkServer(ctx, h, name, doc.CheckTime)
}

func checkServer(ctx context.Context, h *gate.Host, name string, limit time.Duration) api.Check {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list, err := h.CheckServers(ctx, name)
	if len(list) != 1 { // one that took too long is reported as it stands
		return failed("server "+name, errors.Join(err, ctx.Err()))
	}
	s := list[0]
	out := api.Check{Name: "server " + name, Status: checkWarn, Next: s.Next}
	var say []string
	switch s.State {
	case api.ServerNotTrusted:
		say = append(say, "its configuration is not trusted on this machine")
	case api.ServerFailed:
		if s.Code != core.CodeCancelled { // else it was not waited for to the end
			out.Status = checkFail
		}
		say = append(say, s.Error)
	case api.ServerNeeds:
		for _, n := range s.Needs {
			say = append(say, n.Description)
		}
	case api.ServerReady:
		out.Status = checkOK
		say = append(say, fmt.Sprintf("%d tool(s)", s.Tools)+started(s.Health))
	}
	if len(s.Changed) > 0 {
		out.Status = worse(out.Status)
		var names []string
		for _, ch := range s.Changed {
			names = append(names, ch.Tool+" ("+ch.Kind+")")
		}
		say = append(say, "not what was approved: "+strings.Join(names, ", "))
	}
	if s.Warning != "" {
		out.Status = worse(out.Status)
		say = append(say, s.Warning)
	}
	if s.Health != nil && s.Health.Failures > 0 {
		out.Status = worse(out.Status)
		if s.Health.Failures > 1 { // as this process has seen it
			say = append(say, fmt.Sprintf("it failed %d times in a row", s.Health.Failures))
		}
		if s.Health.LastError != "" && s.Health.LastError != s.Error { // which stands there already
			say = append(say, s.Health.LastError)
		}
	}
	out.Detail = core.Visible(oneLine(strings.Join(say, "; ")), 600, false)
	return out
}

// worse is the status of a check that warns of something besides.
func worse(status string) string {
	if status == checkFail {
		return status
	}
	return checkWarn
}

func started(h *api.ServerHealth) string {
	if h == nil || h.Server == "" {
		return ""
	}
	return fmt.Sprintf(", %s, started in %.0f ms", h.Server, h.StartMS)
}

// checkLock says whether pml.lock is up to date, if anything in the workspace
// is pinned or to be pinned. pml servers lock mends it, but not while one of the servers
// to be pinned is broken.
func (doc *Doctor) checkLock(ctx context.Context, h *gate.Host, list []api.ServerInfo, broken func(name string) bool) []api.Check {
	var own []string
	for _, s := range list {
		if s.Origin != string(env.FromWorkspace) {
			continue
		}
		if own = append(own, s.Name); s.State == api.ServerNotTrusted {
			return nil
		}
	}
	if len(own) == 0 && !exists(doc.o.Workspace.Lock()) {
		return nil
	}
	r, err := h.Packages().Lock(ctx, true)
	if err != nil {
		return []api.Check{failed("lock", err)}
	}
	var stale, left []string
	for _, name := range r.Changed {
		if slices.Contains(own, name) {
			stale = append(stale, name)
		} else {
			left = append(left, name)
		}
	}
	out := []api.Check{}
	warn := func(what string, names []string) {
		if len(names) == 0 {
			return
		}
		next := []string{"pml", "servers", "lock"}
		if slices.ContainsFunc(stale, broken) {
			next = nil
		}
		out = append(out, api.Check{Name: "lock", Status: checkWarn, Detail: core.Visible(what+strings.Join(names, ", "), 600, false), Next: next})
	}
	warn("pml.lock does not say how these servers are: ", stale)
	warn("pml.lock still has servers that the configuration does not have: ", left)
	if len(out) == 0 {
		out = append(out, api.Check{Name: "lock", Status: checkOK, Detail: "pml.lock is up to date"})
	}
	return out
}

// checkCredentials says whether others can read what connects servers.
func (doc *Doctor) checkCredentials() []api.Check {
	dir := doc.o.Home.Credentials()
	var open []string
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() {
			n++
		}
		if fi.Mode().Perm()&0o077 != 0 {
			open = append(open, path)
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []api.Check{failed("credentials", core.Errorf(core.CodeStoreFailed, "cannot look at %s: %w", dir, err))}
	case len(open) > 0:
		return []api.Check{{
			Name: "credentials", Status: checkFail, Detail: "can be read by others: " + strings.Join(open, ", "),
			Next: []string{"chmod", "-R", "go-rwx", dir},
		}}
	}
	return []api.Check{{Name: "credentials", Status: checkOK, Detail: fmt.Sprintf("%d file(s), for this user only", n)}}
}

// checkDecider says who can decide here, and what that does not hold against.
func (doc *Doctor) checkDecider(ctx context.Context, cfg *env.Config) []api.Check {
	g, err := doc.pin.Guard(ctx)
	switch {
	case err != nil:
		return []api.Check{failed("pin", err)}
	case g.Pin == "" && cfg.Approvals.Decider != env.DeciderHuman && cfg.Approvals.AgentMay == env.AgentMayHigh:
		return []api.Check{{
			Name: "decider", Status: checkWarn, Next: []string{"pml", "config", "show"},
			Detail: "approvals.agent_may is high: an agent approves its own calls of every risk; a host that runs without a person before it does",
		}}
	case g.Pin == "" && cfg.Origin("/approvals/decider") == env.FromDefault:
		return []api.Check{{
			Name: "decider", Status: checkWarn, Next: []string{"pml", "init"},
			Detail: "nobody has chosen who decides here (approvals.decider): until then an agent may approve what is of low or medium risk, and a host without a person before it does",
		}}
	case g.Pin == "" && cfg.Approvals.Decider != env.DeciderHuman:
		return nil
	case g.Pin == "":
		return []api.Check{{
			Name: "decider", Status: checkWarn, Next: []string{"pml", "config", "pin"},
			Detail: "approvals.decider is human: decisions are made on a terminal that shows the question; a process of this user that opens a terminal, reads it and types into it can still decide, a PIN holds against that",
		}}
	}
	out := []api.Check{{
		Name: "pin", Status: checkOK,
		Detail: "the store wants the PIN for approvals, and so do trust and updates; it does not hold against a process of this user that writes to the database itself, or watches what is typed",
	}}
	if cfg.Approvals.Pin != g.Pin {
		out = append(out, api.Check{Name: "pin", Status: checkWarn, Next: []string{"pml", "config", "pin"},
			Detail: "the PIN of config.json is not the one that the store wants; the store's counts"})
	}
	if t := g.Tries[""]; t.Wrong >= freePins {
		out = append(out, api.Check{Name: "pin", Status: checkWarn, Detail: fmt.Sprintf("a wrong PIN was given %d times, at last at %s", t.Wrong, t.Last.UTC().Format(time.RFC3339))})
	}
	return out
}
