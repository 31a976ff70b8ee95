package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

const rightPin = "tr0ub4dor"

// setPin sets a PIN with a hash that is quick to check.
func (m *machine) setPin(pin string) {
	m.t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(pin), bcrypt.MinCost)
	if err != nil {
		m.t.Fatal(err)
	}
	m.writeHome("config.json", `{"approvals": {"pin": "`+string(hash)+`"}}`)
}

func (m *machine) writeHome(name, content string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.home, name), []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// Scenario 33: with a PIN no process that does not know it approves anything;
// denying needs none.
func TestPin_Approving(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	c := m.client()
	if need, err := c.NeedsPin(c.ctx()); err != nil || !need {
		t.Fatal(need, err)
	}
	r := c.execute(writes, api.StatusApprovalRequired)
	for name, d := range map[string]api.Decision{
		"Missing":    {Approve: true},
		"Wrong":      {Approve: true, Pin: "letmein1"},
		"Named":      {Approve: true, Checkpoint: r.CheckpointID, ExpectDigest: r.Digest},
		"OfType":     {Approve: true, AllOfType: core.ApproveTool, Pin: strings.ToUpper(rightPin)},
		"Remembered": {Approve: true, Answer: &core.Answer{Remember: core.RememberRule}},
		"TooLong":    {Approve: true, Pin: rightPin + strings.Repeat("x", 80)},
	} {
		_, err := c.decide(r.WorkflowID, d)
		e := code(t, err, core.CodeAuth)
		if e.RunID != r.WorkflowID || !strings.Contains(e.Message, "a person types it at the prompt") || strings.Contains(e.Error(), rightPin) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	ap, err := c.Approval(c.ctx(), r.CheckpointID)
	if err != nil || ap.State != core.ApprovalOpen {
		t.Fatalf("%v %+v", err, ap)
	}
	if _, err := os.Stat(filepath.Join(m.ws, "b.txt")); err == nil {
		t.Fatal("it was written")
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Pin: rightPin})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	r = c.execute(writes, api.StatusApprovalRequired)
	if _, err = c.decide(r.WorkflowID, api.Decision{Abort: true}); err != nil {
		t.Errorf("denying needs a PIN: %v", err)
	}
}

// Trusting a workspace grants what its files say: that needs the PIN as well.
func TestPin_Trust(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	m.write(".pml.json", `{"permissions": {"allow": ["workspace:*"]}}`)
	c := m.client()
	s, err := c.Trust(c.ctx())
	if err != nil || s.Trusted {
		t.Fatal(s, err)
	}
	for _, pin := range []string{"", "letmein1"} {
		code(t, c.SetTrust(c.ctx(), s.Digest, pin), core.CodeAuth)
	}
	if s, err = c.Trust(c.ctx()); err != nil || s.Trusted {
		t.Fatal("trusted without the PIN", err)
	}
	if err := c.SetTrust(c.ctx(), s.Digest, rightPin); err != nil {
		t.Error(err)
	}
	if s, err = c.Trust(c.ctx()); err != nil || !s.Trusted {
		t.Error(s, err)
	}
}

// Wrong PINs of one API key slow that one down: neither another one nor the person
// at the server.
func TestPin_Owners(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	p := m.server()
	alice, bob := p.in(api.Scope{Owner: "alice"}), p.in(api.Scope{Owner: "bob"})
	ask := func(owner string) core.ID {
		run, _ := p.ask(owner, core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"})
		return run
	}
	try := func(c *client, run core.ID, pin string) error {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run, Decision: &api.Decision{Approve: true, Pin: pin}, By: me})
		return err
	}
	run := ask("alice")
	m.clock.stand() // to check a PIN can take seconds
	for range 6 {
		code(t, try(alice, run, "letmein1"), core.CodeAuth)
	}
	if e := code(t, try(alice, run, rightPin), core.CodeAuth); !strings.Contains(e.Message, "the next try counts from") {
		t.Errorf("alice is not slowed down: %s", e.Message)
	}
	for name, c := range map[string]*client{"bob": bob, "": p.client} {
		if err := try(c, ask(name), rightPin); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	m.clock.forward(time.Hour)
	if err := try(alice, run, rightPin); err != nil {
		t.Errorf("alice, later: %v", err)
	}
	if g, err := p.store.Guard(t.Context()); err != nil || len(g.Tries) > 0 {
		t.Errorf("%+v %v", g.Tries, err)
	}
}

