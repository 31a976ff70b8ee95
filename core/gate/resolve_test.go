package gate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
)

// script writes a program into the workspace that leaves a mark and is the fake
// server then. It is named by path, so that it runs as it is.
func (p *place) script(name, mark string) {
	p.t.Helper()
	p.write(name, "#!/bin/sh\n: >"+p.file(mark)+"\nexec "+os.Args[0]+" \"$@\"\n")
	if err := os.Chmod(p.file(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) has(name string) bool {
	_, err := os.Stat(p.file(name))
	return err == nil
}

// one configures a single server "fake", of the workspace, and trusts it.
func (p *place) one(entry string) *place {
	p.t.Helper()
	p.write(".pml.json", `{"permissions":{"allow":["fake"]},"mcpServers":{"fake":`+entry+`}}`)
	return p.trust()
}

// fakeEntry is an entry whose command, after it, gets what the fake server needs.
func (p *place) fakeEntry(command, more string) string {
	return fmt.Sprintf(`{"command":%q,"args":[%q,%q]%s}`, command, fakeArg, p.file("../tools.json"), more)
}

// A command that .env fills is asked about, whole, before it runs; so is another
// one later, and the same one for another server process is not.
func TestGiven_CommandFromDotEnv(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.script("first-program.sh", "ran-first")
	p.script("other-program.sh", "ran-other")
	p.one(p.fakeEntry("${CMD}", ""))
	p.write(".env", "CMD=./first-program.sh\n")
	p.open()
	v := p.want("fake:read", "{}", "integrity")
	lines := changed(t, v)
	if !strings.Contains(lines, "+ ./first-program.sh "+fakeArg) || !strings.Contains(lines, "from .env: command") || !strings.Contains(v.Ask[0].Description, "filled from .env") {
		t.Errorf("%s\n%s", v.Ask[0].Description, lines)
	}
	if kind, old := about(t, v); kind != "command" || old != "" {
		t.Errorf("%s %q", kind, old)
	}
	if i := named(t, p.servers(), "fake"); i.State != api.ServerNeeds {
		t.Errorf("%+v", i)
	}
	if p.has("ran-first") {
		t.Fatal("it ran before anybody was asked")
	}
	p.mustApprove(v)
	p.want("fake:read", "{}", "ok")
	p.open().want("fake:read", "{}", "ok")

	p.write(".env", "CMD=./other-program.sh\n")
	v = p.want("fake:read", "{}", "integrity")
	if _, old := about(t, v); old == "" || !strings.Contains(changed(t, v), "- ./first-program.sh") || p.has("ran-other") {
		t.Errorf("%q %s", old, changed(t, v))
	}
	// A colleague's pml.lock with that very command does not approve it here.
	if err := os.Remove(p.home.Packages() + "/.approved.json"); err != nil {
		t.Fatal(err)
	}
	p.write(".env", "CMD=./first-program.sh\n")
	v = p.open().want("fake:read", "{}", "integrity")
	if _, old := about(t, v); old != "" {
		t.Errorf("%q", old)
	}
	file := p.lockEntry("fake").FileDigest
	p.mustApprove(v)
	if now := p.lockEntry("fake").FileDigest; now == "" || now != file {
		t.Errorf("the pinned file is forgotten: %q, was %q", now, file)
	}
}

// about is the kind and the old hash of a question about integrity.
func about(t *testing.T, v engine.Verdict) (kind, old string) {
	t.Helper()
	c, ok := v.Ask[0].Context.(map[string]any)
	if !ok {
		t.Fatalf("%T", v.Ask[0].Context)
	}
	return fmt.Sprint(c["kind"]), fmt.Sprint(c["old_hash"])
}

func (p *place) lockEntry(name string) install.LockEntry {
	p.t.Helper()
	lock, err := install.ReadLock(p.ws.Lock())
	if err != nil {
		p.t.Fatal(err)
	}
	return lock.Servers[name]
}

// Arguments, folder and the variables that load code are asked about as the
// command is; a key in env is not.
func TestGiven_OtherPlacesFromDotEnv(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ more, dotenv, shown string }{
		"Argument": {"", "TOOLS=../tools.json\n", "from .env: args/1"},
		"Folder":   {`,"cwd":"${SUB}"`, "SUB=sub\nTOOLS=../tools.json\n", "(in sub)"},
		"Loader":   {`,"env":{"NODE_OPTIONS":"${NODE_OPTS:-}"}`, "NODE_OPTS=--require ./evil-program.js\nTOOLS=../tools.json\n", `+ NODE_OPTIONS="--require ./evil-program.js" `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, allow)
			if err := os.Mkdir(p.file("sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			p.write("sub/tools.json", tools)
			p.write("evil-program.js", "1")
			arg := p.file("../tools.json")
			if name == "Argument" {
				arg = "${TOOLS}"
			}
			p.one(fmt.Sprintf(`{"command":%q,"args":[%q,%q]%s}`, os.Args[0], fakeArg, arg, c.more))
			p.write(".env", c.dotenv)
			v := p.open().want("fake:read", "{}", "integrity")
			if kind, _ := about(t, v); kind != "command" || !strings.Contains(changed(t, v), c.shown) {
				t.Errorf("%s %s", kind, changed(t, v))
			}
			p.mustApprove(v)
			p.want("fake:read", "{}", "ok")
		})
	}
	p := settle(t, allow).trust()
	p.write(".env", "API_KEY=a-key-of-the-server\n")
	p.open().want("keyed:read", "{}", "ok")
}

// A variable that loads code and is empty at first is noticed when .env fills it
// later, and so is one that only the entry has changed.
func TestGiven_LoaderLater(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.one(p.fakeEntry(os.Args[0], `,"env":{"NODE_OPTIONS":"${NODE_OPTS:-}"}`))
	p.open().want("fake:read", "{}", "ok")
	p.write(".env", "NODE_OPTS=--require ./pre.js\n")
	v := p.want("fake:read", "{}", "integrity")
	if _, old := about(t, v); old == "" {
		t.Error("there is no old hash")
	}
	p.write(".env", "")
	p.want("fake:read", "{}", "ok")
	for _, more := range []string{
		`,"env":{"LD_BIND_NOW":"1"}`, `,"env":{"LD_BIND_NOW":"2"}`, `,"cwd":".."`, `,"cwd":"."`, `,"cwd":".","env":{"LD_BIND_NOW":"1"}`,
	} {
		p.one(p.fakeEntry(os.Args[0], more))
		p.mustApprove(p.want("fake:read", "{}", "integrity"))
		p.want("fake:read", "{}", "ok")
	}
}

// A key that .env gives to an argument is left out of the question, which says so.
func TestGiven_KeysAreNotShown(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	const key = "s3cr3t-value-1234"
	p.one(fmt.Sprintf(`{"command":%q,"args":[%q,%q,"--key=${KEY}"]}`, os.Args[0], fakeArg, p.file("../tools.json")))
	p.write(".env", "KEY="+key+"\n")
	v := p.open().want("fake:read", "{}", "integrity")
	raw, err := json.Marshal(v.Ask[0])
	if err != nil || strings.Contains(string(raw), key) || !strings.Contains(changed(t, v), "--key=«KEY»") || !strings.Contains(changed(t, v), "left out") {
		t.Errorf("%s %v", raw, err)
	}
}

// listener is an MCP server over HTTP that counts what reaches it.
func listener(t *testing.T) (url string, heard *atomic.Int64) {
	t.Helper()
	heard = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard.Add(1)
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&req) != nil || req.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"tools":` + tools + `}`
		if req.Method == "initialize" {
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, heard
}

// Keys go nowhere else than before without a question, and the first time
// nowhere that .env says.
func TestGiven_Address(t *testing.T) {
	t.Parallel()
	good, _ := listener(t)
	evil, heard := listener(t)
	p := settle(t, allow)
	p.write(".env", "TOKEN=t0ken-of-the-server\n")
	p.one(`{"url":"${U:-` + good + `}/mcp?x=${X:-1}","headers":{"Authorization":"Bearer ${TOKEN}"}}`)
	p.open().want("fake:read", "{}", "ok")
	p.write(".env", "TOKEN=another-t0ken-of-it\nX=2\n")
	p.want("fake:read", "{}", "ok") // keys, and a query, which may hold some
	p.write(".env", "TOKEN=another-t0ken-of-it\n")
	p.want("fake:read", "{}", "ok")

	p.write(".env", "TOKEN=t0ken-of-the-server\nU="+evil+"\n")
	v := p.want("fake:read", "{}", "integrity")
	kind, old := about(t, v)
	if kind != "command" || old == "" || !strings.Contains(v.Ask[0].Description, evil) || !strings.Contains(changed(t, v), "- "+good+"/mcp (headers: Authorization)") {
		t.Errorf("%s %q %s\n%s", kind, old, v.Ask[0].Description, changed(t, v))
	}
	if i := named(t, p.servers(), "fake"); i.State != api.ServerNeeds {
		t.Errorf("%+v", i)
	}
	p.checked("fake")
	if n := heard.Load(); n != 0 {
		t.Fatalf("%d requests were sent before anybody was asked", n)
	}
	if !strings.Contains(changed(t, v), "+ "+evil+"/mcp (headers: Authorization)") {
		t.Errorf("%s", changed(t, v))
	}
	p.mustApprove(v)
	p.want("fake:read", "{}", "ok")
	if heard.Load() == 0 {
		t.Error("nothing was sent")
	}
	p.write(".env", "TOKEN=another-t0ken-of-it\nU="+evil+"\n")
	p.want("fake:read", "{}", "ok") // only the key is another one

	// A path may be a key: then only where it leads is shown.
	p.one(`{"url":"${WHOLE}"}`)
	p.write(".env", "WHOLE="+evil+"/key-in-the-path/mcp\n")
	lines := changed(t, p.want("fake:read", "{}", "integrity"))
	if strings.Contains(lines, "key-in-the-path") || !strings.Contains(lines, "+ "+evil+"/…") || !strings.Contains(lines, "left out") {
		t.Errorf("%s", lines)
	}
}

// servers connect sends nothing to an address that nobody has agreed to.
func TestGiven_ConnectElsewhere(t *testing.T) {
	t.Parallel()
	evil, heard := listener(t)
	p := settle(t, allow)
	p.one(`{"url":"${U:-http://127.0.0.1:1}/mcp"}`)
	p.write(".env", "U="+evil+"\n")
	p.auth = oauth.New(oauth.Options{Dir: p.home.Credentials(), Clock: wall{}})
	p.open()
	if err := p.Connect(t.Context(), "fake", func(string) {}); core.CodeOf(err) != core.CodeIntegrityFailed {
		t.Errorf("%v", err)
	}
	err := p.Apply(t.Context(), core.Approval{ID: "a", Type: core.ApproveOAuth, Subject: "fake", Tool: "fake"}, func(string) {})
	if core.CodeOf(err) != core.CodeIntegrityFailed || heard.Load() != 0 {
		t.Errorf("%v, %d requests", err, heard.Load())
	}
}

// A container client of the machine runs in the workspace, one that a folder
// holds does not.
func TestGiven_HomeEntriesOfContainers(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`)
	for _, dir := range []string{p.ws.Dir, p.home.Dir} {
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\npwd >>"+p.file("../where")+"\nexec "+os.Args[0]+" "+fakeArg+" "+p.file("../tools.json")+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	in := func(command string, args ...string) string {
		t.Helper()
		raw, err := json.Marshal(map[string]any{"permissions": map[string]any{"allow": []string{"box"}}, "mcpServers": map[string]any{"box": map[string]any{"command": command, "args": args}}})
		if err != nil {
			t.Fatal(err)
		}
		p.write("../home/config.json", string(raw))
		if err := os.RemoveAll(p.home.Packages()); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(p.home.Dir, "pml.lock")); err != nil {
			t.Fatal(err)
		}
		p.write("../where", "")
		p.open().want("box:read", "{}", "ok")
		where, err := os.ReadFile(p.file("../where"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(where))
	}
	if got := in(p.file("docker"), "run", "-i", "image"); got != p.ws.Dir {
		t.Errorf("whole path: %s", got)
	}
	if got := in("./docker", "run", "-i", "image"); got != p.home.Dir {
		t.Errorf("relative path: %s", got)
	}
	if got := in("env", "A=b", "./docker", "run", "-i", "image"); got != p.home.Dir {
		t.Errorf("relative path behind env: %s", got)
	}
}

