package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (f *fake) HostChanges(_ context.Context, req api.HostRequest) ([]api.HostChange, error) {
	f.world.hostReqs = append(f.world.hostReqs, req)
	var out []api.HostChange
	for _, h := range f.world.hosts {
		undo := h.State == api.HostAdded || h.State == api.HostChanged || h.State == api.HostGone
		if byHand := h.State == api.HostByHand; byHand || req.ByHand {
			if byHand && req.ByHand {
				out = append(out, h)
			}
			continue
		}
		if undo == req.Undo && (len(req.Hosts) == 0 || slices.Contains(req.Hosts, h.Host)) {
			out = append(out, h)
		}
	}
	return out, nil
}

// ConnectedHosts are those that are connected.
func (f *fake) ConnectedHosts(context.Context) ([]api.ConnectedHost, error) {
	return f.world.connected, nil
}

// HostWorkspaces are those of the hosts that pml was put into.
func (f *fake) HostWorkspaces(context.Context) ([]string, error) { return f.world.hostDirs, nil }

func (f *fake) WriteHost(_ context.Context, h api.HostChange) error {
	if f.world.hostErr != nil {
		return f.world.hostErr
	}
	f.world.told = append(f.world.told, h.Host)
	return nil
}

// host is one that a change would be made for.
func host(name string, state api.HostState) api.HostChange {
	return api.HostChange{
		Host: name, Title: "The " + name, File: "/w/" + name + ".json", State: state, Hint: "start it\x1b[2J again",
		Change: &api.Change{File: "/w/" + name + ".json", Diff: "@@ line 2 @@\n+  \"pml\": {}\n", Digest: hashA, Notes: []string{"mind this"}},
	}
}

func hosted(list ...api.HostChange) *fake { return &fake{world: world{hosts: list}} }

// Without a terminal nothing is asked and nothing is written.
func TestInit_HostsUnattended(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: hosted(host("vscode", api.HostNew))}).run("init").want(t, 0).has(t, "out", "wrote /w/.pml.json").
		has(t, "err", "agent hosts that do not know pml yet: vscode\n", "next: pml init --all-hosts\n")
	if s.fake.world.told != nil {
		t.Error("written")
	}
	s = (&shell{fake: hosted(host("vscode", api.HostNew))}).run("init", "--host", "vscode").want(t, 8).
		has(t, "err", "The vscode, in /w/vscode.json:\n  @@ line 2 @@\n  +  \"pml\": {}\n  note: mind this\n", "next: pml init --host vscode --yes\n")
	if s.fake.world.told != nil {
		t.Error("written")
	}
	s = (&shell{tty: true, fake: hosted(host("vscode", api.HostNew))}).run("init", "--all-hosts", "--json").want(t, 8)
	if !json.Valid([]byte(s.out)) || strings.Contains(s.err, "[y]es") || s.fake.world.told != nil {
		t.Errorf("%s\n%s\n%v", s.out, s.err, s.fake.world.told)
	}
	s = (&shell{fake: hosted(host("vscode", api.HostNew), host("codex", api.HostNew))}).run("init", "--all-hosts", "--yes", "--json").want(t, 0)
	var out struct {
		Path  string
		Hosts []api.HostChange
	}
	if err := json.Unmarshal([]byte(s.out), &out); err != nil || out.Path != "/w/.pml.json" || len(out.Hosts) != 2 || !out.Hosts[1].Written || out.Hosts[1].Change.Diff == "" {
		t.Errorf("%v %s", err, s.out)
	}
	if d := cmp.Diff([]string{"vscode", "codex"}, s.fake.world.told); d != "" {
		t.Error(d)
	}
	(&shell{}).run("init", "--yes").want(t, 2)
	(&shell{}).run("init", "--host", "codex", "--all-hosts").want(t, 2)
}

// On a terminal each host is asked about, and no answer is no.
func TestInit_HostsAsked(t *testing.T) {
	t.Parallel()
	three := func() *fake {
		user := host("claude-code-user", api.HostNew)
		user.Covered = "claude-code"
		return hosted(host("claude-code", api.HostNew), host("cursor", api.HostNew), user)
	}
	for typed, want := range map[string][]string{
		"y\nn\ny\n": {"claude-code"},
		"n\ny\ny\n": {"cursor", "claude-code-user"},
		"n\n":       nil,
		"":          nil,
	} {
		s := (&shell{tty: true, stdin: "\n" + typed, fake: three()}).run("init").want(t, 0)
		if d := cmp.Diff(want, s.fake.world.told); d != "" {
			t.Errorf("%q: %s\n%s", typed, d, s.err)
		}
	}
	s := (&shell{tty: true, stdin: "o\ny\nn\n", fake: three()}).run("init").has(t, "out", "registered pml with The claude-code: /w/claude-code.json\n")
	s.has(t, "err", "register pml here? [y]es / [n]o: ", `note: start it\x1b[2J again`)
	// The end of the input is no answer; who named hosts is told so.
	(&shell{tty: true, fake: three()}).run("init", "--all-hosts").want(t, 8)
}

