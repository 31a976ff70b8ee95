//go:build unix

package pmltest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/env"
)

// Machine is a home of pml and one workspace, with a recorder named rec.
type Machine struct {
	T    testing.TB
	Dir  string // holds all of it
	Home string // PML_HOME
	WS   string // the workspace, and the current folder of pml
	Log  string // the calls that reached the recorder
	Env  []string
	// Version is what pml says it is, "" for a build without one.
	Version string
}

// Config is a .pml.json, as far as tests need one.
type Config struct {
	Permissions map[string]any            `json:"permissions,omitempty"`
	Approvals   map[string]any            `json:"approvals,omitempty"`
	Limits      map[string]any            `json:"limits,omitempty"`
	Servers     map[string]map[string]any `json:"mcpServers,omitempty"`
}

// AllowRec lets everything of the recorder through but danger, which asks. A call that
// waits for what its test does next has the time that a busy machine takes for that.
func AllowRec() Config {
	return Config{Limits: map[string]any{"call_timeout": "10m"}, Permissions: map[string]any{"allow": []string{"rec:*"}, "ask": []string{"rec:danger"}}}
}

// AgentsDecide lets an agent approve what is of high risk, too: for tests of how
// a decision is made, whoever makes it.
func (c Config) AgentsDecide() Config {
	c.Approvals = map[string]any{"agent_may": "high"}
	return c
}

// NewMachine makes a machine whose workspace is configured and trusted. The
// server rec is added to the configuration.
func NewMachine(t testing.TB, c Config) *Machine {
	t.Helper()
	m := BareMachine(t)
	m.Configure(c)
	return m
}

// BareMachine makes a machine with an empty workspace.
func BareMachine(t testing.TB) *Machine {
	t.Helper()
	skipShort(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{T: t, Dir: dir, Home: filepath.Join(dir, "home"), WS: filepath.Join(dir, "ws"), Log: filepath.Join(dir, "calls.jsonl")}
	m.Env = []string{
		"PML_HOME=" + m.Home, "PML_WORKSPACE=" + m.WS, "HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"TMPDIR=" + os.TempDir(),
		// A process with the race detector waits a second before it exits.
		"GORACE=atexit_sleep_ms=0",
	}
	if err := os.Mkdir(m.WS, 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// Rec is the entry of a recorder, with more fields on top.
func (m *Machine) Rec(more map[string]any) map[string]any {
	entry := map[string]any{"command": Recorder(m.T), "args": []string{"--log", m.Log}}
	maps.Copy(entry, more)
	return entry
}

// Configure writes .pml.json and trusts it.
func (m *Machine) Configure(c Config) {
	m.T.Helper()
	m.WriteConfig(c)
	if c.Approvals["decider"] == "human" { // a person trusts, on a terminal
		if s := m.Terminal(UsualSize, nil, []Reply{Typed("trust this\\? .*: ", "yes")}, "trust"); s.Exit != 0 {
			m.T.Fatalf("not trusted: exit %d: %q", s.Exit, s.Text)
		}
		return
	}
	m.trust()
}

// trust records what pml trust --yes records, without a process of its own.
func (m *Machine) trust() {
	m.T.Helper()
	home := env.Home{Dir: m.Home}
	err := home.Ensure()
	if err != nil {
		m.T.Fatal(err)
	}
	config, err := env.Load(env.LoadOptions{Workspace: env.Workspace{Dir: m.WS}, Home: home, Environ: m.getenv})
	if err != nil {
		m.T.Fatal(err)
	}
	state, err := home.TrustOf(config)
	if err != nil {
		m.T.Fatal(err)
	}
	if err := home.SetTrust(state, state.Digest, time.Now()); err != nil {
		m.T.Fatal(err)
	}
}

// getenv is a variable as pml sees it: the last one of its name.
func (m *Machine) getenv(name string) (string, bool) {
	for _, v := range slices.Backward(m.Env) {
		if n, value, _ := strings.Cut(v, "="); n == name {
			return value, true
		}
	}
	return "", false
}

// WriteConfig writes .pml.json, without trusting it.
func (m *Machine) WriteConfig(c Config) {
	m.T.Helper()
	servers := map[string]map[string]any{"rec": m.Rec(nil)}
	for name, s := range c.Servers {
		if s == nil {
			delete(servers, name)
			continue
		}
		servers[name] = s
	}
	c.Servers = servers
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		m.T.Fatal(err)
	}
	m.Write(".pml.json", string(raw))
}

// Setenv sets a variable for all later runs of pml.
func (m *Machine) Setenv(name, value string) { m.Env = append(m.Env, name+"="+value) }

// Write writes a file of the workspace and returns its path.
func (m *Machine) Write(name, text string) string {
	m.T.Helper()
	path := filepath.Join(m.WS, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.T.Fatal(err)
	}
	return path
}

// In is the machine for a subtest.
func (m *Machine) In(t testing.TB) *Machine {
	sub := *m
	sub.T = t
	sub.Env = slices.Clone(m.Env)
	return &sub
}
