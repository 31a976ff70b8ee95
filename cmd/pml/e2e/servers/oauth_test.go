//go:build unix

package servers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/oauth/oauthtest"
)

// transcript is a machine and everything that its processes have said.
type transcript struct {
	*pmltest.Machine
	said []string
}

// keep notes what a process has said.
func (tr *transcript) keep(o pmltest.Output) pmltest.Output {
	tr.said = append(tr.said, o.Stdout, o.Stderr)
	return o
}

// run runs pml to its end, wants an exit code, and keeps what it said.
func (tr *transcript) run(code int, args ...string) pmltest.Output {
	tr.T.Helper()
	return tr.keep(tr.PML(args...)).Want(code)
}

// leaksNone wants that secrets are nowhere: in nothing that was said, and in no
// file of home and workspace whose path has none of the parts that may hold
// them. As they are, and as base64 and a URL write them.
func (tr *transcript) leaksNone(secrets []string, but ...string) {
	tr.T.Helper()
	if len(secrets) == 0 {
		tr.T.Fatal("no secrets to look for")
	}
	var forms []string
	for _, s := range secrets {
		forms = append(forms, s, base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)))
		if e := url.QueryEscape(s); e != s {
			forms = append(forms, e)
		}
	}
	check := func(where string, text []byte) {
		for _, s := range forms {
			if i := bytes.Index(text, []byte(s)); i >= 0 {
				tr.T.Errorf("%s has %q: …%q", where, s, text[max(0, i-200):i+len(s)])
			}
		}
	}
	for _, text := range tr.said {
		check("a process", []byte(text))
	}
	for _, dir := range []string{tr.Home, tr.WS} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			for _, part := range but {
				if strings.Contains(path, part) {
					return nil
				}
			}
			if err == nil && d.Type().IsRegular() {
				text, err := os.ReadFile(path)
				check(path, text)
				return err
			}
			return err
		})
		if err != nil {
			tr.T.Fatal(err)
		}
	}
}

// hearAll looks at a run, and at everything else, in all the ways there are.
func (tr *transcript) hearAll(id core.ID) {
	tr.T.Helper()
	for _, args := range [][]string{
		{"wf", "show", string(id)}, {"wf", "show", string(id), "--json"}, {"wf", "logs", string(id)}, {"wf", "logs", string(id), "--json"},
		{"wf", "result", string(id)}, {"wf", "export", string(id), "--html"}, {"wf", "ls", "-o", "wide"}, {"wf", "ls", "--json"}, {"approvals", "ls", "--json"},
		{"events"}, {"events", "--json"}, {"audit", "ls"}, {"audit", "ls", "--json"}, {"audit", "export"}, {"servers", "ls", "--json"},
		{"doctor"}, {"trust", "--show"}, {"config", "show"},
	} {
		tr.keep(tr.PML(args...))
	}
}

// protected is a machine whose one server wants OAuth, the server, and what
// sets the server's clock forward.
func protected(t *testing.T, b oauthtest.Behaviour) (*transcript, *oauthtest.Server, func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	srv := oauthtest.New(b, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	t.Cleanup(srv.Close)
	m := pmltest.BareMachine(t)
	m.Setenv("PML_LOG", "debug")
	m.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"web:*"}}, Servers: map[string]map[string]any{"rec": nil, "web": {"url": srv.URL}}})
	return &transcript{Machine: m}, srv, func(d time.Duration) { ahead.Add(int64(d)) }
}

const callWeb = `return (await mcp.web.echo({n: 7})).n`

