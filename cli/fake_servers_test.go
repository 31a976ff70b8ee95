package cli_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// world is what the fake knows of servers and files, and what it was asked.
type world struct {
	hostCalls  []api.HostCall
	hostAnswer api.HostAnswer
	list       []api.ServerInfo
	set        api.ChangeSet // what add, rm and a PIN would change
	sources    []api.ImportSource
	lock       api.LockReport
	update     api.Update
	removed    api.Removed
	removing   []string
	rule       api.Rule
	url        string
	pin        string // is needed when it is not empty
	gone       bool   // no server has the name
	writeErr   error
	hosts      []api.HostChange
	connected  []api.ConnectedHost
	hostErr    error // of writing
	kept       bool  // there is a .pml.json already
	chosen     bool  // and it says who decides
	startErr   error // of a server that was updated
	lookErr    error // of what an update would be
	deciders   []api.Deciders

	checked  []string
	locked   []string
	lockOnly bool
	added    []api.ServerEntry
	imported []api.ImportRequest
	updates  []api.UpdateRequest
	accepted []api.AcceptRequest
	keysIn   int // so many looks at the servers later the keys are in .env; 0: they never are
	purged   []string
	pins     [][2]string
	written  []writing
	hostReqs []api.HostRequest
	hostDirs []string   // of HostWorkspaces
	paths    *api.Paths // nil: of folders that are not there
	told     []string   // the hosts that were written
	rules    []core.ID

	permissions []api.PermissionRule
	flows       []api.Flow
	saved       []api.FlowFile
	trial       api.RuleTrial
	suggested   []api.RuleSuggestion
	models      []api.Model
	modelCheck  api.ModelCheck
	carriers    []api.NotifyCarrier
	notifyTests []api.NotifyTest
	notifyNames []string
	modelChecks []string // names, and whether with tools
}

// writing is one call of Write.
type writing struct {
	Digest string
	Keep   bool
	Pin    string
}

func (f *fake) needPin(pin string) error {
	if pin != f.world.pin {
		return core.Errorf(core.CodeAuth, "that is not the PIN")
	}
	return nil
}

func (f *fake) Servers(context.Context) ([]api.ServerInfo, error) {
	if f.world.keysIn--; f.world.keysIn == 0 {
		f.settle(core.ApproveKeys)
	}
	return f.world.list, f.failWith
}

// settle takes away what servers need of a type.
func (f *fake) settle(of core.ApprovalType) {
	for i, s := range f.world.list {
		s.Needs = slices.DeleteFunc(slices.Clone(s.Needs), func(n api.ServerNeed) bool { return n.Type == of })
		if len(s.Needs) < len(f.world.list[i].Needs) {
			s.State = api.ServerReady
		}
		f.world.list[i] = s
	}
}

func (f *fake) CheckServers(_ context.Context, names ...string) ([]api.ServerInfo, error) {
	f.world.checked = names
	var out []api.ServerInfo
	for _, s := range f.world.list {
		if len(names) == 0 || slices.Contains(names, s.Name) {
			out = append(out, s)
		}
	}
	return out, f.failWith
}

func (f *fake) AddServer(_ context.Context, e api.ServerEntry) (api.ChangeSet, error) {
	f.world.added = append(f.world.added, e)
	return f.world.set, f.failWith
}

func (f *fake) RemoveServers(_ context.Context, names ...string) (api.ChangeSet, error) {
	f.world.removing = names
	if f.world.gone || slices.Contains(names, "gone") {
		return api.ChangeSet{}, core.Errorf(core.CodeNoSuchTool, "no server has the name %s", names[0]).WithNext("pml", "servers", "ls")
	}
	return f.world.set, nil
}

func (f *fake) Purge(_ context.Context, name string) (api.Removed, error) {
	f.world.purged = append(f.world.purged, name)
	r := f.world.removed
	r.Name = name
	return r, nil
}

func (f *fake) ImportServers(_ context.Context, req api.ImportRequest) (api.Import, error) {
	f.world.imported = append(f.world.imported, req)
	return api.Import{Sources: f.world.sources, ChangeSet: f.world.set}, nil
}

