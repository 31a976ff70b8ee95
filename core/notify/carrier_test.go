package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/casys-ai/pml/core"
)

// receiver is a server that keeps what it got and answers as it is told.
type receiver struct {
	*httptest.Server
	path   string
	header http.Header
	body   []byte
	status int
	answer string
	extra  map[string]string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: 200}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.path, r.header = req.URL.Path, req.Header
		r.body, _ = io.ReadAll(req.Body)
		for k, v := range r.extra {
			w.Header().Set(k, v)
		}
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, r.answer)
	}))
	t.Cleanup(r.Close)
	return r
}

func made(t *testing.T, s Spec) Carrier {
	t.Helper()
	s.Name, s.Clock = "c", fixed(noon)
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type fixed time.Time

func (f fixed) Now() time.Time { return time.Time(f) }

func hostile() Note {
	n := TestNote("01234567-89ab-4000-8000-000000000000", noon)
	n.Kind, n.Risk, n.Text = KindAsked, core.RiskHigh, "1 <!channel> & *b* <https://x|y> 😀 \"q\" `c`\nline"
	return n
}

// TestFailure_NoKey: what a server says of a path that it does not know comes without the
// key in it, as errors are kept and shown.
func TestFailure_NoKey(t *testing.T) {
	t.Parallel()
	const key = "B0-XyZ0123456789"
	for typ, s := range map[string]Spec{
		Webhook:  {URL: "/hooks/" + key + "?token=" + key, Secret: "0123456789abcdef"},
		Slack:    {URL: "/services/T0/" + key},
		Telegram: {Token: "12345:" + key, Chat: "1"},
	} {
		r := newReceiver(t)
		r.status = 404
		r.answer = `<pre>Cannot POST /hooks/` + key + `?token=` + key + ` or /bot12345:` + key + `/sendMessage</pre>`
		if typ == Telegram {
			r.answer = `{"ok":false,"description":"Not Found: /bot12345:` + key + `/sendMessage"}`
		}
		s.Type, s.URL = typ, r.URL+s.URL
		err := made(t, s).Send(t.Context(), hostile())
		if err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "answered") || !strings.Contains(err.Error(), "/…") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	c := made(t, Spec{Type: Webhook, URL: r.URL + "/hook", Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="})
	if err := c.Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	id, at, sig := r.header.Get("Webhook-Id"), r.header.Get("Webhook-Timestamp"), r.header.Get("Webhook-Signature")
	if id != hostile().ID || at != "1795694400" || sig != sign([]byte("0123456789abcdef"), id, at, r.body) {
		t.Errorf("%q %q %q", id, at, sig)
	}
	var n Note
	if err := json.Unmarshal(r.body, &n); err != nil || n.Text != hostile().Text || n.Version != 1 || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", err, r.body)
	}
	// A vector of the specification that libraries follow.
	if got := sign([]byte("\x30\xcb\xa1\x46\x55\x7e\x5e\x3c\x7f\x4e\x8c\x1b\x2f\x0a\x9d\x6e"), "msg", "1", []byte("{}")); !strings.HasPrefix(got, "v1,") || len(got) != 47 {
		t.Error(got)
	}
}

// TestWebhook_Python verifies a message in another language, as docs/notifications.md says.
func TestWebhook_Python(t *testing.T) {
	t.Parallel()
	for _, p := range [][]string{{"python3", "-c", pythonVerify}, {"node", "-e", nodeVerify}} {
		if _, err := exec.LookPath(p[0]); err != nil {
			t.Skip(err)
		}
		r := newReceiver(t)
		c := made(t, Spec{Type: Webhook, URL: r.URL, Secret: "a secret of many characters"})
		if err := c.Send(t.Context(), hostile()); err != nil {
			t.Fatal(err)
		}
		for secret, want := range map[string]string{"a secret of many characters": "True", "another one of as many chars": "False"} {
			cmd := exec.CommandContext(t.Context(), p[0], append(p[1:], secret, r.header.Get("Webhook-Id"), r.header.Get("Webhook-Timestamp"), r.header.Get("Webhook-Signature"))...)
			cmd.Stdin = strings.NewReader(string(r.body))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.EqualFold(strings.TrimSpace(string(out)), want) {
				t.Errorf("%s: %v %s, want %s", p[0], err, out, want)
			}
		}
	}
}

const pythonVerify = `
import base64, hashlib, hmac, sys
secret, id, at, signature = sys.argv[1:5]
body = sys.stdin.buffer.read()
want = base64.b64encode(hmac.new(secret.encode(), f"{id}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
print(any(hmac.compare_digest(part, "v1," + want) for part in signature.split(" ")))
`

const nodeVerify = `
const { createHmac, timingSafeEqual } = require("node:crypto");
const [secret, id, at, signature] = process.argv.slice(1);
const body = require("node:fs").readFileSync(0);
const want = Buffer.from("v1," + createHmac("sha256", secret).update(id + "." + at + ".").update(body).digest("base64"));
console.log(signature.split(" ").some((part) => part.length === want.length && timingSafeEqual(Buffer.from(part), want)));
`

func TestNtfy(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	if err := made(t, Spec{Type: Ntfy, URL: r.URL + "/my-topic", Token: "tk_secret"}).Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(r.body, &got); err != nil || got["topic"] != "my-topic" || got["priority"] != 4.0 || got["message"] != hostile().Text || r.path != "/" || r.header.Get("Authorization") != "Bearer tk_secret" {
		t.Errorf("%v %s %s", err, r.path, r.body)
	}
}

func TestSlack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	if err := made(t, Spec{Type: Slack, URL: r.URL + "/services/T/B/X"}).Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Text   string
		Blocks []struct {
			Text struct{ Type, Text string }
		}
		Unfurl bool `json:"unfurl_links"`
	}
	if err := json.Unmarshal(r.body, &got); err != nil || strings.ContainsAny(got.Text, "<>") || got.Blocks[0].Text.Type != "plain_text" || got.Blocks[0].Text.Text != hostile().Text || got.Unfurl {
		t.Errorf("%v %s", err, r.body)
	}
}

