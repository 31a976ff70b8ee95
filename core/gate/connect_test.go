package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/oauth/oauthtest"
)

// protected makes a workspace with one server that is protected by OAuth.
func protected(t *testing.T, b oauthtest.Behaviour) (*place, *oauthtest.Server) {
	t.Helper()
	as := oauthtest.New(b, time.Now)
	t.Cleanup(as.Close)
	p := settle(t, `{"allow":["safe"]}`)
	p.write(".pml.json", fmt.Sprintf(`{"permissions":{"allow":["safe"]},"mcpServers":{"safe":{"url":%q}}}`, as.URL))
	p.auth = oauth.New(oauth.Options{Dir: p.home.Credentials(), Clock: wall{}})
	return p.trust().open(), as
}

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

func authURL(t *testing.T, v engine.Verdict) string {
	t.Helper()
	c, ok := v.Ask[0].Context.(map[string]any)
	if !ok {
		t.Fatalf("%T", v.Ask[0].Context)
	}
	return fmt.Sprint(c["auth_url"])
}

func (p *place) consent(url string) {
	p.t.Helper()
	if status, page, err := oauthtest.Browse(p.t.Context(), url); err != nil || status >= 400 {
		p.t.Fatalf("%d %s %v", status, page, err)
	}
}

// Scenario: an HTTP server asks for authorization. The question has an address
// that works; after consent the approval is carried out and calls are made, in
// this process and the next. No token shows.
func TestConnect_Approval(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{Scope: "files:read"})
	v := p.want("safe:echo", "{}", "oauth_connect")
	if p.Redact("nothing yet") != "nothing yet" {
		t.Error("what is no secret is redacted")
	}
	ask := v.Ask[0]
	if ask.Subject != "safe" || !strings.Contains(ask.Description, as.Issuer) || !strings.Contains(ask.Description, "files:read") {
		t.Errorf("%+v", ask)
	}
	if again := p.want("safe:echo", "{}", "oauth_connect"); again.Ask[0].Digest != ask.Digest || authURL(t, again) != authURL(t, v) {
		t.Errorf("another question: %+v", again.Ask[0])
	}
	shown := make(chan string, 10)
	applied := make(chan error, 1)
	go func() {
		applied <- p.Apply(p.t.Context(), core.Approval{ID: "a", Type: core.ApproveOAuth, Subject: "safe", Tool: "safe"}, func(s string) { shown <- s })
	}()
	if said := <-shown; !strings.Contains(said, authURL(t, v)) {
		t.Errorf("progress: %s", said)
	}
	p.consent(authURL(t, v))
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	p.want("safe:echo", "{}", "ok")
	for _, token := range as.Secrets() {
		if !strings.HasPrefix(token, "access") {
			continue
		}
		args, err := json.Marshal(map[string]string{"text": token})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Call(t.Context(), p.call("safe:echo", string(args)), func(string) {})
		if err != nil || strings.Contains(string(out), token) || !strings.Contains(string(out), "«") {
			t.Errorf("%s %v", out, err)
		}
		if p.Redact(token) == token {
			t.Error("the token is not redacted")
		}
	}
	p.open().want("safe:echo", "{}", "ok")
}

// The callback is heard although nobody has approved yet: then the approval is
// carried out at once.
func TestConnect_ConsentFirst(t *testing.T) {
	t.Parallel()
	p, _ := protected(t, oauthtest.Behaviour{})
	v := p.want("safe:echo", "{}", "oauth_connect")
	p.consent(authURL(t, v))
	p.mustApprove(v)
	p.want("safe:echo", "{}", "ok")
}

// The flow ends between the look at whether one runs and the wait for it: no
// other one is begun, to whose address nobody would go.
func TestConnect_ConsentMeanwhile(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{})
	url := authURL(t, p.want("safe:echo", "{}", "oauth_connect"))
	ended, await := p.Running(oauth.Server{Name: "safe", URL: as.URL})
	if await == nil {
		t.Fatal("no flow runs")
	}
	p.consent(url)
	<-ended
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := await(ctx, func(shown string) {
		if shown != url {
			t.Errorf("another flow was begun: %s", shown)
			cancel()
		}
	}); err != nil {
		t.Error(err)
	}
	p.want("safe:echo", "{}", "ok")
}