// consentAt is the address that an approval of a connection shows.
func consentAt(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var c struct {
		URL string `json:"auth_url"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"client_id", "redirect_uri", "state", "code_challenge", "resource"} {
		if u.Query().Get(name) == "" {
			t.Fatalf("no %s in the address: %s", name, c.URL)
		}
	}
	return c.URL
}

// consent is a person who opens an address and consents.
func consent(t testing.TB, at string) {
	t.Helper()
	status, page, err := oauthtest.Browse(t.Context(), at)
	if err != nil || status != http.StatusOK {
		t.Fatalf("the browser: %d, %v: %s", status, err, page)
	}
}

// ended waits for a process and keeps what it said.
func (tr *transcript) ended(p *pmltest.Process) pmltest.Output { return tr.keep(p.Wait()) }

// awaitStderr waits until a process has written a text to stderr so many times.
func awaitStderr(p *pmltest.Process, text string, times int) {
	p.M.T.Helper()
	pmltest.WaitFor(p.M.T, text+" on stderr", func() bool {
		select {
		case <-p.Ended():
			return strings.Count(p.Err.String(), text) >= times || fatal(p.M.T, "it ended before it wrote %q: exit %d, %s", text, p.Wait().Exit, p.Err.String())
		default:
			return strings.Count(p.Err.String(), text) >= times
		}
	})
}

func fatal(t testing.TB, format string, args ...any) bool {
	t.Helper()
	t.Fatalf(format, args...)
	return false
}

// TestOAuth_ConsentWhileWaiting: a call needs a person's consent. They open the
// address that was shown, whole, and another process approves; then both have
// the result, and later runs ask nothing. The tokens are nowhere but where they
// are kept.
func TestOAuth_ConsentWhileWaiting(t *testing.T) {
	t.Parallel()
	tr, srv, later := protected(t, oauthtest.Behaviour{Lifetime: time.Hour, Rotate: true})
	// Without somebody to wait for, the question is the end of the command.
	o := tr.run(8, "execute", "--code", callWeb)
	_, rest, ok := strings.Cut(o.Stderr, "http")
	if !ok || !strings.Contains(rest, "code_challenge=") {
		t.Errorf("the address is not shown: %s", o.Stderr)
	}
	p := tr.Start("execute", "--json", "--on-approval", "wait", "--code", callWeb)
	var asked []core.Approval
	pmltest.WaitFor(t, "two questions", func() bool { asked = tr.Approvals(); return len(asked) == 2 })
	if asked[0].Type != core.ApproveOAuth || consentAt(t, asked[0].Context) != consentAt(t, asked[1].Context) {
		t.Fatalf("asked: %+v", asked)
	}
	at := consentAt(t, asked[0].Context)
	if !strings.Contains(o.Stderr, at) {
		t.Errorf("the address is not shown whole: want %s in\n%s", at, o.Stderr)
	}
	consent(t, at)
	for _, a := range asked {
		if r := tr.run(0, "continue", string(a.RunID), "--approve", "--json").Result(); string(r.Result) != "7" {
			t.Errorf("result %s", r.Result)
		}
	}
	if r := tr.ended(p).Want(0).Result(); string(r.Result) != "7" {
		t.Errorf("the process that waited: %s", r.Result)
	}
	later(2 * time.Hour) // its token is over; the next one is fetched without a word
	tr.run(0, "execute", "--json", "--code", callWeb)
	tr.run(0, "execute", "--json", "--code", callWeb)
	if _, refreshes := srv.Counts(); refreshes != 1 {
		t.Errorf("refreshed %d times, want once", refreshes)
	}
	// Revoked, it asks again.
	srv.Revoke()
	r := tr.run(8, "execute", "--json", "--code", callWeb).Result()
	if r.ApprovalType != core.ApproveOAuth || consentAt(t, r.Context) == at {
		t.Errorf("asks for %s: %s", r.ApprovalType, r.Context)
	}
	tr.hearAll(asked[0].RunID)
	tr.leaksNone(srv.Secrets(), "/credentials/")
	wantPrivate(tr.Machine, "credentials")
}

// wantPrivate wants that a folder of the home is for its owner alone.
func wantPrivate(m *pmltest.Machine, dir string) {
	m.T.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(m.Home, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			m.T.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil || files < 2 {
		m.T.Errorf("%s: %d files, %v", dir, files, err)
	}
}

// TestOAuth_KilledBeforeConsent: the process that asked is killed before
// anybody consents. A new one shows the same address and hears the answer.
func TestOAuth_KilledBeforeConsent(t *testing.T) {
	t.Parallel()
	tr, srv, _ := protected(t, oauthtest.Behaviour{})
	p := tr.Start("execute", "--json", "--on-approval", "wait", "--code", callWeb)
	var asked []core.Approval
	pmltest.WaitFor(t, "a question", func() bool { asked = tr.Approvals(); return len(asked) == 1 })
	p.Kill()
	at := consentAt(t, asked[0].Context)
	if _, _, err := oauthtest.Browse(t.Context(), at); err == nil {
		t.Fatal("somebody heard the answer to a process that is dead")
	}
	q := tr.Start("continue", string(asked[0].RunID), "--approve")
	awaitStderr(q, at, 2) // its card has it, too
	consent(t, at)
	if o := tr.ended(q).Want(0); o.Stdout != "7\n" {
		t.Errorf("result %s", o.Stdout)
	}
	if n, _ := srv.Counts(); n != 1 {
		t.Errorf("registered %d times", n)
	}
	tr.hearAll(asked[0].RunID)
	tr.leaksNone(srv.Secrets(), "/credentials/")
}

// TestOAuth_Connect: a person connects a server before anything needs it. Who
// does not consent is told so, and nothing was connected.
func TestOAuth_Connect(t *testing.T) {
	t.Parallel()
	tr, srv, _ := protected(t, oauthtest.Behaviour{Deny: true, Scope: "mail.read"})
	connect := func() (*pmltest.Process, string) {
		p := tr.Start("servers", "connect", "web", "--json")
		awaitStderr(p, `"}`, 1)
		for line := range strings.Lines(p.Err.String()) {
			if strings.HasPrefix(line, `{"auth_url"`) {
				return p, consentAt(t, json.RawMessage(line))
			}
		}
		t.Fatalf("no address: %s", p.Err.String())
		return nil, ""
	}
	p, at := connect()
	if status, page, err := oauthtest.Browse(t.Context(), at); err != nil || !strings.Contains(page, "did not consent") || strings.Contains(page, "<b>no") {
		t.Errorf("denied, and the browser shows %d %q, %v", status, page, err)
	}
	f := tr.ended(p).Want(4).Fault()
	if f.Code != core.CodeAuth || !strings.Contains(f.Message, "web") {
		t.Errorf("denied: %+v", f)
	}
	tr.run(8, "execute", "--json", "--code", callWeb)
	srv.Set(func(b *oauthtest.Behaviour) { b.Deny = false })
	p, at = connect()
	if !strings.Contains(at, "mail.read") {
		t.Errorf("the scope is not asked for: %s", at)
	}
	consent(t, at)
	tr.ended(p).Want(0)
	r := tr.run(0, "execute", "--json", "--code", callWeb).Result()
	tr.hearAll(r.WorkflowID)
	tr.leaksNone(srv.Secrets(), "/credentials/")

	// A server that is purged is forgotten, with all that was kept of it.
	tr.run(0, "servers", "rm", "web", "--purge", "--yes")
	tr.leaksNone(srv.Secrets())
}