func TestTelegram(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	c := made(t, Spec{Type: Telegram, URL: r.URL, Token: "123:secret", Chat: "-42"})
	if err := c.Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Chat     string `json:"chat_id"`
		Text     string
		Mode     *string `json:"parse_mode"`
		Entities []struct {
			Type           string
			Offset, Length int
		}
	}
	units := len(hostile().Text) - 4 + 2 // the emoji is 4 bytes and two units
	if err := json.Unmarshal(r.body, &got); err != nil || r.path != "/bot123:secret/sendMessage" || got.Chat != "-42" || got.Mode != nil ||
		len(got.Entities) != 1 || got.Entities[0].Type != "pre" || got.Entities[0].Length != units || got.Text != hostile().Text {
		t.Errorf("%v %s %s", err, r.path, r.body)
	}
	r.status, r.answer = 429, `{"ok":false,"description":"Too Many Requests","parameters":{"retry_after":17}}`
	if f := failureOf(c.Send(t.Context(), hostile())); f.final || f.after != 17*time.Second || f.reason != "answered: Too Many Requests" {
		t.Errorf("%+v", f)
	}
}

// TestLinks: the link is one where a carrier has links; all else stays plain.
func TestLinks(t *testing.T) {
	t.Parallel()
	n := hostile()
	plain := n.Text
	n.Link = "https://home.example/approvals/1"
	n.Text += openLine + n.Link
	for _, tt := range []struct {
		spec Spec
		want []string
	}{
		{Spec{Type: Ntfy, URL: "/topic"}, []string{`"click":"https://home.example/approvals/1"`}},
		{Spec{Type: Slack, URL: "/services/T"}, []string{`"verbatim":true`, `\u003chttps://home.example/approvals/1|Open it\u003e`}},
		{Spec{Type: Telegram, Token: "1:2", Chat: "3"}, []string{fmt.Sprintf(`"length":%d`, len(utf16.Encode([]rune(plain))))}},
	} {
		r := newReceiver(t)
		tt.spec.URL = r.URL + tt.spec.URL
		if err := made(t, tt.spec).Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(r.body), want) {
				t.Errorf("%s: no %s in %s", tt.spec.Type, want, r.body)
			}
		}
	}
}