// Without consent the approval fails with what to do, and is asked again.
func TestConnect_NoConsent(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{})
	v := p.want("safe:echo", "{}", "oauth_connect")
	ctx, cancel := context.WithCancel(t.Context())
	err := p.Apply(ctx, core.Approval{ID: "a", Type: core.ApproveOAuth, Subject: "safe"}, func(string) { cancel() })
	if core.CodeOf(err) != core.CodeAuth || len(core.AsError(err).Next) == 0 {
		t.Errorf("%v", err)
	}
	again := p.want("safe:echo", "{}", "oauth_connect")
	if again.Ask[0].Digest != v.Ask[0].Digest {
		t.Error("another digest for the same question")
	}
	as.Set(func(b *oauthtest.Behaviour) { b.Deny = true })
	denied := make(chan error, 1)
	started := make(chan struct{}, 1)
	go func() {
		denied <- p.Apply(t.Context(), core.Approval{ID: "a", Type: core.ApproveOAuth, Subject: "safe"}, func(string) { started <- struct{}{} })
	}()
	<-started
	if _, _, err := oauthtest.Browse(t.Context(), authURL(t, again)); err != nil {
		t.Fatal(err)
	}
	if err := <-denied; core.CodeOf(err) != core.CodeAuth {
		t.Errorf("%v", err)
	}
	p.want("safe:echo", "{}", "oauth_connect")
}

// Credentials that are taken away while calls are made are asked for again; the
// call is not lost.
func TestConnect_Revoked(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{})
	v := p.want("safe:echo", "{}", "oauth_connect")
	p.consent(authURL(t, v))
	p.mustApprove(v)
	p.want("safe:echo", "{}", "ok")
	as.RevokeAccess()
	if _, err := p.Call(t.Context(), p.call("safe:echo", "{}"), func(string) {}); err != nil {
		t.Errorf("the token was not refreshed: %v", err)
	}
	as.Revoke()
	_, err := p.Call(t.Context(), p.call("safe:echo", "{}"), func(string) {})
	if not, ok := err.(*engine.NotMadeError); !ok || core.CodeOf(not) != core.CodeAuth { //nolint:errorlint // exactly this type goes back to the gates
		t.Fatalf("%v", err)
	}
	v = p.want("safe:echo", "{}", "oauth_connect")
	p.consent(authURL(t, v))
	p.mustApprove(v)
	p.want("safe:echo", "{}", "ok")
}

// Rejected credentials that may be good, and an authorization server that is
// not there: no person is asked to consent to what was consented to already.
func TestConnect_RefreshReachesNobody(t *testing.T) {
	t.Parallel()
	for then, end := range map[string]func(*oauthtest.Server){
		"ok":            func(*oauthtest.Server) {},
		"oauth_connect": func(as *oauthtest.Server) { as.Revoke() }, // there it says no
	} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			p, as := protected(t, oauthtest.Behaviour{})
			v := p.want("safe:echo", "{}", "oauth_connect")
			p.consent(authURL(t, v))
			p.mustApprove(v)
			p.want("safe:echo", "{}", "ok")
			as.Set(func(b *oauthtest.Behaviour) { b.TokenStatus = 503 })
			as.RevokeAccess()
			_, err := p.Call(t.Context(), p.call("safe:echo", "{}"), func(string) {})
			if core.CodeOf(err) != core.CodeServerUnreachable {
				t.Errorf("%v", err)
			}
			p.clock = wall{} // a failure that comes at once is not kept
			p.open().want("safe:echo", "{}", string(core.CodeServerUnreachable))
			as.Set(func(b *oauthtest.Behaviour) { b.TokenStatus = 0 })
			end(as)
			p.want("safe:echo", "{}", then)
		})
	}
}

// A server that wants more while somebody is about to consent: the attempt is
// begun anew for all of it, and who waits for it goes on with that.
func TestConnect_MoreScopesMeanwhile(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{Scope: "files:read"})
	v := p.want("safe:echo", "{}", "oauth_connect")
	shown, applied := make(chan string, 10), make(chan error, 1)
	go func() {
		applied <- p.Apply(p.t.Context(), core.Approval{ID: "a", Type: core.ApproveOAuth, Subject: "safe", Tool: "safe"}, func(s string) { shown <- s })
	}()
	if said := <-shown; !strings.Contains(said, authURL(t, v)) {
		t.Errorf("%s", said)
	}
	as.Set(func(b *oauthtest.Behaviour) { b.Scope = "files:read files:write" })
	p.checked("safe")
	more := p.want("safe:echo", "{}", "oauth_connect")
	if more.Ask[0].Digest == v.Ask[0].Digest || !strings.Contains(more.Ask[0].Description, "files:write") {
		t.Fatalf("the question stayed: %+v", more.Ask[0])
	}
	if said := <-shown; !strings.Contains(said, authURL(t, more)) {
		t.Errorf("who waits was shown %s", said)
	}
	p.consent(authURL(t, more))
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	p.want("safe:echo", "{}", "ok")
}

