package env

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/policy"
)

// Load reads the configuration of a workspace. Files that are missing are
// fine. All faults of all files are in one *core.Error with
// core.CodeInvalidConfig, each with file, position and JSON pointer. A
// variable that an entry of mcpServers needs and that is not set is no error
// here: it stops only who uses that server (Resolve, Unset).
//
// The configuration is that of a trusted workspace, with the restrictions that
// were taken out of its files since (TakenOut). Callers must go through
// Effective with what Home.TrustOf says before they act on it.
func Load(o LoadOptions) (*Config, error) {
	l := loader{o: o}
	home := l.read(o.Home.Config(), FromHome)
	work := l.read(o.Workspace.Config(), FromWorkspace)
	lock := l.bytes(o.Workspace.Lock(), maxLock)
	c := build(o, home, work, l.held())
	c.lock, c.trusted = lock, true
	if len(l.faults) == 0 {
		l.faults = append(l.faults, c.expandServerURL()...)
		l.faults = append(l.faults, c.readFlows()...)
		c.holdFlows()
	}
	if len(l.faults) > 0 {
		return nil, invalid(l.faults)
	}
	return c, nil
}

// maxLock bounds pml.lock; a tree of a few thousand packages stays below.
const maxLock = 16 << 20

func invalid(faults []core.Fault) *core.Error {
	return &core.Error{
		Code:    core.CodeInvalidConfig,
		Message: "the configuration is not valid; correct it and try again",
		Next:    []string{"pml", "config", "schema"},
		Faults:  faults,
	}
}

type loader struct {
	o      LoadOptions
	faults []core.Fault
}

func (l *loader) read(name string, origin Origin) *file {
	data := l.bytes(name, maxFile)
	if data == nil {
		return &file{name: name, origin: origin}
	}
	f, faults := parseFile(name, origin, data)
	l.faults = append(l.faults, faults...)
	return f
}

func (l *loader) bytes(name string, limit int64) []byte {
	data, fault := readBounded(name, limit)
	if fault != nil {
		l.faults = append(l.faults, *fault)
	}
	return data
}

// readBounded reads a regular file of at most limit bytes. A missing one is
// nil without a fault; a pipe or device is refused rather than waited for.
func readBounded(name string, limit int64) ([]byte, *core.Fault) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, &core.Fault{File: name, Message: "is not a file"}
	}
	var data []byte
	if err == nil {
		data, err = readUpTo(name, limit+1)
	}
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return nil, &core.Fault{File: name, Message: fmt.Sprintf("cannot be read: %v", err)}
	}
	if int64(len(data)) > limit {
		return nil, &core.Fault{File: name, Message: fmt.Sprintf("has more than %d bytes", limit)}
	}
	return data, nil
}

func readUpTo(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, n))
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// The defaults.
const (
	defaultTTL         = 5 * time.Minute
	defaultResumeTTL   = 24 * time.Hour
	defaultHookWait    = 50 * time.Second
	defaultRetention   = 30 * day
	defaultConcurrency = 16
	defaultPerServer   = 32
	defaultCalls       = 10_000
	defaultTimeout     = 10 * time.Minute
	defaultCallTimeout = 60 * time.Second
	defaultCPU         = 30 * time.Second
	defaultInstall     = 15 * time.Minute
	defaultResultBytes = 16 << 20
	defaultMemoryBytes = 2 << 30
	defaultRuns        = 1000
	defaultFlows       = ".pml/flows"
	defaultHomeFlows   = "flows"
)

