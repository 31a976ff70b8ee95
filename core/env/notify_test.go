package env_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/env"
)

// The page that messages lead to is the server's, with TLS beyond this machine.
func TestNotify_Page(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://home.example.org:7465/": "https://home.example.org:7465", "http://127.0.0.1:7465": "http://127.0.0.1:7465", "http://localhost": "http://localhost",
		"http://home.example.org": "", "javascript:alert(1)": "", "https://a@b": "", "https://b/?next=x": "", "https://b/approvals": "", "home": "", "http://127.0.0.1.evil.example": "",
	} {
		b := newBox(t)
		b.write(b.home.Config(), `{"approvals": {"notify": {"page": "`+text+`"}}}`)
		c, err := b.home.Load(env.Environ(b.get))
		if (err == nil) != (want != "") || err == nil && c.Approvals.Notify.Page != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNotify(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(b.home.Config(), `{"approvals": {"notify": {
		"details": true, "after": "10s", "remind": "0", "decided": false, "quiet": {"from": "22:00", "to": "07:30", "zone": "Europe/Berlin"},
		"carriers": {
			"hook": {"type": "webhook", "url": "${HOOK_URL}", "secret": "${HOOK_SECRET}"},
			"bot": {"type": "telegram", "token": "in-the-file-123", "chat": "${CHAT}"},
			"ring": {"type": "command", "command": ["ring", "--key=${RING_KEY}"]},
			"team": {"type": "slack", "url": "https://hooks.example/services/T/B/in-the-url"},
			"open": {"type": "webhook", "url": "https://hooks.example/?key=open-in-the-url", "secret": "${HOOK_SECRET}"},
			"pass": {"type": "ntfy", "url": "https://user:pass-in-the-url@ntfy.example/topic"},
			"phone": {"type": "ntfy", "url": "https://ntfy.example/topic-in-the-url"},
			"room": {"type": "ntfy", "url": "https://${HOST}/${TOPIC}"},
			"root": {"type": "webhook", "url": "http://127.0.0.1:8080/", "secret": "${HOOK_SECRET}"}
		}
	}}}`)
	b.write(b.home.DotEnv(), "HOOK_SECRET=of-the-home-0123\nHOOK_URL=https://home.example/hook\nCHAT=12345678\nOTHER=some-other-value\n")
	b.write(".env", "HOOK_SECRET=of-the-workspace\nHOOK_URL=https://evil.example/\nRING_KEY=of-the-workspace\n")
	c := b.load()
	n := c.Approvals.Notify
	if n.After != 10*time.Second || n.Burst != 30*time.Second || n.Remind != 0 || n.Decided || !n.Details || n.Quiet.From != 22*60 || n.Quiet.To != 7*60+30 || n.Quiet.Zone.String() != "Europe/Berlin" {
		t.Errorf("%+v", n)
	}
	list, err := c.ResolveNotify()
	if err != nil || len(list) != 9 {
		t.Fatal(err, list)
	}
	hook, ring := list[1], list[5]
	if hook.URL != "https://home.example/hook" || hook.Secret != "of-the-home-0123" || len(hook.Missing) != 0 {
		t.Errorf("%+v", hook)
	}
	if !cmp.Equal(ring.Missing, []string{"RING_KEY"}) {
		t.Errorf("a workspace's .env fills in a carrier: %+v", ring)
	}
	b.environ["RING_KEY"] = "of-the-environment"
	if list, _ = c.ResolveNotify(); list[5].Command[1] != "--key=of-the-environment" || c.Approvals.Notify.Carriers["ring"].Command[1] != "--key=${RING_KEY}" {
		t.Errorf("%+v", list[5])
	}
	secrets := c.Secrets()
	for _, want := range []string{"of-the-home-0123", "https://home.example/hook", "in-the-file-123", "of-the-environment", "some-other-value", "https://hooks.example/services/T/B/in-the-url", "https://ntfy.example/topic-in-the-url", "https://hooks.example/?key=open-in-the-url"} {
		found := false
		for _, value := range secrets {
			found = found || value == want
		}
		if !found {
			t.Errorf("%q is not redacted", want)
		}
	}
	for name, value := range secrets {
		if value == "http://127.0.0.1:8080/" {
			t.Errorf("%s: an address without a key is taken out of what is shown", name)
		}
	}
	show := string(c.Show())
	for _, secret := range []string{"in-the-file-123", "in-the-url", "of-the-home"} {
		if strings.Contains(show, secret) {
			t.Errorf("%q is shown: %s", secret, show)
		}
	}
	for _, want := range []string{`"from": "22:00"`, `"${HOOK_SECRET}"`, `"${HOOK_URL}"`, `"https://ntfy.example/«hidden»"`, `${HOST}«hidden»${TOPIC}`, `"http://127.0.0.1:8080/"`} {
		if !strings.Contains(show, want) {
			t.Errorf("%s is not shown: %s", want, show)
		}
	}
	if names := c.NotifyVariables(); !strings.Contains(strings.Join(names, " "), "CHAT DBUS_SESSION_BUS_ADDRESS DISPLAY HOOK_SECRET HOOK_URL HOST RING_KEY TOPIC") {
		t.Error(names)
	}
	alone, err := b.home.Load(env.Environ(b.get))
	if err != nil || len(alone.Approvals.Notify.Carriers) != 9 {
		t.Errorf("%v %+v", err, alone)
	}
}

func TestNotify_Faults(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", `{"approvals": {"notify": {"details": true}}}`)
	if got := strings.Join(b.faults(), "\n"); !strings.Contains(got, "not for a workspace to say: put it in config.json of pml's home") {
		t.Error(got)
	}
	b.write(".pml.json", `{}`)
	for text, want := range map[string]string{
		`{"carriers": {"a": {"url": "https://x"}}}`:                               "needs a type",
		`{"carriers": {"a": {"type": "webhook", "url": "https://x"}}}`:            `needs "secret"`,
		`{"carriers": {"a": {"type": "slack", "url": "https://x", "chat": "1"}}}`: "does nothing in a carrier of type slack",
		`{"carriers": {"a": {"type": "mail"}}}`:                                   "must be webhook or",
		`{"carriers": {"a b": {"type": "desktop"}}}`:                              "cannot be the name",
		`{"carriers": {"a": {"type": "command", "command": ["${"]}}}`:             "is not closed",
		`{"quiet": {"from": "22:00"}}`:                                            "needs from and to",
		`{"quiet": {"from": "24:00", "to": "7:00"}}`:                              "must be a time of the day",
		`{"quiet": {"from": "22:00", "to": "07:00", "zone": "Mars/Olympus"}}`:     "is no time zone",
		`{"after": 3}`: "must be a duration",
		`{"carriers": {"a": {"type": "desktop"}}, "carrier": {}}`: "unknown key",
	} {
		b.write(b.home.Config(), `{"approvals": {"notify": `+text+`}}`)
		if got := strings.Join(b.faults(), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}
