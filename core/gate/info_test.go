package gate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
)

// states are the states of servers, in one line.
func states(list []api.ServerInfo) string {
	var out []string
	for _, i := range list {
		s := i.Name + "=" + string(i.State)
		for _, n := range i.Needs {
			s += ":" + string(n.Type)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func (p *place) servers() []api.ServerInfo {
	p.t.Helper()
	list, err := p.Servers()
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

func (p *place) checked(names ...string) []api.ServerInfo {
	p.t.Helper()
	list, err := p.CheckServers(p.t.Context(), names...)
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

func named(t *testing.T, list []api.ServerInfo, name string) api.ServerInfo {
	t.Helper()
	i := slices.IndexFunc(list, func(i api.ServerInfo) bool { return i.Name == name })
	if i < 0 {
		t.Fatalf("no %s in %s", name, states(list))
	}
	return list[i]
}

// A server is ended and started anew; checking leaves its process alone.
func TestRestartServer(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).open()
	p.trust()
	before := named(t, p.checked("fake"), "fake").Health.PID
	if again := named(t, p.checked("fake"), "fake").Health.PID; again != before {
		t.Fatalf("checked: %d, then %d", before, again)
	}
	list, err := p.RestartServer(t.Context(), "fake")
	if err != nil || list[0].State != api.ServerReady || list[0].Health == nil || list[0].Health.PID == before || list[0].Health.PID == 0 {
		t.Errorf("%v: %+v, it was %d", err, list, before)
	}
	if _, err := p.RestartServer(t.Context(), "fkae"); core.CodeOf(err) != core.CodeNoSuchTool {
		t.Error(err)
	}
}

// Listing starts nothing and asks nobody; checking does.
func TestServers_Stand(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).open()
	want := "demo=not_trusted fake=not_trusted keyed=not_trusted workspace=ready"
	if got := states(p.servers()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := states(p.checked()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	p.trust()
	want = "demo=needs:dependency fake=ready keyed=needs:api_key_required workspace=ready"
	if got := states(p.servers()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := os.Stat(p.ws.Lock()); err == nil {
		t.Error("listing wrote pml.lock")
	}
	if i := named(t, p.servers(), "fake"); i.Health != nil || i.Tools != 0 {
		t.Errorf("listing started it: %+v", i)
	}
	list := p.checked()
	if got := states(list); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	fake := named(t, list, "fake")
	if fake.Tools != 3 || fake.Health == nil || fake.Health.State != "running" || fake.Health.PID == 0 || fake.Kind != string(launch.KindFile) {
		t.Errorf("%+v %+v", fake, fake.Health)
	}
	// Another process, which starts nothing, counts what pml.lock has.
	if i := named(t, p.open().servers(), "fake"); i.Health != nil || i.Tools != 3 {
		t.Errorf("not started: %+v", i)
	}
	demo := named(t, list, "demo")
	c, ok := demo.Needs[0].Context.(map[string]any)
	if !ok || c["dependency"] == nil || !strings.HasPrefix(demo.Needs[0].Digest, "sha256:") || demo.Installed {
		t.Errorf("%+v", demo)
	}
	if _, err := p.CheckServers(t.Context(), "fkae"); core.CodeOf(err) != core.CodeNoSuchTool || !strings.Contains(err.Error(), "fake") {
		t.Errorf("%v", err)
	}
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	if demo := named(t, p.servers(), "demo"); demo.State != api.ServerReady || !demo.Installed || demo.Version != "1.2.3" || demo.Digest == "" {
		t.Errorf("%+v", demo)
	}
}

// What has changed shows without any call, and a server that does not work says
// why, its keys taken out.
func TestServers_ChangedAndBroken(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	p.want("fake:read", "{}", "ok")
	p.write("../tools.json", strings.NewReplacer(`"Writes."`, `"Writes more."`, `"name":"fail"`, `"name":"new"`).Replace(tools))
	got := map[string]string{}
	for _, c := range named(t, p.open().checked("fake"), "fake").Changed {
		got[c.Tool] = c.Kind
		if c.Kind == "changed" && (len(c.Diff) == 0 || c.OldHash == c.NewHash) {
			t.Errorf("%+v", c)
		}
	}
	if want := map[string]string{"fake:write": "changed", "fake:new": "added", "fake:fail": "removed"}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	const key = "s3cr3t-value-1234"
	p.write(".env", "API_KEY="+key+"\n")
	p.write("serve.sh", "echo \"cannot log in with $API_KEY\" >&2; exit 1\n")
	p.write(".pml.json", `{"mcpServers":{"broken":{"command":"sh","args":["serve.sh","${API_KEY}"],"env":{"API_KEY":"${API_KEY}"}}}}`)
	i := named(t, p.trust().open().checked("broken"), "broken")
	if i.State != api.ServerNeeds || strings.Contains(fmt.Sprintf("%+v", i), key) {
		t.Fatalf("%+v", i)
	}
	raw, err := json.Marshal(i.Needs[0].Context)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Apply(t.Context(), core.Approval{ID: "a", Type: i.Needs[0].Type, Subject: "broken", Tool: "broken", Context: raw}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	i = named(t, p.checked("broken"), "broken")
	if i.State != api.ServerFailed || i.Code != core.CodeServerUnreachable || !strings.Contains(i.Error, "cannot log in with «API_KEY»") {
		t.Errorf("%+v", i)
	}
	if all := fmt.Sprintf("%+v %+v", i, i.Health); strings.Contains(all, key) {
		t.Errorf("the key shows: %s", all)
	}
	// Another process, which starts nothing, knows of it, for this entry only.
	i = named(t, p.open().servers(), "broken")
	if i.State != api.ServerFailed || i.FailedAt == nil || !strings.Contains(i.Error, "cannot log in with «API_KEY»") || i.Code != core.CodeServerUnreachable {
		t.Errorf("%+v", i)
	}
	files, err := filepath.Glob(filepath.Join(p.home.Broken(), "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if kept, err := os.ReadFile(files[0]); err != nil || strings.Contains(string(kept), key) {
		t.Errorf("%s %v", kept, err)
	}
	other := `{"mcpServers":{"broken":{"command":"sh","args":["other.sh"]}}}`
	p.write(".pml.json", other)
	if i := named(t, p.trust().open().servers(), "broken"); strings.Contains(i.Error, "log in") {
		t.Errorf("an entry that was never started: %+v", i)
	}
}

// TestServers_Replaced: how an entry failed is not told of the one that took its place.
func TestServers_Replaced(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	p.write("../tools.json"+downMark, "")
	if i := named(t, p.checked("fake"), "fake"); i.Health == nil || i.Health.Failures == 0 {
		t.Fatalf("%+v", i)
	}
	if i := named(t, p.servers(), "fake"); i.Health == nil || i.Health.State != "failing" {
		t.Errorf("%+v", i)
	}
	p.configure(allow, "more")
	p.trust()
	if i := named(t, p.servers(), "fake"); i.Health != nil {
		t.Errorf("%+v", i.Health)
	}
}

// TestServers_WorksAgain: a server that did not start is broken in lists until it does.
func TestServers_WorksAgain(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	p.write("../tools.json"+downMark, "")
	if i := named(t, p.checked("fake"), "fake"); i.State != api.ServerFailed {
		t.Fatalf("%+v", i)
	}
	if i := named(t, p.open().servers(), "fake"); i.State != api.ServerFailed || len(i.Next) == 0 {
		t.Errorf("%+v", i)
	}
	if err := os.Remove(p.file("../tools.json" + downMark)); err != nil {
		t.Fatal(err)
	}
	if i := named(t, p.checked("fake"), "fake"); i.State != api.ServerReady || i.FailedAt != nil {
		t.Errorf("%+v", i)
	}
	if i := named(t, p.open().servers(), "fake"); i.State != api.ServerReady {
		t.Errorf("%+v", i)
	}
}

// A package that nobody has is what is wrong with its server in lists too, until it is found,
// with what gives the server another one.
func TestServers_NoPackage(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(p *place){
		"check": func(p *place) { p.checked("demo") },
		"install": func(p *place) {
			_, _ = p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {})
		},
	} {
		p := settle(t, allow).trust().open()
		p.npm.gone = true
		look(p)
		for _, list := range [][]api.ServerInfo{p.open().servers(), p.checked("demo")} {
			i := named(t, list, "demo")
			if i.State != api.ServerFailed || len(i.Needs) > 0 || !strings.Contains(i.Error, "Not Found") || strings.Join(i.Next, " ") != "pml servers add demo --replace -- COMMAND" {
				t.Errorf("%s: %+v", name, i)
			}
		}
		p.npm.gone = false
		look(p.open())
		if i := named(t, p.open().servers(), "demo"); i.State != api.ServerNeeds {
			t.Errorf("%s: found again: %+v", name, i)
		}
	}
}

// Who has a server purged has what its last start left removed, too.
func TestPurge_BrokenStart(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	p.write("../tools.json"+downMark, "")
	p.checked("fake")
	left := func() []string {
		files, err := filepath.Glob(filepath.Join(p.home.Broken(), "*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if len(left()) != 1 {
		t.Fatalf("%v", left())
	}
	if _, err := p.Packages().Purge("fake"); err != nil || len(left()) != 0 {
		t.Errorf("%v, %v", left(), err)
	}
}

// servers lock pins without approving; with check it only looks.
func TestServers_Lock(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.write(".env", "API_KEY=first-value-1\n")
	p.trust().open()
	lock := func(check bool) api.LockReport {
		t.Helper()
		r, err := p.Packages().Lock(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := lock(true); !slices.Equal(r.Changed, []string{"demo", "fake", "keyed"}) || r.Written || r.File != p.ws.Lock() {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(p.ws.Lock()); err == nil {
		t.Fatal("checking wrote pml.lock")
	}
	if r := lock(false); !slices.Equal(r.Changed, []string{"demo", "fake", "keyed"}) || !r.Written {
		t.Errorf("%+v", r)
	}
	// The tree is pinned, and still nobody has approved it. That its tools are
	// not recorded yet does not make its entry stale.
	if r := lock(true); len(r.Changed) != 0 {
		t.Errorf("%+v", r.Changed)
	}
	p.want("demo:read", "{}", "dependency")
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	p.want("demo:read", "{}", "ok")
	if r := lock(true); len(r.Changed) != 0 {
		t.Errorf("%+v", r.Changed)
	}
	if r := lock(false); len(r.Changed) != 0 || r.Written {
		t.Errorf("%+v", r)
	}
	// Another command is stale, and locking does not accept it.
	p.configure(allow, "--evil")
	p.trust().open()
	if r := lock(true); !slices.Equal(r.Changed, []string{"demo", "fake", "keyed"}) {
		t.Errorf("%+v", r.Changed)
	}
	lock(false)
	p.open().want("fake:read", "{}", "integrity")
	// Nor where it also pins the tree, installed already, of another range.
	p.write(".pml.json", fmt.Sprintf(`{"permissions":%s,"mcpServers":{"demo":{"command":"npx","args":["-y","demo@1.2.3",%q,%q,"--evil"]}}}`, allow, fakeArg, p.file("../tools.json")))
	p.trust().open()
	lock(false)
	p.open().want("demo:read", "{}", "integrity")
	p.configure(allow)
	p.trust().open()
	lock(false)
	// A server that is gone loses its entry.
	p.write(".pml.json", `{"mcpServers":{}}`)
	if r := p.trust().open(); !slices.Equal(lock(true).Gone, []string{"demo", "fake", "keyed"}) || r == nil {
		t.Error("entries of servers that are gone are not named")
	}
	lock(false)
	if l, err := install.ReadLock(p.ws.Lock()); err != nil || len(l.Servers) != 0 {
		t.Errorf("%v %v", l.Servers, err)
	}
}

// An update shows what differs, is bound to what was shown, ends the old
// process and records the tools that came with it.
func TestServers_Update(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	p.mustApprove(p.want("demo:read", "{}", "dependency"))
	p.want("demo:read", "{}", "ok")
	update := func(digest string) (api.Update, error) {
		return p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo", Digest: digest}, func(string) {})
	}
	u, err := update("")
	if err != nil || !u.Current || len(u.Packages) != 0 || u.Installed {
		t.Fatalf("%+v %v", u, err)
	}
	before := named(t, p.checked("demo"), "demo")
	p.npm.version = "2.0.0"
	u, err = update("")
	if err != nil || u.Current || u.From != "1.2.3" || u.To != "2.0.0" || u.Digest == u.OldDigest || len(u.Packages) != 1 || u.Packages[0].From != "1.2.3" {
		t.Fatalf("%+v %v", u, err)
	}
	if now := named(t, p.checked("demo"), "demo"); now.Version != "1.2.3" || now.Health.PID != before.Health.PID {
		t.Errorf("looking changed something: %+v", now)
	}
	if _, err := update("sha256:other"); core.CodeOf(err) != core.CodeDigestMismatch {
		t.Errorf("%v", err)
	}
	p.write("../tools.json", strings.Replace(tools, `"Writes."`, `"Writes more."`, 1))
	u, err = update(u.Digest)
	if err != nil || !u.Installed || len(u.Tools) != 1 || u.Tools[0].Tool != "demo:write" || len(u.Tools[0].Diff) == 0 {
		t.Fatalf("%+v %v", u, err)
	}
	p.want("demo:write", "{}", "ok")
	now := named(t, p.checked("demo"), "demo")
	if now.Version != "2.0.0" || now.Health.PID == before.Health.PID {
		t.Errorf("%+v %+v", now, now.Health)
	}
	p.open().want("demo:write", "{}", "ok")
	for name, code := range map[string]core.Code{"fake": core.CodeInvalidArguments, "nobody": core.CodeNoSuchTool, "workspace": core.CodeInvalidArguments} {
		if _, err := p.Packages().Update(t.Context(), api.UpdateRequest{Name: name}, func(string) {}); core.CodeOf(err) != code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is pinned only, because somebody has locked it or cloned it, is not
// current: it is neither installed nor approved here.
func TestServers_UpdateOfPinned(t *testing.T) {
	t.Parallel()
	p := settle(t, allow).trust().open()
	if _, err := p.Packages().Lock(t.Context(), false, "demo"); err != nil {
		t.Fatal(err)
	}
	u, err := p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {})
	if err != nil || u.Current || u.From != "1.2.3" || u.OldDigest != u.Digest {
		t.Fatalf("%+v %v", u, err)
	}
	u, err = p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo", Digest: u.Digest}, func(string) {})
	if err != nil || !u.Installed {
		t.Fatalf("%+v %v", u, err)
	}
	p.want("demo:read", "{}", "ok")
	if u, err = p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {}); err != nil || !u.Current {
		t.Errorf("%+v %v", u, err)
	}
}

// Where the range is written in another way, or pml.lock is gone, and it stands for
// the tree that is approved and installed here, there is nothing to decide.
func TestServers_UpdateOfTheSame(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*place){
		"Range": func(p *place) { p.write(".pml.json", strings.ReplaceAll(p.read(".pml.json"), `"demo",`, `"demo@^1",`)) },
		"Lock":  func(p *place) { p.write("pml.lock", `{"version": 1, "servers": {}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, allow).trust().open()
			p.mustApprove(p.want("demo:read", "{}", "dependency"))
			p.want("demo:read", "{}", "ok")
			change(p)
			p.trust().open()
			if u, err := p.Packages().Update(t.Context(), api.UpdateRequest{Name: "demo"}, func(string) {}); err != nil || !u.Current {
				t.Errorf("%+v %v", u, err)
			}
		})
	}
}

// Purging takes the entry and the tree away, unless another server uses it.
func TestServers_Purge(t *testing.T) {
	t.Parallel()
	p := settle(t, `{"allow":["*"]}`)
	args := []string{"-y", "demo", fakeArg, p.file("../tools.json")}
	entry := fmt.Sprintf(`{"command":"npx","args":["%s"]}`, strings.Join(args, `","`))
	p.write(".pml.json", fmt.Sprintf(`{"permissions":{"allow":["*"]},"mcpServers":{"one":%s,"two":%s}}`, entry, entry))
	p.trust().open()
	for _, id := range []string{"one:read", "two:read"} {
		p.mustApprove(p.want(id, "{}", "dependency"))
		p.want(id, "{}", "ok")
	}
	p.write(".pml.json", fmt.Sprintf(`{"permissions":{"allow":["*"]},"mcpServers":{"two":%s}}`, entry))
	p.trust()
	r, err := p.Packages().Purge("one")
	if err != nil || len(r.Trees) != 0 || len(r.Kept) != 1 || !strings.Contains(r.Kept[0], "two") {
		t.Fatalf("%+v %v", r, err)
	}
	p.want("two:read", "{}", "ok")
	p.write(".pml.json", `{}`)
	p.trust()
	r, err = p.Packages().Purge("two")
	if err != nil || len(r.Trees) != 1 || r.Bytes == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if found, err := filepath.Glob(filepath.Join(p.home.Packages(), "demo", "*", "node_modules")); err != nil || len(found) != 0 {
		t.Errorf("%v %v", found, err)
	}
	if l, err := install.ReadLock(p.ws.Lock()); err != nil || len(l.Servers) != 0 {
		t.Errorf("%v %v", l.Servers, err)
	}
	if r, err := p.Packages().Purge("two"); err != nil || len(r.Trees) != 0 {
		t.Errorf("again: %+v %v", r, err)
	}
}

// A server of the home that an untrusted workspace configures otherwise is shown
// as what runs, which is that of the home.
func TestServers_UntrustedNamesake(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	home := fmt.Sprintf(`{"mcpServers":{"fake":{"command":%q,"args":[%q,%q]}}}`, os.Args[0], fakeArg, p.file("../tools.json"))
	if err := os.WriteFile(p.home.Config(), []byte(home), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write(".pml.json", `{"mcpServers":{"fake":{"command":"node","args":["evil.js"]}}}`)
	p.write("evil.js", "")
	p.open()
	for what, list := range map[string][]api.ServerInfo{"ls": p.servers(), "check": p.checked()} {
		i := named(t, list, "fake")
		if i.State != api.ServerReady || i.Origin != "home" || i.File != p.home.Config() || len(i.Command) != 3 || i.Command[0] != os.Args[0] {
			t.Errorf("%s: %+v", what, i)
		}
		if !strings.Contains(i.Warning, p.ws.Config()) || !strings.Contains(i.Warning, "not trusted") {
			t.Errorf("%s does not say that it may be replaced: %q", what, i.Warning)
		}
	}
	if _, err := p.Packages().Lock(t.Context(), false); core.CodeOf(err) != core.CodeNotTrusted {
		t.Errorf("locked: %v", err)
	}
	p.trust()
	if i := named(t, p.servers(), "fake"); i.Origin != "workspace" || i.Command[0] != "node" || strings.Contains(i.Warning, "not trusted") {
		t.Errorf("%+v", i)
	}
}