// Who decides is chosen: enter takes what is recommended, no answer writes nothing, and
// what nobody was asked about is said.
func TestInit_WhoDecides(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]api.Deciders{
		"\n": {}, "o\n": {}, "what\nd\n": {Dialog: true}, "A\n": {Agents: true},
	} {
		s := (&shell{tty: true, stdin: typed, fake: &fake{}}).run("init").want(t, 0).has(t, "err", "May the agent pass on your yes", "(recommended: enter takes it)")
		if d := cmp.Diff([]api.Deciders{want}, s.fake.world.deciders); d != "" || strings.Contains(s.err, "nobody was asked") {
			t.Errorf("%q: %s %s", typed, d, s.err)
		}
		if strings.Contains(s.err, "that is no answer: type o, d or a\n") != strings.HasPrefix(typed, "what") {
			t.Errorf("%q: %s", typed, s.err)
		}
	}
	if s := (&shell{tty: true, fake: &fake{}}).run("init").want(t, 8).has(t, "err", "nothing was written"); s.fake.world.deciders != nil {
		t.Error("nobody answered, and it was written")
	}
	for flag, want := range map[string]api.Deciders{"human": {}, "dialog": {Dialog: true}, "any": {Agents: true}} {
		s := (&shell{tty: true, fake: &fake{}}).run("init", "--decider", flag).want(t, 0)
		if d := cmp.Diff([]api.Deciders{want}, s.fake.world.deciders); d != "" || strings.Contains(s.err, "who decides?") {
			t.Errorf("%s: %s %s", flag, d, s.err)
		}
	}
	// What a person was there for is trusted; otherwise it is named as what comes next.
	if s := (&shell{tty: true, stdin: "\n", fake: &fake{}}).run("init").want(t, 0); !s.fake.trust.Trusted || strings.Contains(s.err, "pml trust") {
		t.Errorf("trusted %t: %s", s.fake.trust.Trusted, s.err)
	}
	(&shell{fake: &fake{}}).run("init").want(t, 0).has(t, "err", "no agent (approvals.decider is human)", "nobody was asked", "next: pml trust --show")
	(&shell{}).run("init", "--decider", "everybody").want(t, 2)
	(&shell{}).run("init", "--decider", "any", "--undo").want(t, 2)
}

// Who decides is set in a .pml.json that is there as well, where nobody has chosen: with
// the change shown, and with a person's yes to it.
func TestInit_WhoDecidesKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), ".pml.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := func() *fake {
		f := &fake{config: `{"approvals":{"decider":"any","decider_from":"default"}}`}
		f.world.kept, f.world.paths = true, &api.Paths{Config: file}
		return f
	}
	const asked = "write this? [y]es / [n]o: "
	for _, tt := range []struct {
		tty     bool
		typed   string
		args    string
		code    int
		written int
		want    []api.Deciders // the change that was prepared
		says    string
	}{
		{true, "\ny\n", "init", 0, 1, []api.Deciders{{}}, asked},
		{true, "a\ny\n", "init", 0, 1, []api.Deciders{{Agents: true}}, `+  "approvals": {}`},
		{true, "\nn\n", "init", 0, 0, []api.Deciders{{}}, "nothing was written"},
		{true, "", "init", 0, 0, nil, "nobody has chosen who decides here"},
		{true, "y\n", "init --decider dialog", 0, 1, []api.Deciders{{Dialog: true}}, asked},
		{true, "n\n", "init --decider dialog", 9, 0, []api.Deciders{{Dialog: true}}, asked},
		{false, "", "init", 0, 0, nil, "next: pml init --decider human --yes"},
		{false, "", "init --decider human", 8, 0, []api.Deciders{{}}, "next: pml init --decider human --yes"},
		{false, "", "init --decider human --yes", 0, 1, []api.Deciders{{}}, "wrote /w/.pml.json"},
		{false, "", "init --decider any --yes --json", 0, 1, []api.Deciders{{Agents: true}}, ""},
	} {
		s := (&shell{tty: tt.tty, stdin: tt.typed, fake: kept()}).run(strings.Fields(tt.args)...).want(t, tt.code).has(t, "err", tt.says)
		if d := cmp.Diff(tt.want, s.fake.world.deciders[1:], cmpopts.EquateEmpty()); d != "" || len(s.fake.world.written) != tt.written {
			t.Errorf("%s %q: %s %v\n%s", tt.args, tt.typed, d, s.fake.world.written, s.err)
		}
	}
	f := kept()
	f.world.chosen = true
	(&shell{tty: true, fake: f}).run("init", "--decider", "human").want(t, 0).has(t, "err", "that is what it says already")
	f = kept()
	f.config = `{"approvals":{"decider":"human","decider_from":".pml.json"}}` // nobody has trusted the file since
	(&shell{fake: f}).run("init", "--decider", "any", "--yes").want(t, 0).has(t, "err", "until you trust the file people decide, as before: pml trust")
}

