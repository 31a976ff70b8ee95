package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
func (c *Client) checkServers(ctx context.Context) []api.Check {
	h, err := c.own()
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
		if s.Name == gate.Builtin {
			continue
		}
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			check := c.checkedServer(ctx, h, s.Name)
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
	return append(out, c.checkLock(ctx, h, list)...)
}

// checkedServer is checkServer, also of a server with which pml panics.
func (c *Client) checkedServer(ctx context.Context, h *gate.Host, name string) (check api.Check) {
	defer core.Recover(c.o.Logger, "a server was checked", func(err *core.Error) { check = failed("server "+name, err) }, "server", name)
	return checkServer(ctx, h, name, c.checkTime)
}

func checkServer(ctx context.Context, h *gate.Host, name string, limit time.Duration) api.Check {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list, err := h.CheckServers(ctx, name)
	if len(list) != 1 { // one that took too long is told of as it stands
		return failed("server "+name, errors.Join(err, ctx.Err()))
	}
	s := list[0]
	out := api.Check{Name: "server " + name, Status: checkWarn, Next: s.Next}
	var say []string
	switch s.State {
	case api.ServerNotTrusted:
		say = append(say, "its configuration is not trusted on this machine")
	case api.ServerFailed:
		say = append(say, strings.ReplaceAll(s.Error, "\n  ", "; "))
	case api.ServerNeeds:
		for _, n := range s.Needs {
			say = append(say, n.Description)
		}
	case api.ServerReady:
		out.Status = checkOK
		say = append(say, fmt.Sprintf("%d tool(s)", s.Tools)+started(s.Health))
	}
	if len(s.Changed) > 0 {
		out.Status = checkWarn
		var names []string
		for _, ch := range s.Changed {
			names = append(names, ch.Tool+" ("+ch.Kind+")")
		}
		say = append(say, "not what was approved: "+strings.Join(names, ", "))
	}
	if s.Warning != "" {
		out.Status = checkWarn
		say = append(say, s.Warning)
	}
	if s.Health != nil && s.Health.Failures > 0 {
		out.Status = checkWarn
		say = append(say, fmt.Sprintf("it failed %d time(s) in a row: %s", s.Health.Failures, s.Health.LastError))
	}
	out.Detail = core.Visible(strings.Join(say, "; "), 600, false)
	return out
}

func started(h *api.ServerHealth) string {
	if h == nil || h.Server == "" {
		return ""
	}
	return fmt.Sprintf(", %s, started in %.0f ms", h.Server, h.StartMS)
}

// checkLock says whether pml.lock is up to date, if anything in the workspace
// is pinned or to be pinned.
func (c *Client) checkLock(ctx context.Context, h *gate.Host, list []api.ServerInfo) []api.Check {
	var own []string
	for _, s := range list {
		if s.Origin != string(env.FromWorkspace) {
			continue
		}
		if own = append(own, s.Name); s.State == api.ServerNotTrusted {
			return nil
		}
	}
	if len(own) == 0 && !exists(c.o.Workspace.Lock()) {
		return nil
	}
	r, err := h.LockServers(ctx, true)
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
		if len(names) > 0 {
			out = append(out, api.Check{
				Name: "lock", Status: checkWarn, Detail: core.Visible(what+strings.Join(names, ", "), 600, false), Next: []string{"pml", "servers", "lock"},
			})
		}
	}
	warn("pml.lock does not say how these servers are: ", stale)
	warn("pml.lock still has servers that the configuration does not have: ", left)
	if len(out) == 0 {
		out = append(out, api.Check{Name: "lock", Status: checkOK, Detail: "pml.lock is up to date"})
	}
	return out
}

// checkCredentials says whether others can read what connects servers.
func (c *Client) checkCredentials() []api.Check {
	dir := c.o.Home.Credentials()
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

// checkPinSet says what the PIN protects, and what it does not.
func (c *Client) checkPinSet(cfg *env.Config) []api.Check {
	if cfg.Approvals.Pin == "" {
		if cfg.Approvals.Decider != env.DeciderHuman {
			return nil
		}
		return []api.Check{{
			Name: "decider", Status: checkWarn, Next: []string{"pml", "config", "pin"},
			Detail: "approvals.decider is human, but any process of this user can decide like a person; a PIN (approvals.pin) holds against that",
		}}
	}
	out := []api.Check{{
		Name: "pin", Status: checkOK,
		Detail: "approvals, trust and updates need the PIN, typed at the prompt; it does not hold against a process of this user that changes the files of pml's home itself, or watches the terminal",
	}}
	if fi, err := os.Stat(c.o.Home.Config()); err == nil && fi.Mode().Perm()&0o022 != 0 {
		out[0].Status, out[0].Next = checkFail, []string{"chmod", "600", c.o.Home.Config()}
		out[0].Detail = "others can write " + c.o.Home.Config() + ", and remove the PIN"
	}
	if t, err := c.pins(); err != nil {
		out = append(out, failed("pin", err))
	} else if t.Wrong >= freePins {
		out = append(out, api.Check{Name: "pin", Status: checkWarn, Detail: fmt.Sprintf("a wrong PIN was given %d times, at last at %s", t.Wrong, t.Last.UTC().Format(time.RFC3339))})
	}
	return out
}
