//go:build unix

package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// tab is a browser on the pages of a server.
type tab struct {
	t   testing.TB
	c   http.Client
	url string
}

func newTab(t testing.TB, url string) *tab {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tab{t, http.Client{Jar: jar, Timeout: pmltest.Patience}, url}
}

// send sends a form, or asks for a page without one, and returns what is shown at last.
func (b *tab) send(path string, form url.Values) (status int, body string) {
	b.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.url)
	}
	resp, err := b.c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

var formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

// token is that of a form.
func (b *tab) token(body string) string {
	b.t.Helper()
	m := formToken.FindStringSubmatch(body)
	if m == nil {
		b.t.Fatalf("no form: %s", body)
	}
	return m[1]
}

// TestPages_Device: a device is paired by an address that is good once; it decides as the
// user whose server it is, by its name, until it is removed.
func TestPages_Device(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	if o := m.Exit(5, "pair", "phone"); !strings.Contains(o.Stderr, "nothing was paired") {
		t.Error(o.Stderr)
	}
	m.OK("server", "key", "add", "ann")
	m.Serving("--listen", "127.0.0.1:0")
	at := m.Status(0).Server.URL
	m.Exit(2, "pair", "phone", "--url", "https://ann@evil.example/x")
	var p struct{ URL string }
	m.OK("pair", "phone", "--json").Decode(&p)
	if !strings.HasPrefix(p.URL, at+"/pair?code=") {
		t.Fatal(p.URL)
	}
	code := strings.TrimPrefix(p.URL, at+"/pair?code=")
	b := newTab(t, at)
	if _, body := b.send("/pair?code="+code, nil); !strings.Contains(body, "Pair as phone") {
		t.Error(body)
	}
	if status, body := b.send("/pair", url.Values{"code": {code}}); status != http.StatusOK || !strings.Contains(body, "Nothing waits") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := newTab(t, at).send("/pair", url.Values{"code": {code}}); status != http.StatusUnauthorized {
		t.Errorf("the address again: %d", status)
	}
	waits := m.JSON(8, "execute", "--detach", "--wait", "30s", "--code", `return (await mcp.rec.danger({x: "a"})).done`)
	path := "/approvals/" + string(waits.CheckpointID)
	_, body := b.send(path, nil)
	form := url.Values{"token": {b.token(body)}, "decision": {"deny"}, "reason": {"not from here"}}
	if status, body := b.send(path, form); status != http.StatusOK || !strings.Contains(body, "via page on phone") {
		t.Errorf("%d %s", status, body)
	}
	pmltest.Wants(t, m.OK("audit", "ls", "--json").Stdout, `"via": "page"`, `"name": "phone"`, "not from here", "began the pairing of the device phone", "paired the device phone", "(not signed in)", "POST /pair on the pages")

	// What this machine runs by itself: the process that asked is gone, and this server
	// goes on with its run.
	own := m.Execute(8, `return (await mcp.rec.danger({x: "own"})).done`)
	if _, body := b.send("/", nil); !strings.Contains(body, "1 waiting") || !strings.Contains(body, string(own.CheckpointID)) {
		t.Errorf("the inbox: %s", body)
	}
	path = "/approvals/" + string(own.CheckpointID)
	_, body = b.send(path, nil)
	form = url.Values{"token": {b.token(body)}, "decision": {"approve"}, "typed": {string(own.WorkflowID[:4])}}
	if status, body := b.send(path, form); status != http.StatusOK || !strings.Contains(body, "via page on phone") {
		t.Errorf("%d %s", status, body)
	}
	pmltest.WaitFor(t, "the run's end", func() bool { return m.Workflow(own.WorkflowID).State == core.RunComplete })
	if m.Count("danger") != 1 {
		t.Errorf("%d calls", m.Count("danger"))
	}
	pmltest.Wants(t, m.OK("pair", "ls").Stdout, "phone")
	m.OK("pair", "rm", "phone")
	pmltest.Wants(t, m.OK("audit", "ls", "--json").Stdout, "removed the device phone")
	if _, body := b.send("/", nil); !strings.Contains(body, "Sign in") {
		t.Errorf("removed, it still sees %s", body)
	}
}