func (f *fake) LockServers(_ context.Context, check bool, names ...string) (api.LockReport, error) {
	f.world.locked, f.world.lockOnly = names, check
	r := f.world.lock
	r.Written = !check && len(r.Changed) > 0
	return r, nil
}

// UpdateServer carries out what was shown, as the real one does.
func (f *fake) UpdateServer(_ context.Context, req api.UpdateRequest, progress func(string)) (api.Update, error) {
	f.world.updates = append(f.world.updates, req)
	u := f.world.update
	if req.Digest == "" {
		return u, cmp.Or(f.failWith, f.world.lookErr)
	}
	if err := f.needPin(req.Pin); err != nil {
		return api.Update{}, err
	}
	if req.Digest != u.Digest {
		return api.Update{}, core.Errorf(core.CodeDigestMismatch, "another update")
	}
	progress("npm ci\x1b[2J")
	u.Installed = true
	return u, f.world.startErr
}

// AcceptServer takes the need away, as the real one does.
func (f *fake) AcceptServer(_ context.Context, req api.AcceptRequest) error {
	if err := f.needPin(req.Pin); err != nil {
		return err
	}
	f.world.accepted = append(f.world.accepted, req)
	f.settle(core.ApproveIntegrity)
	return nil
}

func (f *fake) ConnectServer(ctx context.Context, _ string, show func(string)) error {
	show(f.world.url)
	if f.block {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return f.failWith
}

func (f *fake) RuleFor(_ context.Context, id core.ID) (api.Rule, error) {
	f.world.rules = append(f.world.rules, id)
	return f.world.rule, f.failWith
}

func (f *fake) PinChange(_ context.Context, old, pin string) (api.ChangeSet, error) {
	f.world.pins = append(f.world.pins, [2]string{old, pin})
	return f.world.set, f.needPin(old)
}

func (f *fake) AdoptPin(_ context.Context, old string, _ bool) error { return f.needPin(old) }

func (f *fake) Write(_ context.Context, set api.ChangeSet, keep bool, pin string) (bool, error) {
	f.world.written = append(f.world.written, writing{set.Changes[0].Digest, keep, pin})
	if keep {
		if err := f.needPin(pin); err != nil {
			return false, err
		}
	}
	return keep, f.world.writeErr
}

func (f *fake) ShowsPerson(context.Context) (bool, error) { return f.world.pin != "", nil }

func (f *fake) NeedsPin(context.Context) (bool, error) { return f.world.pin != "", nil }

// change is one of the workspace's file.
func change() api.ChangeSet {
	return api.ChangeSet{
		Changes: []api.Change{{
			File: "/w/.pml.json", Digest: hashA, Notes: []string{"the value of KEY goes to .env"},
			Diff: "   \"mcpServers\": {\n+    \"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"x\x1b[2J\"]}\n   }\n",
		}},
		Notes: []string{"nothing is started"},
	}
}

// servers are one of each state.
func servers() []api.ServerInfo {
	return []api.ServerInfo{
		{
			Name: "files", State: api.ServerReady, Origin: "workspace", Kind: "npm", Package: "@scope/server", Range: "^2026", Version: "2026.8.31",
			Command: []string{"npx", "-y", "@scope/server@^2026", "a b"}, Digest: hashA, Installed: true, Tools: 14, File: "/w/.pml.json",
		},
		{
			Name: "web", State: api.ServerNeeds, Origin: "home", Kind: "http", URL: "https://mcp.example.com/a/very/long/path/that/is/shown/whole",
			Needs: []api.ServerNeed{{
				Type: core.ApproveOAuth, Description: "web asks you to sign in",
				Context: map[string]any{"tool": "web", "auth_url": "https://id.example.com/authorize?x=1"}, Digest: hashA,
			}},
		},
		{Name: "git", State: api.ServerNotTrusted, Origin: "workspace", Kind: "uvx", Warning: "the version is looked up anew each time"},
		{
			Name: "bad", State: api.ServerFailed, Origin: "workspace", Kind: "other", Error: "it ended at once\x1b[31m\nno database", Code: core.CodeServerUnreachable,
			Next:    []string{"pml", "servers", "check", "bad"},
			Health:  &api.ServerHealth{State: "failing", Failures: 3, LastError: "exit status 1", Stderr: "boom\x07\nTraceback\n"},
			Changed: []api.ToolChange{{Tool: "bad:write", Kind: "changed", Diff: []string{"- readOnlyHint: true", "+ readOnlyHint: false"}, OldHash: "sha256:aa", NewHash: "sha256:bb"}},
		},
	}
}

func (f *fake) Rules(context.Context) ([]api.PermissionRule, error) { return f.world.permissions, nil }

func (f *fake) TryRule(_ context.Context, r api.PermissionRule, since time.Time) (api.RuleTrial, error) {
	t := f.world.trial
	t.Rule, t.Since = r, since
	return t, nil
}

func (f *fake) SuggestRules(context.Context, time.Time) ([]api.RuleSuggestion, error) {
	return f.world.suggested, nil
}

func (f *fake) AddRules(_ context.Context, home bool, rules ...api.PermissionRule) (api.ChangeSet, error) {
	file := "/w/.pml.json"
	if home {
		file = "/home/config.json"
	}
	var out api.ChangeSet
	for _, r := range rules {
		out.Changes = append(out.Changes, api.Change{File: file, Diff: "+" + r.Tool + " where " + r.Where})
	}
	return out, nil
}

func (f *fake) RemoveRules(_ context.Context, home bool, like api.PermissionRule) (api.ChangeSet, error) {
	set, err := f.AddRules(context.Background(), home, like)
	set.Changes[0].Diff = "-" + like.List + " " + set.Changes[0].Diff[1:]
	return set, err
}

func (f *fake) HostMay(_ context.Context, c api.HostCall) (api.HostAnswer, error) {
	f.world.hostCalls = append(f.world.hostCalls, c)
	return f.world.hostAnswer, f.failWith
}

func (f *fake) Flows(context.Context) ([]api.Flow, error) { return f.world.flows, nil }

func (f *fake) Flow(_ context.Context, name string) (api.Flow, error) {
	for _, each := range f.world.flows {
		if each.ID == name {
			return each, nil
		}
	}
	return api.Flow{}, core.Errorf(core.CodeNotFound, "there is no flow %s", name)
}

func (f *fake) FlowHistory(context.Context, string, int) (api.FlowHistory, error) {
	return api.FlowHistory{}, nil
}

func (f *fake) SaveFlow(_ context.Context, file api.FlowFile) error {
	f.world.saved = append(f.world.saved, file)
	return f.failWith
}

func (f *fake) TryFlowOn(_ context.Context, _ string, call api.FlowCall) (api.FlowTrial, error) {
	if call.Tool == "fs" {
		call.Result = json.RawMessage(`{"tools":[{"name":"read"},{"name":"stat"},{"name":"write"}]}`)
		return api.FlowTrial{FlowCall: call, Verdict: "changed", Matches: true, Given: json.RawMessage(`{"tools":[{"name":"read","description":"x"},{"name":"stat"}]}`)}, nil
	}
	return api.FlowTrial{FlowCall: call, Verdict: "blocked", Matches: true, Reason: "no"}, nil
}

func (f *fake) TryFlowOnRun(_ context.Context, _ string, run core.ID) (api.FlowReplay, error) {
	return api.FlowReplay{RunID: run, Calls: 2, Counts: map[string]int{"passed": 2}}, nil
}

func (f *fake) TryFlowSince(_ context.Context, _ string, since time.Time) (api.FlowReplay, error) {
	return api.FlowReplay{Since: since, Counts: map[string]int{}}, nil
}

// Models lists those that the test has.
func (f *fake) NotifyCarriers(context.Context) ([]api.NotifyCarrier, error) {
	return f.world.carriers, f.failWith
}

func (f *fake) TestNotify(_ context.Context, names ...string) ([]api.NotifyTest, error) {
	f.world.notifyNames = append(f.world.notifyNames, names...)
	return f.world.notifyTests, f.failWith
}

func (f *fake) Models(context.Context) ([]api.Model, error) { return f.world.models, f.failWith }

func (f *fake) CheckModel(_ context.Context, name string, tools bool) (api.ModelCheck, error) {
	f.world.modelChecks = append(f.world.modelChecks, fmt.Sprint(name, " ", tools))
	return f.world.modelCheck, f.failWith
}