// TestOAuth_Terminal: a person approves at a terminal, in a process that did not
// ask. The address stands there whole while it waits for them.
func TestOAuth_Terminal(t *testing.T) {
	t.Parallel()
	tr, _, _ := protected(t, oauthtest.Behaviour{})
	p := tr.Start("execute", "--json", "--on-approval", "wait", "--code", callWeb)
	var asked []core.Approval
	pmltest.WaitFor(t, "a question", func() bool { asked = tr.Approvals(); return len(asked) == 1 })
	p.Kill()
	at := consentAt(t, asked[0].Context)
	go func() { // a browser that is reloaded until somebody hears its answer
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
			if _, _, err := oauthtest.Browse(t.Context(), at); err == nil {
				return
			}
		}
	}()
	s := tr.Terminal(pmltest.UsualSize, []string{"PML_LOG="}, pmltest.Yes(asked[0]), "continue", string(asked[0].RunID), "--approve")
	if s.Exit != 0 || !strings.Contains(s.Text, at) || !strings.HasSuffix(s.Text, "7\r\n") {
		t.Errorf("exit %d, want %s in: %q", s.Exit, at, s.Text)
	}
	pmltest.WantHarmless(t, s.Text)
}

// TestOAuth_DeniedInTheBrowser: an approval is no consent. What the authorization
// server says counts, and the run asks again.
func TestOAuth_DeniedInTheBrowser(t *testing.T) {
	t.Parallel()
	tr, _, _ := protected(t, oauthtest.Behaviour{Deny: true})
	tr.run(8, "execute", "--json", "--code", callWeb)
	asked := tr.Approvals()
	p := tr.Start("continue", string(asked[0].RunID), "--approve")
	at := consentAt(t, asked[0].Context)
	awaitStderr(p, at, 2)
	if _, _, err := oauthtest.Browse(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	pmltest.Wants(t, tr.ended(p).Want(8).Stderr, "did not consent", "servers connect web")
}