// What somebody else wrote is only replaced when that was agreed to by name.
func TestInit_HostsForeign(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: hosted(host("codex", api.HostDiffers))}).run("init", "--all-hosts", "--yes").want(t, 0).has(t, "err", "--host codex")
	if s.fake.world.told != nil {
		t.Error("replaced in bulk")
	}
	s = (&shell{fake: hosted(host("codex", api.HostDiffers))}).run("init", "--host", "codex", "--yes").want(t, 0)
	if len(s.fake.world.told) != 1 {
		t.Error("not replaced")
	}
	(&shell{tty: true, stdin: "\nn\n", fake: hosted(host("codex", api.HostDiffers))}).run("init").has(t, "err", "this host knows something else by the name pml: replace it? ")
}

// A host whose file cannot be changed does not keep the others.
func TestInit_HostsInTheWay(t *testing.T) {
	t.Parallel()
	broken := api.HostChange{Host: "cursor", Title: "Cursor", File: "/w/c.json", State: api.HostUnusable, Reason: "not valid JSON"}
	known := api.HostChange{Host: "vscode", Title: "VS Code", File: "/w/v.json", State: api.HostRegistered}
	s := (&shell{fake: hosted(broken, known, host("codex", api.HostNew))}).run("init", "--all-hosts", "--yes").want(t, 0).
		has(t, "err", "Cursor: /w/c.json is left as it is: not valid JSON", "VS Code knows pml already")
	if d := cmp.Diff([]string{"codex"}, s.fake.world.told); d != "" {
		t.Error(d)
	}
	(&shell{fake: hosted(broken, known)}).run("init", "--host", "cursor", "--yes").want(t, 13)
	late := hosted(host("codex", api.HostNew))
	late.world.hostErr = core.Errorf(core.CodeDigestMismatch, "the file has changed")
	(&shell{fake: late}).run("init", "--host", "codex", "--yes").want(t, 12)
}

// A .pml.json that is there is no reason not to register; to write one it is.
func TestInit_Again(t *testing.T) {
	t.Parallel()
	again := func() *fake {
		f := hosted(host("codex", api.HostNew))
		f.world.kept = true
		return f
	}
	(&shell{fake: again()}).run("init").want(t, 2)
	for _, s := range []*shell{
		(&shell{fake: again()}).run("init", "--host", "codex", "--yes"),
		(&shell{tty: true, stdin: "\ny\n", fake: again()}).run("init"),
	} {
		s.want(t, 0)
		if len(s.fake.world.told) != 1 || strings.Contains(s.out, "wrote") {
			t.Errorf("%v %s", s.fake.world.told, s.out)
		}
	}
}

func TestInit_Undo(t *testing.T) {
	t.Parallel()
	list := func() *fake {
		return hosted(host("codex", api.HostAdded), host("cursor", api.HostChanged), api.HostChange{Host: "vscode", Title: "VS Code", File: "/w/v.json", State: api.HostGone})
	}
	s := (&shell{fake: list()}).run("init", "--undo", "--yes").want(t, 0).has(t, "out", "took pml out of The codex: /w/codex.json\n").has(t, "err", "--host cursor", "VS Code has no entry")
	if d := cmp.Diff([]string{"codex", "vscode"}, s.fake.world.told); d != "" {
		t.Error(d)
	}
	s = (&shell{fake: list()}).run("init", "--undo", "--host", "cursor", "--yes", "--json").want(t, 0)
	if d := cmp.Diff([]string{"cursor"}, s.fake.world.told); d != "" || !json.Valid([]byte(s.out)) {
		t.Error(d, s.out)
	}
	s = (&shell{tty: true, stdin: "y\nn\n", fake: list()}).run("init", "--undo").want(t, 0).has(t, "err", "take pml out here? ", "somebody has changed this entry: take it out all the same? ")
	if d := cmp.Diff([]string{"codex", "vscode"}, s.fake.world.told); d != "" {
		t.Error(d)
	}
	(&shell{fake: list()}).run("init", "--undo").want(t, 8).has(t, "err", "next: pml init --undo --yes\n")
	s = (&shell{fake: &fake{}}).run("init", "--undo", "--json").want(t, 0)
	if strings.TrimSpace(strings.ReplaceAll(s.out, "\n", "")) != `{  "hosts": []}` {
		t.Errorf("%q", s.out)
	}
}
