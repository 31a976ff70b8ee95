package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

// newLoop is a site whose approval is about the first of three calls of a loop.
func newLoop(t *testing.T, change func(*server.Options)) *site {
	t.Helper()
	s := newSite(t, change)
	s.ap.Place, s.ap.Computed, s.ap.CallIDs = core.Position{Line: 3, Column: 7}, []string{"path"}, []string{"c1"}
	s.ap.Context = json.RawMessage(`{"arguments":{"path":"docs/1.md","team":"ENG"}}`)
	for i, args := range []string{`{"path":"docs/2.md","team":"ENG"}`, `{"path":"docs/3.md","team":"OPS"}`} {
		o := s.ap
		o.ID, o.Digest, o.CallIDs = id(i+20), fmt.Sprintf("sha256:%d", i+20), []string{fmt.Sprintf("c%d", i+2)}
		o.Context, o.CreatedAt = json.RawMessage(`{"arguments":`+args+`}`), start.Add(time.Duration(i+1)*time.Second)
		s.b.loop = append(s.b.loop, o)
	}
	return s
}

var loopForm = regexp.MustCompile(`(?s)name="token" value="([^"]+)">\n<input type="hidden" name="decision" value="loop">\n<input type="hidden" name="bounds" value="([^"]+)">`)

// loopOf is the form of a page that approves the calls of a loop.
func loopOf(t *testing.T, r reply) url.Values {
	t.Helper()
	m := loopForm.FindStringSubmatch(r.body)
	if m == nil {
		t.Fatalf("no form: %d %s", r.status, r.body)
	}
	return url.Values{"token": {m[1]}, "decision": {"loop"}, "bounds": {m[2]}}
}

// typedBounds are the fields of the form that shows other bounds.
func typedBounds(most, until, lines string) url.Values {
	return url.Values{"max": {most}, "until": {until}, "lines": {lines}}
}

// What waits of a loop is shown with the bounds that are proposed; what is approved is what
// was shown, by the one path on which a page decides.
func TestPages_Loop(t *testing.T) {
	t.Parallel()
	s := newLoop(t, nil)
	b := s.browser(t).signIn("ana")
	r := b.get(s.at)
	for _, want := range []string{
		`<details id="loop" open>`, "at most 3 calls of fs:write from line 3:7, as long as this run lasts", "risk at most low", "path: any text, up to 4,000 characters",
		"Approve up to 3 calls within these bounds", "3 calls wait now, of which 0 would still be asked about.", "<td>&#34;docs/2.md&#34;</td>", `name="max" value="3"`, `name="until" value="run"`, "\npath any\nteam any\n</textarea>",
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	if strings.Contains(r.body, "asked about by itself") || s.decided() != nil {
		t.Error(r.body)
	}

	// Other bounds are shown, with the calls that would be asked about; that decides nothing.
	typed := typedBounds("2", "10m", "team is ENG\r\npath matches docs/*\r\n")
	r = b.post(s.at+"/bounds", typed)
	for _, want := range []string{
		"at most 2 calls", "in this run until " + s.clock.Now().Add(10*time.Minute).UTC().Format("2006-01-02 15:04:05 MST"), "team is &#34;ENG&#34;", "path matches &#34;docs/*&#34;", "Approve up to 2 calls", "3 calls wait now, of which 1 would still be asked about.",
		"asked about by itself: team is another value", "team is ENG", `name="until" value="10m"`,
	} {
		if r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("no %s in %d %s", want, r.status, r.body)
		}
	}
	if s.decided() != nil {
		t.Fatal("to show bounds decides")
	}
	form := loopOf(t, r)
	s.b.now(func(*core.Approval) { s.b.loop = s.b.loop[:1] }) // fewer wait by now; the bounds are those that were shown
	if r = b.post(s.at, form); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	d := last[api.ContinueRequest](s.b)
	if d.Decision == nil || !d.Decision.Approve || d.Decision.Answer == nil || d.Decision.Answer.Shape == nil || d.By.Via != core.ViaPage || d.Decision.ExpectDigest != s.ap.Digest {
		t.Fatalf("%+v", d.Decision)
	}
	shape := *d.Decision.Answer.Shape
	digest, err := shape.Digest()
	must(t, err)
	if shape.Max != 2 || shape.Until == nil || len(shape.Fields) != 2 || shape.Fields[0].Matches != "docs/*" || string(shape.Fields[1].Is) != `"ENG"` || digest != form.Get("bounds") {
		t.Errorf("%+v", shape)
	}
	if r = b.post(s.at, form); r.status != http.StatusConflict || !strings.Contains(r.body, "used before") {
		t.Errorf("the form again: %d", r.status)
	}

	// Where one call is known, the page says that the others are not.
	s.b.now(func(*core.Approval) { s.b.loop = nil })
	if r = b.get(s.at); !strings.Contains(r.body, "1 call waits now; the next ones are not known yet.") || !strings.Contains(r.body, `<details id="loop"><summary>`) || !strings.Contains(r.body, "at most 2 calls") {
		t.Error(r.body)
	}

	// A plain yes on the same page gives none.
	b.post(s.at, url.Values{"token": {b.token()}, "decision": {"approve"}})
	if d := s.decided(); !d.Approve || d.Answer != nil {
		t.Errorf("%+v", d)
	}
}