// build merges the layers. It cannot fail: each file was checked by itself.
func build(o LoadOptions, home, work *file, held restrictions) *Config {
	m := merger{origins: map[string]place{}, home: home, work: work}
	h, w := &home.layer, &work.layer
	c := &Config{
		Workspace: o.Workspace, Home: o.Home, Version: 1,
		Permissions: policy.Rules{
			Allow:    both(&m, "/permissions/allow", h.Permissions.Allow, w.Permissions.Allow),
			Deny:     both(&m, "/permissions/deny", h.Permissions.Deny, w.Permissions.Deny),
			Ask:      both(&m, "/permissions/ask", h.Permissions.Ask, w.Permissions.Ask),
			ReadOnly: pick(&m, "/permissions/readonly", "", h.Permissions.ReadOnly, w.Permissions.ReadOnly),
		},
		Approvals: Approvals{
			TTL:       m.duration("/approvals/ttl", defaultTTL, h.Approvals.TTL, w.Approvals.TTL),
			ResumeTTL: m.duration("/approvals/resume_ttl", defaultResumeTTL, h.Approvals.ResumeTTL, w.Approvals.ResumeTTL),
			Decider:   Decider(pick(&m, "/approvals/decider", string(DeciderAny), h.Approvals.Decider, w.Approvals.Decider)),
			AgentMay:  AgentMay(pick(&m, "/approvals/agent_may", string(AgentMayMedium), h.Approvals.AgentMay, w.Approvals.AgentMay)),
			Pin:       pick(&m, "/approvals/pin", "", h.Approvals.Pin, w.Approvals.Pin),
			TrustHost: pick(&m, "/approvals/trust_host", false, h.Approvals.TrustHost, w.Approvals.TrustHost),
			Notify:    m.notify(h.Approvals.Notify),
		},
		Hooks: Hooks{Wait: m.duration("/hooks/wait", defaultHookWait, h.Hooks.Wait, w.Hooks.Wait)},
		Routing: Routing{
			Client:  m.either("/routing/client", h.Routing.Client, w.Routing.Client),
			Server:  m.either("/routing/server", h.Routing.Server, w.Routing.Server),
			Default: core.Side(pick(&m, "/routing/default", string(core.SideClient), h.Routing.Default, w.Routing.Default)),
		},
		Limits:    m.limits(h.Limits, w.Limits),
		Retention: m.duration("/retention", defaultRetention, h.Retention, w.Retention),
		Terminal:  m.terminal(h.Terminal),
		Servers:   m.servers(h.Servers, w.Servers),
		Models:    m.models(h.Models, w.Models),

		DefaultModel: pick(&m, "/models/default", "", h.Models.Default, w.Models.Default),

		environ: o.Environ, flag: o.Server, home: home, work: work, origins: m.origins,
	}
	c.Server.URL = pick(&m, "/server/url", "", h.Server.URL, w.Server.URL)
	if v := o.Environ.get("PML_SERVER"); v != "" {
		c.Server.URL, m.origins["/server/url"] = v, place{origin: FromEnvironment}
	}
	if o.Server != "" {
		c.Server.URL, m.origins["/server/url"] = o.Server, place{origin: FromFlag}
	}
	c.Expose, c.ExposeMode = m.expose(h.Expose, w.Expose)
	c.Flows, c.HomeFlows = folderOf(w.Flows, c.Workspace.Dir, defaultFlows), folderOf(h.Flows, c.Home.Dir, defaultHomeFlows)
	if w.Flows != nil {
		m.from("/flows", work, "/flows")
	}
	c.hold(held)
	return c
}

// folderOf makes a folder absolute: what a file names is relative to the file's folder.
func folderOf(named *string, base, otherwise string) string {
	dir := otherwise
	if named != nil {
		dir = *named
	}
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(base, dir)
}

// merger combines two layers and remembers where each value came from.
type merger struct {
	origins    map[string]place
	home, work *file
}

func (m *merger) from(at string, f *file, pointer string) {
	m.origins[at] = place{origin: f.origin, file: f, pointer: pointer}
}

func pick[T any](m *merger, at string, otherwise T, home, work *T) T {
	switch {
	case work != nil:
		m.from(at, m.work, at)
		return *work
	case home != nil:
		m.from(at, m.home, at)
		return *home
	}
	return otherwise
}

func (m *merger) duration(at string, otherwise time.Duration, home, work *duration) time.Duration {
	return time.Duration(pick(m, at, duration(otherwise), home, work))
}

// both concatenates the home's list and the workspace's.
func both[T any](m *merger, at string, home, work []T) []T {
	var out []T
	for i, s := range home {
		m.from(at+"/"+strconv.Itoa(len(out)), m.home, at+"/"+strconv.Itoa(i))
		out = append(out, s)
	}
	for i, s := range work {
		m.from(at+"/"+strconv.Itoa(len(out)), m.work, at+"/"+strconv.Itoa(i))
		out = append(out, s)
	}
	return out
}

// either returns the workspace's list if it has one, else the home's.
func (m *merger) either(at string, home, work []string) []string {
	if work != nil {
		return both(m, at, nil, work)
	}
	return both(m, at, home, nil)
}