// A server that does not say where authorization is to be had is an error with
// what to do; so is one whose entry brings the wrong header.
func TestConnect_Impossible(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{RefuseRegistration: true})
	v := p.want("safe:echo", "{}", string(core.CodeAuth))
	if !strings.Contains(v.Deny.Message, "header") || strings.Join(v.Deny.Next, " ") != "pml servers connect safe" {
		t.Errorf("%+v", v.Deny)
	}
	p.write(".env", "TOKEN=wrong-token-1234\n")
	p.write(".pml.json", fmt.Sprintf(`{"permissions":{"allow":["safe"]},"mcpServers":{"safe":{"url":%q,"headers":{"authorization":"Bearer ${TOKEN}"}}}}`, as.URL))
	p.mustApprove(p.trust().want("safe:echo", "{}", "integrity")) // keys went nowhere before
	v = p.want("safe:echo", "{}", string(core.CodeAuth))
	if strings.Contains(v.Deny.Error(), "wrong-token-1234") {
		t.Errorf("%v", v.Deny)
	}
	if err := p.Connect(t.Context(), "safe", func(string) {}); core.CodeOf(err) != core.CodeInvalidArguments {
		t.Errorf("%v", err)
	}
}

// servers connect: shows the address, waits, and connects anew what is
// connected.
func TestConnect_Command(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{})
	for range 2 {
		err := p.Connect(t.Context(), "safe", func(url string) { p.consent(url) })
		if err != nil {
			t.Fatal(err)
		}
		p.want("safe:echo", "{}", "ok")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := p.Connect(ctx, "safe", func(string) { cancel() }); core.CodeOf(err) != core.CodeAuth {
		t.Errorf("%v", err)
	}
	p.want("safe:echo", "{}", "ok")
	if n, _ := as.Counts(); n != 1 {
		t.Errorf("%d registrations", n)
	}
	for name, code := range map[string]core.Code{"nobody": core.CodeNoSuchTool, "workspace": core.CodeInvalidArguments} {
		if err := p.Connect(t.Context(), name, func(string) {}); core.CodeOf(err) != code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where no program may register itself the error names what does help, and not the
// command that has just failed.
func TestConnect_NoRegistration(t *testing.T) {
	t.Parallel()
	p, _ := protected(t, oauthtest.Behaviour{NoRegistration: true})
	e := core.AsError(p.Connect(t.Context(), "safe", func(string) {}))
	if e.Code != core.CodeAuth || !strings.Contains(e.Message, "client_id") || strings.Contains(e.Message, "or connect it") || slices.Contains(e.Next, "connect") {
		t.Errorf("%v, next %v", e, e.Next)
	}
}

// Nobody is sent to a browser for a client whose secret is missing: the consent would
// be for nothing.
func TestConnect_SecretMissing(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{RefuseRegistration: true})
	p.write(".pml.json", fmt.Sprintf(`{"permissions":{"allow":["safe"]},"mcpServers":{"safe":{"url":%q,"oauth":{"client_id":"by-hand","client_secret":"${HAND_SECRET}"}}}}`, as.URL))
	p.trust()
	shown := false
	ctx, cancel := context.WithCancel(t.Context())
	err := p.Connect(ctx, "safe", func(string) { shown = true; cancel() })
	if core.CodeOf(err) != core.CodeAuth || !strings.Contains(err.Error(), "HAND_SECRET") || shown {
		t.Errorf("%v, shown %t", err, shown)
	}
}

// Close ends flows that nobody has completed; the harness fails if it hangs.
func TestConnect_Close(t *testing.T) {
	t.Parallel()
	p, _ := protected(t, oauthtest.Behaviour{})
	v := p.want("safe:echo", "{}", "oauth_connect")
	p.stop()
	if _, _, err := oauthtest.Browse(t.Context(), authURL(t, v)); err == nil {
		t.Error("the callback is still heard")
	}
}

// A server that is not there asks for nothing, and a name that nobody configured
// is no tool.
func TestConnect_Nowhere(t *testing.T) {
	t.Parallel()
	p, as := protected(t, oauthtest.Behaviour{})
	err := p.Connect(t.Context(), "saef", func(string) {})
	if e := core.AsError(err); e.Code != core.CodeNoSuchTool || strings.Contains(e.Message, "*") || !strings.Contains(e.Message, "safe") || strings.Join(e.Next, " ") != "pml servers ls" {
		t.Errorf("%v %v", err, e.Next)
	}
	as.Close()
	err = p.Connect(t.Context(), "safe", func(string) { t.Error("an address is shown") })
	if core.CodeOf(err) != core.CodeServerUnreachable || strings.Contains(err.Error(), "asks for authorization") || !strings.Contains(err.Error(), "cannot reach") {
		t.Errorf("%s: %v", core.CodeOf(err), err)
	}
}