// TestPages: who has a key sees what waits in a browser and decides it there; the run goes
// on, and the audit log says by what means.
func TestPages(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	ann := keyUser{t: t, name: "ann", key: strings.TrimSpace(m.OK("server", "key", "add", "ann").Stdout)}
	bob := strings.TrimSpace(m.OK("server", "key", "add", "bob").Stdout)
	m.Serving("--listen", "127.0.0.1:0")
	ann.url = m.Status(0).Server.URL
	waits := ann.run(`return (await mcp.rec.danger({x: "<b>"})).done`, "one")
	if waits.Status != api.StatusApprovalRequired {
		t.Fatalf("%+v", waits)
	}
	at := "/approvals/" + string(waits.CheckpointID)

	other := newTab(t, ann.url)
	other.send("/sign-in", url.Values{"key": {bob}})
	if status, body := other.send(at, nil); status != http.StatusNotFound || strings.Contains(body, "danger") {
		t.Errorf("bob: %d %s", status, body)
	}
	b := newTab(t, ann.url)
	if _, body := b.send("/sign-in", url.Values{"key": {ann.key}}); !strings.Contains(body, "1 waiting") || !strings.Contains(body, "rec:danger") {
		t.Fatalf("the inbox: %s", body)
	}
	_, body := b.send(at, nil)
	pmltest.Wants(t, body, "high risk", "&lt;b&gt;", "to approve it")
	form := url.Values{"token": {b.token(body)}, "decision": {"approve"}, "typed": {"none"}}
	status, body := b.send(at, form)
	if status != http.StatusConflict || m.Count("danger") != 0 {
		t.Errorf("without the characters: %d %s", status, body)
	}
	form.Set("token", b.token(body))
	form.Set("typed", string(waits.WorkflowID[:4]))
	if status, body = b.send(at, form); status != http.StatusOK || !strings.Contains(body, "ann via page") {
		t.Errorf("%d %s", status, body)
	}
	pmltest.WaitFor(t, "the call", func() bool { return m.Count("danger") == 1 })
	if _, body := b.send("/runs/"+string(waits.WorkflowID), nil); !strings.Contains(body, "rec:danger") {
		t.Error(body)
	}
	var log api.Page[core.AuditRow]
	m.OK("audit", "ls", "--oldest", "--json").Decode(&log)
	var rows []core.AuditRow
	for _, r := range log.Items {
		if r.RunID == waits.WorkflowID && r.By.Via == core.ViaPage {
			rows = append(rows, r)
		}
	}
	if len(rows) != 2 || rows[0].Outcome != core.OutcomeRefused || rows[1].Outcome != core.ApprovalApproved || rows[1].Asked != core.PresencePage || rows[1].By.Who != "ann" {
		t.Errorf("%+v", rows)
	}
}

// TestPages_Person: where people decide, a browser that is signed in shows none: a decision
// there needs the PIN, and a cookie alone does not get past it.
func TestPages_Person(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"decider": "human"}
	m := pmltest.NewMachine(t, c)
	ann := keyUser{t: t, name: "ann", key: strings.TrimSpace(m.OK("server", "key", "add", "ann").Stdout)}
	m.Serving("--listen", "127.0.0.1:0")
	ann.url = m.Status(0).Server.URL
	waits := ann.run(`return (await mcp.rec.danger({x: "a"})).done`, "one")
	at := "/approvals/" + string(waits.CheckpointID)
	b := newTab(t, ann.url)
	b.send("/sign-in", url.Values{"key": {ann.key}})
	_, body := b.send(at, nil)
	form := url.Values{"decision": {"approve"}, "typed": {string(waits.WorkflowID[:4])}}
	try := func(pin string) (int, string) {
		t.Helper()
		form.Set("token", b.token(body))
		form.Set("pin", pin)
		var status int
		status, body = b.send(at, form)
		return status, body
	}
	if status, body := try(""); status != http.StatusForbidden || !strings.Contains(body, "waits for a person") {
		t.Errorf("without a PIN there is: %d %s", status, body)
	}
	set := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed(`the new PIN \(at least 6 characters\): `, pmltest.MachinePIN), pmltest.Typed("the new PIN once more: ", pmltest.MachinePIN), pmltest.Typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	if set.Exit != 0 {
		t.Fatal(set.Text)
	}
	_, body = b.send(at, nil)
	pmltest.Wants(t, body, `name="pin"`)
	for _, pin := range []string{"", "letmein1"} {
		if status, body := try(pin); status < 400 || strings.Contains(body, "decided by") {
			t.Errorf("with the PIN %q: %d %s", pin, status, body)
		}
	}
	if m.Count("danger") != 0 {
		t.Fatal("it was done without the PIN")
	}
	if status, body := try(pmltest.MachinePIN); status != http.StatusOK || !strings.Contains(body, "ann via page") {
		t.Errorf("%d %s", status, body)
	}
	pmltest.WaitFor(t, "the call", func() bool { return m.Count("danger") == 1 })
	pmltest.Wants(t, m.OK("audit", "ls", "--json").Stdout, `"asked": "pin"`, `"via": "page"`)
}