// TestHTTP_Failures: what is tried again, and that no error has the URL, in which keys stand.
func TestHTTP_Failures(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	c := made(t, Spec{Type: Slack, URL: r.URL + "/services/very-secret"})
	for _, tt := range []struct {
		status int
		final  bool
		after  string
	}{{204, false, ""}, {302, true, ""}, {400, true, ""}, {403, true, ""}, {404, true, ""}, {408, false, ""}, {429, false, "30"}, {500, false, ""}, {503, false, "99999999"}} {
		r.status, r.answer, r.extra = tt.status, "no_service\x1b[2J", map[string]string{"Location": "/elsewhere", "Retry-After": tt.after}
		err := c.Send(t.Context(), hostile())
		if tt.status < 300 {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if f := failureOf(err); f.final != tt.final || (tt.after == "30") != (f.after == 30*time.Second) || f.after > time.Hour || strings.Contains(f.reason, "very-secret") || strings.Contains(f.reason, "\x1b") {
			t.Errorf("%d: %+v", tt.status, f)
		}
		if strings.HasSuffix(r.path, "/elsewhere") {
			t.Error("a redirect was followed")
		}
	}
	r.Close()
	if err := c.Send(t.Context(), hostile()); err == nil || strings.Contains(err.Error(), "very-secret") || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
}

func TestNew_Refused(t *testing.T) {
	t.Parallel()
	none := func(string) (string, error) { return "", errors.New("no such program") }
	for _, s := range []Spec{
		{Type: "mail"},
		{Type: Webhook, URL: "https://x.example", Secret: "short"},
		{Type: Webhook, URL: "https://x.example", Secret: "whsec_%%%"},
		{Type: Webhook, URL: "http://x.example", Secret: "0123456789abcdef"},
		{Type: Webhook, URL: "https://key:very-secret@x.example", Secret: "0123456789abcdef"},
		{Type: Webhook, URL: "ftp://x.example", Secret: "0123456789abcdef"},
		{Type: Slack, URL: "http://10.0.0.1/very-secret"},
		{Type: Slack, URL: "http://127.0.0.1.evil.example/very-secret"},
		{Type: Ntfy, URL: "https://ntfy.example"},
		{Type: Ntfy, URL: "https://ntfy.example/a/b"},
		{Type: Telegram, Token: "1:a/../x", Chat: "1"},
		{Type: Telegram, Token: "1:a"},
		{Type: Command},
		{Type: Desktop, LookPath: none},
	} {
		if _, err := New(s); core.CodeOf(err) != core.CodeInvalidConfig || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Spec{
		{Type: Slack, URL: "http://10.0.0.1/x", Insecure: true}, {Type: Slack, URL: "http://[::1]:8/x"}, {Type: Slack, URL: "http://localhost/x"}, {Type: Telegram, Token: "1:a", Chat: "1"},
	} {
		if _, err := New(s); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestHTTP_PlainStaysHere: a name of this machine that leads elsewhere is not connected to.
func TestHTTP_PlainStaysHere(t *testing.T) {
	t.Parallel()
	a := address{base: base{"c"}, url: "http://192.0.2.1:9/", client: clientFor("http://localhost/", false)}
	if _, err := a.post(t.Context(), map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "addresses of this machine only") || !failureOf(err).final {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "got")
	c := made(t, Spec{Type: Command, Command: []string{"/bin/sh", "-c", `cat > "$1"; env >> "$1"; echo "$2" >> "$1"`, "sh", out, "$(touch evil) `x`"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir})
	if err := c.Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	line, rest, _ := strings.Cut(string(raw), "\n")
	var n Note
	if err != nil || json.Unmarshal([]byte(line), &n) != nil || n.ID != hostile().ID || !strings.Contains(rest, "$(touch evil) `x`") || strings.Contains(rest, "HOME=") {
		t.Errorf("%v %s", err, raw)
	}
	c = made(t, Spec{Type: Command, Command: []string{"/bin/sh", "-c", `echo "not today" >&2; exit 3`}, Dir: dir})
	if err := c.Send(t.Context(), hostile()); err == nil || err.Error() != "the program ended with exit status 3: not today" || failureOf(err).final {
		t.Error(err)
	}
	c = made(t, Spec{Type: Command, Command: []string{"/nowhere/at-all"}, Dir: dir})
	if err := c.Send(t.Context(), hostile()); err == nil || !strings.Contains(err.Error(), "could not be started") {
		t.Error(err)
	}
}

func TestDesktop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "got")
	tool := filepath.Join(dir, "notify-send")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" > '"+out+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := made(t, Spec{Type: Desktop, Dir: dir, LookPath: func(name string) (string, error) {
		if name != "notify-send" {
			return "", errors.New("no")
		}
		return tool, nil
	}})
	if err := c.Send(t.Context(), hostile()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	if got := string(raw); err != nil || !strings.HasPrefix(got, "--app-name=pml\n--urgency=critical\n--\npml: test\n1 &lt;!channel&gt; &amp;") {
		t.Errorf("%v %s", err, got)
	}
}