// TestPin_UnprovedForAll: a PIN that is written into the configuration after there were runs
// shows no person, also where whoever asks first sees none of these runs.
func TestPin_UnprovedForAll(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]api.Scope{"Whole": {}, "Owner": {Owner: "bob"}, "Folder": {Workspace: t.TempDir(), Confined: true}} {
		m := newMachine(t)
		p := m.server()
		p.ask("alice", core.Approval{Type: core.ApproveTool, Subject: "a:b#1", Tool: "a:b"})
		m.setPin(rightPin)
		if shows, err := p.in(scope).Setup.Pin.ShowsPerson(t.Context()); err != nil || shows {
			t.Errorf("%s: it shows a person: %t, %v", name, shows, err)
		}
		if g, err := p.store.Guard(t.Context()); err != nil || g.Pin == "" || !g.Unproved {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

// Wrong PINs slow all further ones down, those of other processes too, and the
// right one ends that.
func TestPin_WrongOnesAreSlowed(t *testing.T) {
	skiptest.NoRace(t) // it spends its time on bcrypt
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	m.clock.stand() // to check a PIN can take seconds
	one, two := m.client(), m.client()
	try := func(c *client, pin string) *core.Error {
		t.Helper()
		_, err := c.PinChange(c.ctx(), pin, "another PIN")
		if err == nil {
			return nil
		}
		return code(t, err, core.CodeAuth)
	}
	tooSoon := func(e *core.Error) bool { return e != nil && strings.Contains(e.Message, "the next try counts from") }
	for i := range 5 {
		if e := try([]*client{one, two}[i%2], "letmein1"); e == nil || tooSoon(e) {
			t.Fatalf("try %d: %v", i, e)
		}
	}
	for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if e := try(one, rightPin); !tooSoon(e) {
			t.Fatalf("before %s: %v", wait, e)
		}
		m.clock.forward(wait - time.Second/2)
		if e := try(two, rightPin); !tooSoon(e) {
			t.Fatalf("just before %s: %v", wait, e)
		}
		m.clock.forward(time.Second)
		if e := try(two, "letmein1"); e == nil || tooSoon(e) {
			t.Fatalf("after %s: %v", wait, e)
		}
	}
	m.clock.forward(time.Hour)
	if e := try(one, rightPin); e != nil {
		t.Fatal(e)
	}
	if e := try(one, "letmein1"); e == nil || tooSoon(e) {
		t.Errorf("the count goes on after the right PIN: %v", e)
	}
	one.tries(core.PinTries{Wrong: 1000000, Last: m.clock.Now()})
	m.clock.forward(15*time.Minute + time.Second)
	if e := try(one, rightPin); e != nil {
		t.Errorf("the wait has no bound: %v", e)
	}
	// A clock that was set back keeps nobody out for longer than the wait.
	one.tries(core.PinTries{Wrong: 5, Last: m.clock.Now().Add(1000 * time.Hour)})
	if e := try(one, rightPin); !tooSoon(e) {
		t.Errorf("a try in the future waits for nothing: %v", e)
	}
	m.clock.forward(6 * time.Second)
	if e := try(one, rightPin); e != nil {
		t.Error(e)
	}
}

// Many tries at once are counted one by one, so that they are not more than
// tries one after another.
func TestPin_AtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	clients := []*client{m.client(), m.client(), m.client()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := 0
	for i := range 18 {
		wg.Go(func() {
			_, err := clients[i%3].PinChange(t.Context(), "letmein1", "another PIN")
			if err == nil || core.CodeOf(err) != core.CodeAuth {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(err.Error(), "is wrong") {
				seen++
			}
		})
	}
	wg.Wait()
	if seen != 5 {
		t.Errorf("%d of 18 wrong PINs were looked at, want 5", seen)
	}
}

// bcrypt looks at 72 bytes only: what stands behind them must not be ignored.
func TestPin_Long(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	long := strings.Repeat("p", 72)
	m.setPin(long)
	c := m.client()
	_, err := c.PinChange(c.ctx(), long+"x", "another PIN")
	code(t, err, core.CodeAuth)
	if _, err := c.PinChange(c.ctx(), long, "another PIN"); err != nil {
		t.Error(err)
	}
}

// What cannot be counted or compared approves nothing, the right PIN either.
func TestPin_FailsClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(*machine)
		want   core.Code
	}{
		"Folder":   {func(m *machine) { _ = os.Mkdir(filepath.Join(m.home, "pin.json"), 0o700) }, core.CodeStoreFailed},
		"Garbage":  {func(m *machine) { m.writeHome("pin.json", "{") }, core.CodeStoreFailed},
		"NoHash":   {func(m *machine) { m.writeHome("config.json", `{"approvals": {"pin": "`+strings.Repeat("x", 60)+`"}}`) }, core.CodeInvalidConfig},
		"Clear":    {func(m *machine) { m.writeHome("config.json", `{"approvals": {"pin": "`+rightPin+`"}}`) }, core.CodeInvalidConfig},
		"Empty":    {func(m *machine) { m.writeHome("config.json", `{"approvals": {"pin": ""}}`) }, core.CodeInvalidConfig},
		"FromRepo": {func(m *machine) { m.write(".pml.json", `{"approvals": {"pin": null}}`) }, core.CodeInvalidConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			cl := m.client()
			r := cl.execute(writes, api.StatusApprovalRequired)
			m.setPin(rightPin)
			c.damage(m)
			_, err := cl.decide(r.WorkflowID, api.Decision{Approve: true, Pin: rightPin})
			code(t, err, c.want)
			if ap, err := cl.Approval(cl.ctx(), r.CheckpointID); err != nil || ap.State != core.ApprovalOpen {
				t.Errorf("%v %+v", err, ap)
			}
		})
	}
}