// TestPages_Chromium: a person with a phone, in a real browser.
func TestPages_Chromium(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "starts a browser")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Serving("--listen", "127.0.0.1:0") // without a key only devices get in
	if r, err := http.Get(m.Status(0).Server.URL + "/api/v1/workflows"); err != nil || r.Body.Close() != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v", err)
	}
	var p struct{ URL string }
	m.OK("pair", "phone", "--json").Decode(&p)
	b := pmltest.NewChromium(t)
	b.Open(p.URL)
	b.Until(`document.querySelector("button") && document.querySelector("button").textContent == "Pair as phone"`)
	b.Eval(`document.querySelector("button").click()`)
	b.Until(`document.querySelector("h1").textContent == "Nothing waits"`)

	// What comes is there without a look, and is text, whatever it is.
	hostile := `<img src=x onerror=alert(1)>` + "\u202e" + strings.Repeat("y", 4000)
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	waits := m.Execute(8, `return (await mcp.rec.danger({x: `+string(quoted)+`})).done`)
	b.Until(`document.querySelectorAll("article").length == 1`)
	at := m.Status(0).Server.URL + "/approvals/" + string(waits.CheckpointID)

	// A link of another site leads to it; a form of that site decides nothing.
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="`+at+`">look</a><form method=post action="`+at+`"><input name=decision value=deny></form>`)
	}))
	defer site.Close()
	other := strings.Replace(site.URL, "127.0.0.1", "localhost", 1) // another site for a browser
	b.Open(other)
	b.Until(`document.querySelector("form")`)
	b.Eval(`document.querySelector("form").submit()`)
	b.Until(`document.body.textContent.includes("another page has sent this")`)
	b.Open(other)
	b.Until(`document.querySelector("a") && document.querySelector("a").textContent == "look"`)
	b.Eval(`document.querySelector("a").click()`)
	b.Until(`location.href == "` + at + `" && document.querySelector("#decide")`)
	for expression, want := range map[string]string{
		"document.images.length": "0", "window.shift": "0", "document.documentElement.scrollWidth > innerWidth": "false", `document.body.textContent.includes("` + strings.Repeat("y", 4000) + `")`: "true",
		`[...document.querySelectorAll("input:not([type=hidden])")].every(i => i.labels.length == 1)`: "true",
	} {
		if got := b.Eval(expression); got != want {
			t.Errorf("%.60s: %s", expression, got)
		}
	}
	b.Eval(`document.querySelector("#typed").value = "` + string(waits.WorkflowID[:4]) + `"; document.querySelector("button.good").click()`)
	b.Until(`document.querySelector("#live") && document.querySelector("#live").textContent.includes("via page on phone")`)
	pmltest.WaitFor(t, "the call", func() bool { return m.Count("danger") == 1 })

	// A terminal is faster: the form goes while somebody looks at it.
	second := m.Execute(8, `return (await mcp.rec.danger({x: "b"})).done`)
	b.Open(m.Status(0).Server.URL + "/approvals/" + string(second.CheckpointID))
	b.Until(`document.querySelector("#decide")`)
	m.JSON(0, "continue", string(second.WorkflowID), "--approve")
	b.Until(`!document.querySelector("#decide") && document.querySelector("#live").textContent.includes("decided by")`)
}