// Bounds that cannot be given are all named, what was typed stays, and there is nothing to
// approve.
func TestPages_Loop_Wrong(t *testing.T) {
	t.Parallel()
	s := newLoop(t, nil)
	b := s.browser(t).signIn("ana")
	r := b.post(s.at+"/bounds", typedBounds("0", "never", "colour is red\nteam is OPS\n# kept\npath"))
	for _, want := range []string{"max is a number of calls from 1 to 1000", "until is followed by a while", "the calls have no argument colour", "an argument is followed by", `value="never"`, "# kept", `role="alert"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	if r.status != 200 || loopForm.MatchString(r.body) || s.decided() != nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, typed := range []url.Values{
		typedBounds("2", "", "team is OPS"), typedBounds("1001", "", ""), typedBounds("", "", ""), typedBounds("2", "2020-01-01T00:00:00Z", ""),
		typedBounds("2\nteam any", "", ""), typedBounds("2", "run\nteam any", ""), {},
	} {
		if r := b.post(s.at+"/bounds", typed); loopForm.MatchString(r.body) || !strings.Contains(r.body, `role="alert"`) {
			t.Errorf("%v: %d %s", typed, r.status, r.body)
		}
	}
}

// Of a question that no bounds can be about, and of one that is decided, there is no such
// part.
func TestPages_Loop_None(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*core.Approval){
		"no place":       func(a *core.Approval) { a.Place = core.Position{} },
		"each time":      func(a *core.Approval) { a.Once = true },
		"another type":   func(a *core.Approval) { a.Type = core.ApproveLayer },
		"integrity":      func(a *core.Approval) { a.Type = core.ApproveIntegrity },
		"a provider":     func(a *core.Approval) { a.Tool = core.ModelTool + "/openai" },
		"unreadable":     func(a *core.Approval) { a.Context = json.RawMessage(`{"arguments":[1]}`) },
		"decided by now": func(a *core.Approval) { a.State = core.ApprovalDenied },
	} {
		s := newLoop(t, nil)
		change(&s.ap)
		b := s.browser(t).signIn("ana")
		for _, r := range []reply{b.get(s.at), b.post(s.at+"/bounds", typedBounds("2", "", ""))} {
			if r.status != 200 || strings.Contains(r.body, `id="loop"`) {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
		}
	}
}

// Forms that are not good give no bounds, whatever is wrong with them.
func TestPages_Attacks_Loop(t *testing.T) {
	t.Parallel()
	with := func(form url.Values, name, value string) url.Values {
		form.Set(name, value)
		return form
	}
	for name, attack := range map[string]func(t *testing.T, s *site, b *browser) reply{
		"looking at the link": func(t *testing.T, s *site, b *browser) reply {
			b.get(s.at + "?" + loopOf(t, b.get(s.at)).Encode())
			b.get(s.at + "/bounds?" + loopOf(t, b.get(s.at)).Encode())
			return reply{status: 400}
		},
		"bounds that were not shown": func(t *testing.T, s *site, b *browser) reply {
			other := loopOf(t, b.post(s.at+"/bounds", typedBounds("900", "", "path any\nteam any")))
			return b.post(s.at, with(loopOf(t, b.get(s.at)), "bounds", other.Get("bounds")))
		},
		"no bounds": func(t *testing.T, s *site, b *browser) reply {
			return b.post(s.at, with(loopOf(t, b.get(s.at)), "bounds", ""))
		},
		"bounds in the form": func(t *testing.T, s *site, b *browser) reply {
			form := with(loopOf(t, b.get(s.at)), "bounds", "sha256:0")
			form.Set("shape", `{"tool":"fs:write","max":1000}`)
			form.Set("max", "1000")
			return b.post(s.at, form)
		},
		"the token of a plain yes": func(t *testing.T, s *site, b *browser) reply {
			return b.post(s.at, with(loopOf(t, b.get(s.at)), "token", b.token()))
		},
		"a plain yes with the token of bounds": func(t *testing.T, s *site, b *browser) reply {
			return b.post(s.at, with(loopOf(t, b.get(s.at)), "decision", "approve"))
		},
		"bounds of another browser": func(t *testing.T, s *site, b *browser) reply {
			return s.browser(t).signIn("ana").post(s.at, loopOf(t, b.get(s.at)))
		},
		"after a while": func(t *testing.T, s *site, b *browser) reply {
			form := loopOf(t, b.get(s.at))
			s.clock.add(16 * time.Minute)
			return b.post(s.at, form)
		},
		"after its expiry": func(t *testing.T, s *site, b *browser) reply {
			form := loopOf(t, b.get(s.at))
			s.clock.add(6 * time.Minute)
			return b.post(s.at, form)
		},
		"about something else": func(t *testing.T, s *site, b *browser) reply {
			form := loopOf(t, b.post(s.at+"/bounds", typedBounds("7", "", "")))
			s.b.now(func(a *core.Approval) {
				a.Digest, a.Context = "sha256:1", json.RawMessage(`{"arguments":{"path":"docs/9.md","team":"OPS"}}`)
			})
			r := b.post(s.at, form)
			if strings.Contains(r.body, form.Get("bounds")) {
				t.Error("bounds of another question are shown")
			}
			return r
		},
		"about another approval": func(t *testing.T, s *site, b *browser) reply {
			form := loopOf(t, b.get(s.at))
			s.b.now(func(a *core.Approval) { a.ID = id(9) })
			return b.post(s.at, form)
		},
		"another site": func(t *testing.T, s *site, b *browser) reply {
			return b.post(s.at, loopOf(t, b.get(s.at)), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		},
		"bounds of another site": func(_ *testing.T, s *site, b *browser) reply {
			return b.post(s.at+"/bounds", typedBounds("2", "", ""), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		},
		"bounds of somebody else": func(t *testing.T, s *site, _ *browser) reply {
			return s.browser(t).signIn("ben").post(s.at+"/bounds", typedBounds("2", "", ""))
		},
		"bounds without a session": func(t *testing.T, s *site, _ *browser) reply {
			return s.browser(t).post(s.at+"/bounds", typedBounds("2", "", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLoop(t, nil)
			s.undecided(t, name, attack(t, s, s.browser(t).signIn("ana")))
		})
	}
}

// What is of high risk is typed for a loop, too; the PIN is passed on. After a mistake the
// bounds that were shown are there again, and what is wrong.
func TestPages_Loop_HighRiskAndPin(t *testing.T) {
	t.Parallel()
	inner := newBackend()
	s := newLoop(t, func(o *server.Options) {
		o.Half = func(scope api.Scope) (server.Backend, error) { return pinned{&scoped{inner, scope}}, nil }
	})
	s.ap.Risk = core.RiskHigh
	for i := range s.b.loop {
		s.b.loop[i].Risk = core.RiskHigh
	}
	inner.runs, inner.asks, inner.loop = s.b.runs, &s.ap, s.b.loop
	s.b = inner
	b := s.browser(t).signIn("ana")
	r := b.post(s.at+"/bounds", typedBounds("2", "", "team is ENG"))
	if !strings.Contains(r.body, `id="loop-pin"`) || !strings.Contains(r.body, `id="loop-typed"`) || !strings.Contains(r.body, "risk at most high") {
		t.Error(r.body)
	}
	for _, typed := range []string{"", "0000"} {
		form := loopOf(t, r)
		form.Set("typed", typed)
		r = b.post(s.at, form)
		s.undecided(t, typed, r)
		if !strings.Contains(r.body, "at most 2 calls") || !strings.Contains(r.body, "team is &#34;ENG&#34;") {
			t.Errorf("the bounds are gone: %s", r.body)
		}
	}
	if got := last[refusal](s.b); !strings.Contains(got.reason, "confirm high risk") {
		t.Errorf("%+v", got)
	}
	form := loopOf(t, r)
	form.Set("typed", "1111")
	form.Set("pin", "12345")
	if r := b.post(s.at, form); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if d := s.decided(); d.Pin != "12345" || d.Answer.Shape.Max != 2 {
		t.Errorf("%+v", d)
	}
}

// What servers and agents say is text, also where it stands in bounds, and a form can be sent
// whatever is in it.
func TestPages_Attacks_LoopText(t *testing.T) {
	t.Parallel()
	const hostile = "\"></textarea><script>alert(1)</script><img src=x onerror=alert(2)>'\u202egnp\u200b\n\U000E0041"
	s := newLoop(t, nil)
	args := func(n int) json.RawMessage {
		raw, err := json.Marshal(map[string]any{"arguments": map[string]any{hostile: hostile, "long": strings.Repeat("<b>\u202e", 4000), "n": n, "list": []string{hostile}}})
		must(t, err)
		return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw)))
	}
	s.ap.Tool, s.ap.Context = hostile, args(1)
	for i := range s.b.loop {
		s.b.loop[i].Tool, s.b.loop[i].Context = hostile, args(i+2)
	}
	b := s.browser(t).signIn("ana")
	r := b.get(s.at)
	area := regexp.MustCompile(`(?s)<textarea[^>]*>\n(.*?)</textarea>`).FindStringSubmatch(r.body)
	if area == nil || strings.Contains(r.body, "<img") || strings.Contains(r.body, "<script>alert") || strings.ContainsAny(r.body, "\u202e\u200b\U000E0041") || strings.Contains(r.body, "<b>") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	lines := strings.NewReplacer("&#34;", `"`, "&lt;", "<", "&gt;", ">", "&#39;", "'", "&amp;", "&", "&#43;", "+").Replace(area[1])
	r2 := b.post(s.at+"/bounds", typedBounds("3", "run", lines))
	if got, want := loopOf(t, r2).Get("bounds"), loopOf(t, r).Get("bounds"); r2.status != 200 || got != want {
		t.Errorf("what was shown is not what is read: %s and %s of %q", want, got, lines)
	}
	r2 = b.post(s.at+"/bounds", typedBounds(hostile, hostile, hostile))
	if strings.Contains(r2.body, "<img") || strings.Contains(r2.body, "<script>alert") || !strings.Contains(r2.body, `role="alert"`) {
		t.Errorf("%s", r2.body)
	}
}