func TestPinChange(t *testing.T) {
	skiptest.NoRace(t) // it spends its time on bcrypt
	t.Parallel()
	m := newMachine(t)
	m.writeHome("config.json", "{\n  // mine\n  \"approvals\": {\"ttl\": \"1h\"}\n}\n")
	c := m.client()
	for _, bad := range []string{"12345", strings.Repeat("ü", 37), "abc\x1bdef", "abc\ndef", "\xff\xff\xff\xff\xff\xff"} {
		if _, err := c.PinChange(c.ctx(), "", bad); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%q: %v", bad, err)
		}
	}
	set, err := c.PinChange(c.ctx(), "", "größer")
	if err != nil || len(set.Changes) != 1 {
		t.Fatal(set, err)
	}
	raw, err := json.Marshal(set)
	if err != nil || bytes.Contains(raw, []byte("$2a$")) || bytes.Contains(raw, []byte("größer")) || !strings.Contains(set.Changes[0].Diff, "«PIN»") {
		t.Errorf("%v %s", err, raw)
	}
	if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(m.home, "config.json"))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Error(fi, err)
	}
	if data, err := os.ReadFile(filepath.Join(m.home, "config.json")); err != nil || !strings.Contains(string(data), "// mine") || !strings.Contains(string(data), "$2a$12$") {
		t.Errorf("%s %v", data, err)
	}
	if err := c.AdoptPin(c.ctx(), "", true); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"", "grösser"} {
		_, err = c.PinChange(c.ctx(), old, "")
		code(t, err, core.CodeAuth)
	}
	set, err = c.PinChange(c.ctx(), "größer", "")
	if err != nil || strings.Contains(set.Changes[0].Diff, "$2a$") {
		t.Fatal(set, err)
	}
	if _, err := c.Write(c.ctx(), set, false, ""); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]core.Code{"": core.CodeAuth, "grösser": core.CodeAuth} {
		code(t, c.AdoptPin(c.ctx(), old, true), want)
		if need, err := c.NeedsPin(c.ctx()); err != nil || !need {
			t.Error("who can write config.json has removed the PIN:", need, err)
		}
	}
	if err := c.AdoptPin(c.ctx(), "größer", true); err != nil {
		t.Fatal(err)
	}
	if need, err := c.NeedsPin(c.ctx()); err != nil || need {
		t.Error(need, err)
	}
}

// tries sets how often a wrong PIN was given.
func (c *client) tries(n core.PinTries) {
	c.t.Helper()
	err := c.store.ChangeGuard(c.ctx(), func(g *core.Guard) error { g.Tries = map[string]core.PinTries{"": n}; return nil })
	if err != nil {
		c.t.Fatal(err)
	}
}