// An entry of the home runs in the home: what a folder holds is not found by it.
// One that names a folder itself runs there.
func TestGiven_HomeEntriesRunInTheHome(t *testing.T) {
	t.Parallel()
	p := settle(t, `{}`)
	if err := os.Remove(p.file(".pml.json")); err != nil {
		t.Fatal(err)
	}
	p.home.Dir = filepath.Join(p.home.Dir, "not-made-yet")
	entry := func(more string) string {
		return fmt.Sprintf(`{"command":"sh","args":["serve.sh",%q,%q,%q]%s}`, os.Args[0], fakeArg, p.file("../tools.json"), more)
	}
	configure := func(entry string) {
		t.Helper()
		p.write(filepath.Join("../home/not-made-yet", "config.json"), `{"permissions":{"allow":["mine"]},"mcpServers":{"mine":`+entry+`}}`)
	}
	if err := os.MkdirAll(p.home.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	script := "pwd >\"$3.pwd\"\nexec \"$@\"\n"
	p.write("serve.sh", ": >evil\n"+script)
	configure(entry(""))
	v := p.open().want("mine:read", "{}", string(core.CodeServerUnreachable))
	if !strings.Contains(v.Deny.Message, p.home.Dir) {
		t.Errorf("%v", v.Deny)
	}
	p.write("../home/not-made-yet/serve.sh", script)
	p.open().want("mine:read", "{}", "ok")
	if raw, err := os.ReadFile(p.file("../tools.json.pwd")); err != nil || strings.TrimSpace(string(raw)) != p.home.Dir {
		t.Errorf("it ran in %s, %v", raw, err)
	}
	if p.has("evil") {
		t.Error("the workspace's script ran")
	}
	configure(entry(`,"cwd":"."`))
	p.mustApprove(p.open().want("mine:read", "{}", "integrity"))
	p.want("mine:read", "{}", "ok")
	if !p.has("evil") {
		t.Error("it did not run where its entry says")
	}
}

// A server whose program this machine does not have is no fault of pml.lock: it
// could not be recorded here. A script that is gone is.
func TestServers_LockWithoutProgram(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	p.one(`{"command":"uvx","args":["x==1.0"],"env":{"PATH":"/nowhere"}}`).open()
	r, err := p.Packages().Lock(t.Context(), true)
	if err != nil || len(r.Changed) != 0 {
		t.Errorf("%v %v", r.Changed, err)
	}
	p.one(`{"command":"./gone.sh"}`)
	if r, err = p.Packages().Lock(t.Context(), true); err != nil || len(r.Changed) != 1 {
		t.Errorf("%v %v", r.Changed, err)
	}
}

// Who agrees to another image or package that has no digest or version is told
// that it can change.
func TestGiven_UnpinnedIsSaid(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	if err := os.WriteFile(p.file("../uvx"), []byte("#!/bin/sh\nexec "+os.Args[0]+" "+fakeArg+" "+p.file("../tools.json")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf(`,"env":{"PATH":%q}}`, filepath.Dir(p.file("../uvx")))
	p.one(`{"command":"uvx","args":["thing==1.0"]`+path).open().want("fake:read", "{}", "ok")
	v := p.one(`{"command":"uvx","args":["thing"]`+path).open().want("fake:read", "{}", "integrity")
	if lines := changed(t, v); !strings.Contains(lines, "not pinned: the package thing has no exact version") {
		t.Error(lines)
	}
}