func (m *merger) limits(h, w limitsPart) Limits {
	return Limits{
		Concurrency: int(pick(m, "/limits/concurrency", defaultConcurrency, h.Concurrency, w.Concurrency)),
		PerServer:   int(pick(m, "/limits/per_server", defaultPerServer, h.PerServer, w.PerServer)),
		Calls:       int(pick(m, "/limits/calls", defaultCalls, h.Calls, w.Calls)),
		Timeout:     m.duration("/limits/timeout", defaultTimeout, h.Timeout, w.Timeout),
		CallTimeout: m.duration("/limits/call_timeout", defaultCallTimeout, h.CallTimeout, w.CallTimeout),
		CallTotal:   m.duration("/limits/call_total", 0, h.CallTotal, w.CallTotal),
		CPU:         m.duration("/limits/cpu", defaultCPU, h.CPU, w.CPU),
		Install:     m.duration("/limits/install", defaultInstall, h.Install, w.Install),
		ResultBytes: pick(m, "/limits/result_bytes", defaultResultBytes, h.ResultBytes, w.ResultBytes),
		MemoryBytes: pick(m, "/limits/memory_bytes", defaultMemoryBytes, h.MemoryBytes, w.MemoryBytes),
		Runs:        int(pick(m, "/limits/runs", defaultRuns, h.Runs, w.Runs)),
	}
}

func (m *merger) servers(home, work map[string]*ServerEntry) map[string]ServerEntry {
	out := map[string]ServerEntry{}
	for _, l := range []struct {
		f       *file
		entries map[string]*ServerEntry
	}{{m.home, home}, {m.work, work}} {
		for name, e := range l.entries {
			out[name] = *e
			at := pointer("/mcpServers", name)
			m.from(at, l.f, at)
		}
	}
	return out
}

// Origin says where the value at a JSON pointer of the merged configuration
// comes from, e.g. "/server/url" or "/permissions/allow/0".
func (c *Config) Origin(pointer string) Origin {
	p, _ := c.find(pointer)
	if p.origin == "" {
		return FromDefault
	}
	return p.origin
}

// find returns the place of a value, or of the nearest one that holds it.
func (c *Config) find(at string) (p place, rest string) {
	for {
		if p, ok := c.origins[at]; ok {
			return p, rest
		}
		i := strings.LastIndexByte(at, '/')
		if i <= 0 {
			return place{}, ""
		}
		at, rest = at[:i], at[i:]+rest
	}
}

// Locate adds file and position to the faults of an error whose Path points
// into the merged configuration, e.g. those of policy.Compile, and turns Path
// into the pointer within that file. Other errors are returned as they are.
func (c *Config) Locate(err error) error {
	var e *core.Error
	if !errors.As(err, &e) || len(e.Faults) == 0 {
		return err
	}
	out := *e
	out.Faults = make([]core.Fault, len(e.Faults))
	for i, f := range e.Faults {
		if p, rest := c.find(f.Path); f.File == "" && p.file != nil {
			f.File, f.Path = p.file.name, p.pointer+rest
			if at, ok := p.file.pos[f.Path]; ok {
				f.At = &at
			}
		}
		out.Faults[i] = f
	}
	return &out
}

// Effective returns the configuration that counts: with trusted false,
// whatever the workspace's files grant is left out and what they forbid, or did
// until somebody took it out without trust (TakenOut), stays. Its flows stay, too: they
// refuse what they would check, and no program that they name is started.
func (c *Config) Effective(trusted bool) *Config {
	if trusted || !c.trusted {
		// What was left out once does not come back: Load's result has it.
		return c
	}
	work := *c.work
	work.layer = c.work.layer.restrictions()
	out := build(LoadOptions{Workspace: c.Workspace, Home: c.Home, Environ: c.environ, Server: c.flag}, c.home, &work, c.held)
	// A URL of the home's that cannot be expanded stays as written and reaches
	// nothing: it must not become "no server", which would run code here.
	out.expandServerURL()
	out.Flows, out.homeFlows, out.workFlows = c.Flows, c.homeFlows, c.workFlows
	out.goneFlows = c.goneFlows
	return out
}

// Lock returns the content of the workspace's pml.lock, nil when there is
// none or the workspace is not trusted. These are the bytes that the trust
// covers.
func (c *Config) Lock() []byte { return c.lock }