// A home with another configuration, or none, that uses the same store decides no
// more than this one: the PIN is asked for where the run is kept.
func TestPin_AnotherHome(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.setPin(rightPin)
	r := m.client().execute(writes, api.StatusApprovalRequired)
	for _, config := range []string{`{}`, `{"approvals": {"pin": ""}}`, `{"approvals": {"decider": "any"}}`} {
		m.writeHome("config.json", config)
		c := m.client()
		if _, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Presence: core.PresenceTerminal}); core.CodeOf(err) != core.CodeAuth && core.CodeOf(err) != core.CodeInvalidConfig {
			t.Errorf("%s: %v", config, err)
		}
		if err := c.AdoptPin(c.ctx(), "", true); err == nil {
			t.Errorf("%s: the PIN is gone", config)
		}
	}
	m.writeHome("config.json", `{}`)
	c := m.client()
	other := api.Decision{Approve: true, Pin: rightPin}
	if _, err := c.decide(r.WorkflowID, other); err != nil {
		t.Errorf("with the PIN: %v", err)
	}
}

// TestPin_OneWayToDecide: decisions reach the store through Continue alone, which asks for
// the PIN: about an approval, or to give an agent more.
func TestPin_OneWayToDecide(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	decides := regexp.MustCompile(`core\.Decision\{`)
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(root, path)
		if err != nil || rerr != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "testdata", "store", "enginetest"}, d.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil && decides.Match(data) {
			found = append(found, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil || !slices.Equal(found, []string{"core/service/agent_grants.go", "core/service/decide.go"}) {
		t.Errorf("%v: decisions are made in %v; each place must ask for the PIN", err, found)
	}
}

// What a line leaves open is said where its text is trusted, and where it changes.
func TestTrust_Unpinned(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.configure(c, nil, map[string]any{
		"time":  map[string]any{"command": "uvx", "args": []string{"mcp-server-time"}},
		"fixed": map[string]any{"command": "uvx", "args": []string{"mcp-server-git==2026.1.14"}},
		"box":   map[string]any{"command": "docker", "args": []string{"run", "-i", "--rm", "mcp/box:latest"}},
	})
	s, err := c.Trust(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Warnings) != 2 || !strings.Contains(s.Warnings[0], "box: the image mcp/box:latest has no digest") || !strings.Contains(s.Warnings[1], "time: the package mcp-server-time has no exact version") {
		t.Errorf("%q", s.Warnings)
	}
}

// torn is a store that dies before one of its next writes: what is written in two of them
// can be torn apart.
type torn struct {
	store.Store
	left atomic.Int32
}

func (s *torn) dies() error {
	if s.left.Add(-1) < 0 {
		return core.Errorf(core.CodeStoreFailed, "no space")
	}
	return nil
}

func (s *torn) Record(ctx context.Context, rows ...core.AuditRow) error {
	if err := s.dies(); err != nil {
		return err
	}
	return s.Store.Record(ctx, rows...)
}

func (s *torn) ChangeGuard(ctx context.Context, change func(*core.Guard) error, rows ...core.AuditRow) error {
	if err := s.dies(); err != nil {
		return err
	}
	return s.Store.ChangeGuard(ctx, change, rows...)
}

// What the audit log says of the store's PIN is true, wherever pml was killed: the row comes
// with the change, and once.
func TestAdoptPin_OneWrite(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte(rightPin), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	adopted := false
	for writes := int32(0); !adopted; writes++ {
		m := newMachine(t)
		m.writeHome("config.json", fmt.Sprintf(`{"approvals": {"pin": %q}}`, hash))
		below := m.client()
		s := &torn{Store: below.store}
		s.left.Store(math.MaxInt32)
		c := m.over(s)
		if need, err := c.NeedsPin(c.ctx()); err != nil || !need {
			t.Fatal(need, err)
		}
		m.writeHome("config.json", `{}`)
		s.left.Store(2 + writes) // the try of the PIN is counted, and found right
		adopted = c.AdoptPin(c.ctx(), rightPin, true) == nil
		s.left.Store(math.MaxInt32)
		rows, err := below.store.Audit(c.ctx(), store.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, r := range rows {
			if r.Reason == "removed the PIN that decisions need" {
				told++
			}
		}
		g, err := below.store.Guard(c.ctx())
		if err != nil || (g.Pin == "") != adopted || (told == 1) != adopted || told > 1 {
			t.Errorf("killed before write %d: the PIN is %q, told %d times, adopted %v, %v", writes, g.Pin, told, adopted, err)
		}
		if err := c.AdoptPin(c.ctx(), rightPin, true); err != nil {
			t.Error(err)
		}
	}
}
