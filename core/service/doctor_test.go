package service_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/api"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	c.execute(`return 1`, api.StatusSuccess)
	checks := func() map[string]string {
		list, err := c.Doctor(c.ctx())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, check := range list {
			out[check.Name] = check.Status
			if check.Status == "fail" && check.Detail == "" {
				t.Errorf("%s says nothing", check.Name)
			}
		}
		return out
	}
	good := checks()
	for _, name := range []string{"workspace", "home", "store", "sandbox", "audit"} {
		if good[name] != "ok" {
			t.Errorf("%s: %q in %v", name, good[name], good)
		}
	}
	if good["node"] == "ok" {
		t.Error("node is not there and doctor does not say so")
	}
	if err := os.Chmod(m.home, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := checks()["home"]; got != "warn" {
		t.Errorf("a home that others can read: %q", got)
	}
}

func TestDoctor_Servers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	keyed := mirror()
	keyed["env"] = map[string]any{"KEY": ""}
	m.configure(c, map[string]any{"approvals": map[string]any{"decider": "human"}, "permissions": map[string]any{"allow": []string{"mirror:look", "mirror:lock"}}}, map[string]any{
		"mirror": mirror(), "keyed": keyed, "image": map[string]any{"command": "docker", "args": []string{"run", "-i", "some/image"}},
	})
	if err := os.MkdirAll(filepath.Join(m.home, "credentials"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.writeHome("credentials/a.json", "{}")
	find := func() map[string]api.Check {
		list, err := c.Doctor(c.ctx())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]api.Check{}
		for _, check := range list {
			out[check.Name] = check
			if strings.ContainsAny(check.Detail, "\n\x1b") {
				t.Errorf("%q is not one line", check.Detail)
			}
		}
		return out
	}
	got := find()
	for name, want := range map[string]struct{ status, detail string }{
		"server mirror": {"ok", "2 tool(s), mirror"},
		"server keyed":  {"warn", "KEY"},
		"server image":  {"fail", "docker is not on PATH"},
		"lock":          {"ok", "up to date"},
		"credentials":   {"ok", "1 file(s)"},
		"decider":       {"warn", "a process of this user that opens a terminal"},
		"permissions":   {"warn", "mirror:lock"},
	} {
		if check := got[name]; check.Status != want.status || !strings.Contains(check.Detail, want.detail) {
			t.Errorf("%s: %+v, want %+v", name, check, want)
		}
	}
	m.write(".pml.json", `{}`)
	c.trusting()
	if check := find()["decider"]; check.Status != "warn" || !strings.Contains(check.Detail, "nobody has chosen") {
		t.Errorf("nobody has chosen who decides, and it is not said: %+v", check)
	}
	m.write(".pml.json", `{"approvals": {"decider": "any"}}`)
	c.trusting()
	if check, ok := find()["decider"]; ok {
		t.Errorf("it was chosen: %+v", check)
	}
	m.write(".pml.json", `{"approvals": {"agent_may": "high"}}`)
	c.trusting()
	if check := find()["decider"]; check.Status != "warn" || !strings.Contains(check.Detail, "agent_may") {
		t.Errorf("an agent approves everything, and it is not said: %+v", check)
	}
	if err := os.Chmod(filepath.Join(m.home, "credentials", "a.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.setPin(rightPin)
	m.writeHome("pin.json", `{"wrong": 7, "last": "2026-11-21T12:00:00Z"}`)
	got = find()
	if check := got["credentials"]; check.Status != "fail" || !strings.Contains(check.Detail, "a.json") {
		t.Errorf("%+v", check)
	}
	if check := got["pin"]; check.Status != "warn" || !strings.Contains(check.Detail, "7 times") {
		t.Errorf("%+v", check)
	}
	if _, ok := got["decider"]; ok {
		t.Error("with a PIN nobody of this user decides like a person")
	}
}

// A server that never answers does not hold doctor up.
func TestDoctor_SilentServer(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	c.Setup.Doctor.CheckTime = 200 * time.Millisecond
	m.configure(c, nil, map[string]any{"silent": mirror("silent"), "silent2": mirror("silent")})
	start := time.Now()
	list, err := c.Doctor(c.ctx())
	if err != nil || time.Since(start) > hung/2 {
		t.Fatalf("%v after %s", err, time.Since(start))
	}
	for _, name := range []string{"server silent", "server silent2"} {
		i := slices.IndexFunc(list, func(check api.Check) bool { return check.Name == name })
		if i < 0 || list[i].Status != "warn" || list[i].Detail == "" {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// A server that lacks a variable of its environment is not given another command: the variable is
// declared. One at a wrong URL is given another URL, and one that is away is looked at again.
func TestCheckServers_WhatHelps(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.write("keyed.sh", "#!/bin/sh\necho 'BRAVE_API_KEY environment variable is required' >&2\nexit 1\n")
	if err := os.Chmod(filepath.Join(m.ws, "keyed.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write("node.sh", "#!/bin/sh\necho 'a file is missing: ERR_MODULE_NOT_FOUND' >&2\nexit 1\n")
	if err := os.Chmod(filepath.Join(m.ws, "node.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.NotFoundHandler())
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	t.Cleanup(web.Close)
	m.configure(c, nil, map[string]any{
		"plain": map[string]any{"command": "./keyed.sh", "args": []string{"-y"}},
		"more":  map[string]any{"command": "./keyed.sh", "env": map[string]string{"MODE": "fast"}},
		"has":   map[string]any{"command": "./keyed.sh", "env": map[string]string{"BRAVE_API_KEY": "wrong"}},
		"node":  map[string]any{"command": "./node.sh"},
		"web":   map[string]any{"url": web.URL + "/mcp"},
		"away":  map[string]any{"url": away.URL},
	})
	for name, want := range map[string]string{
		"plain": "pml servers add plain --replace --env BRAVE_API_KEY -- ./keyed.sh -y",
		"more":  "pml servers add more --replace --env MODE=VALUE --env BRAVE_API_KEY -- COMMAND",
		"has":   "pml servers add has --replace -- COMMAND",
		"node":  "pml servers add node --replace -- COMMAND",
		"web":   "pml servers add web --replace --url URL",
		"away":  "pml servers check away",
	} {
		list, err := c.CheckServers(c.ctx(), name)
		if err != nil || len(list) != 1 || strings.Join(list[0].Next, " ") != want {
			t.Errorf("%s: %v %+v", name, err, list)
		}
	}
}

// Of a server whose command is wrong, a check and doctor say the same, and name the command
// that mends it: also of one that prints what is no message and never answers, which doctor
// does not wait for as long as a check does.
func TestDoctor_WrongCommand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	c.Setup.Doctor.CheckTime = 2 * time.Second
	m.write("exits.sh", "#!/bin/sh\necho 'usage: thing' >&2\nexit 3\n")
	m.write("banner.sh", "#!/bin/sh\necho 'Welcome to thing 1.0'\nexec sleep 60\n")
	servers := map[string]any{"gone": map[string]any{"command": "no-such-program"}, "pkg": map[string]any{"command": "npx", "args": []string{"-y", "@nobody/no-such"}}}
	for _, name := range []string{"exits", "banner"} {
		if err := os.Chmod(filepath.Join(m.ws, name+".sh"), 0o700); err != nil {
			t.Fatal(err)
		}
		servers[name] = map[string]any{"command": "./" + name + ".sh"}
	}
	m.configure(c, nil, servers)
	checks, err := c.Doctor(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	infos, err := c.CheckServers(c.ctx(), "gone", "exits")
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range checks {
		if check.Name == "lock" && (check.Status != "warn" || len(check.Next) > 0) {
			t.Errorf("what cannot be pinned is to be: %+v", check)
		}
	}
	for name, says := range map[string]string{"gone": "no-such-program is not on PATH", "exits": "it last said: usage: thing", "banner": `it wrote "Welcome to thing 1.0"`} {
		next := "pml servers add " + name + " --replace -- COMMAND"
		i := slices.IndexFunc(checks, func(check api.Check) bool { return check.Name == "server "+name })
		if i >= 0 && (checks[i].Status == "fail") != (name != "banner") {
			t.Errorf("doctor on %s: %s", name, checks[i].Status)
		}
		if i < 0 || !strings.Contains(checks[i].Detail, says) || strings.Join(checks[i].Next, " ") != next {
			t.Errorf("doctor on %s: %+v", name, checks)
		}
		i = slices.IndexFunc(infos, func(s api.ServerInfo) bool { return s.Name == name })
		if i >= 0 && (!strings.Contains(strings.Join(strings.Fields(infos[i].Error), " "), says) || strings.Join(infos[i].Next, " ") != next) {
			t.Errorf("check on %s: %+v", name, infos[i])
		}
	}
}
