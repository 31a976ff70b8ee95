//go:build unix

package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/testdata/clients/hosts/model"
	"github.com/casys-ai/pml/testdata/clients/hosts/trial"
)

// TestHosts_Page: the agent in Claude Code asks while its person is away. ntfy has the
// message on the phone, its link opens the page in a browser of that size, and there the
// person decides with the PIN. The agent's open call returns, and the audit log names the
// phone. The same with all of pml but the agent's own process killed and started again in
// between, and with that one killed, too: then the call of the host ends in an error,
// and the server goes on with the run.
func TestHosts_Page(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "installs agent hosts from the npm registry (1.4 GB)")
	for _, killed := range []string{"nothing", "server", "all"} {
		t.Run(killed, func(t *testing.T) { walkAway(t, killed) })
	}
}

func walkAway(t *testing.T, killed string) {
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"decider": "human"}
	i := slices.IndexFunc(trial.Hosts, func(h trial.Host) bool { return h.Name == "claude-code" })
	p := &away{hosted: hostOn(t, trial.Hosts[i], c), topic: newTopic(t)}
	p.loosen()
	p.model.Turns = []model.Turn{
		{Tool: "execute", Args: map[string]any{
			"name": "clean up", "code": `return (await mcp.rec.danger({x: "old"})).done`, "options": map[string]any{"wait": hostPatience.Milliseconds()},
		}},
		{Say: theEnd},
	}
	p.serves("127.0.0.1:0")
	p.setPIN()
	p.pairs()

	ctx, cancel := context.WithTimeout(context.Background(), hostPatience)
	defer cancel()
	var said pmltest.Buffer
	host := p.started(ctx, p.host.Headless)
	host.Stdout, host.Stderr = &said, &said
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the host said: %s\nit asked its model: %+v\n%s%s", said.String(), p.model.Seen(), p.PML("approvals", "ls").Stdout, p.PML("notify", "ls").Stdout)
		}
	})
	var asked published
	pmltest.WaitFor(t, "a message on the phone", func() bool {
		list := p.topic.messages()
		if len(list) > 0 {
			asked = list[0]
		}
		return len(list) > 0
	})
	pmltest.Wants(t, asked.Message, "1 approval waits (high)", "clean up")
	if strings.Contains(asked.Message, "old") || !strings.HasPrefix(asked.Click, p.at+"/approvals/") {
		t.Errorf("%+v", asked)
	}
	p.kills(killed, host.Process.Pid)
	p.decides(asked.Click)
	if err := host.Wait(); err != nil {
		t.Fatal(err)
	}
	id := p.Runs()[0].ID
	pmltest.WaitFor(t, "the run's end", func() bool { return p.Workflow(id).State == core.RunComplete })
	if r := p.results()[0]; strings.Contains(r, `"success"`) != (killed != "all") {
		t.Errorf("the agent got %s", r)
	}
	if n := p.Count("danger"); n != 1 {
		t.Errorf("danger ran %d times", n)
	}
	pmltest.Wants(t, p.OK("audit", "ls", "--json").Stdout, `"via": "page"`, `"name": "phone"`, `"asked": "pin"`)
	pmltest.WaitFor(t, "what became of it, on the phone", func() bool {
		return slices.ContainsFunc(p.topic.messages(), func(m published) bool { return strings.Contains(m.Message, "approved") })
	})
}

// away is a machine on which an agent works, and the phone of its person, who is elsewhere.
type away struct {
	*hosted
	topic  *topic
	server *pmltest.Process
	at     string // the address of the server
	phone  *pmltest.Chromium
}

// serves starts the server, and tells pml where messages go and what they link to.
func (p *away) serves(listen string) {
	p.T.Helper()
	p.server = p.Serving("--listen", listen)
	p.at = p.Status(0).Server.URL
	config := fmt.Sprintf(`{"approvals": {"notify": {"after": "200ms", "burst": "0", "page": %q, "carriers": {"phone": {"type": "ntfy", "url": %q}}}}}`, p.at, p.topic.url)
	if err := os.WriteFile(filepath.Join(p.Machine.Home, "config.json"), []byte(config), 0o600); err != nil {
		p.T.Fatal(err)
	}
}

func (p *away) setPIN() {
	p.T.Helper()
	set := p.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed(`the new PIN \(at least 6 characters\): `, pmltest.MachinePIN), pmltest.Typed("the new PIN once more: ", pmltest.MachinePIN), pmltest.Typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	if set.Exit != 0 {
		p.T.Fatal(set.Text)
	}
}

// pairs makes the browser of the phone a device of the machine.
func (p *away) pairs() {
	p.T.Helper()
	var pairing struct{ URL string }
	p.OK("pair", "phone", "--json").Decode(&pairing)
	p.phone = pmltest.NewChromium(p.T)
	p.phone.Open(pairing.URL)
	p.phone.Until(`document.querySelector("button") && document.querySelector("button").textContent == "Pair as phone"`)
	p.phone.Eval(`document.querySelector("button").click()`)
	p.phone.Until(`document.querySelector("h1").textContent == "Nothing waits"`)
}

// kills ends pml while the question waits, and starts what a person starts again: the
// server, where it was.
func (p *away) kills(what string, host int) {
	p.T.Helper()
	if what == "nothing" {
		return
	}
	if what == "all" {
		for _, pid := range pmltest.Descendants(p.T, host) {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && bytes.HasSuffix(line, []byte("\x00stdio\x00")) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
			}
		}
	}
	p.server.Kill()
	p.serves(strings.TrimPrefix(p.at, "http://"))
}

// decides opens the link of a message on the phone and approves what it shows.
func (p *away) decides(link string) {
	p.T.Helper()
	p.phone.Open(link)
	p.phone.Until(`document.querySelector("#decide")`)
	id := p.Runs()[0].ID
	fill := fmt.Sprintf(`document.querySelector("#typed").value = %q; document.querySelector("input[name=pin]").value = %q`, string(id[:4]), pmltest.MachinePIN)
	p.phone.Eval(fill + `; document.querySelector("button.good").click()`)
	p.phone.Until(`document.querySelector("#live") && document.querySelector("#live").textContent.includes("via page on phone")`)
}

// published is a message of ntfy, as far as this test reads it.
type published struct {
	Event, Message, Click string
}

// topic is one of an ntfy server: of a real one if PML_TEST_NTFY names the program,
// otherwise of a stand-in that keeps what is published.
type topic struct {
	url string

	mu   sync.Mutex
	kept []published
}

func newTopic(t *testing.T) *topic {
	t.Helper()
	s := &topic{}
	if program := os.Getenv("PML_TEST_NTFY"); program != "" {
		s.url = startNtfy(t, program) + "/away"
		return s
	}
	stand := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m published
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.Event = "message"
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = append(s.kept, m)
	}))
	t.Cleanup(stand.Close)
	s.url = stand.URL + "/away"
	return s
}

// startNtfy starts a server of ntfy on a port of its own, and returns its address.
func startNtfy(t *testing.T, program string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close() // ntfy listens there next
	dir := t.TempDir()
	cmd := exec.Command(program, "serve", "--listen-http", at, "--base-url", "http://"+at, "--cache-file", filepath.Join(dir, "cache.db"), "--config", os.DevNull,
		"--visitor-request-limit-exempt-hosts", "127.0.0.1") // this test asks often
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	pmltest.WaitFor(t, "ntfy listens", func() bool {
		r, err := http.Get("http://" + at + "/v1/health")
		return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	return "http://" + at
}

// messages are those of the topic, the oldest first.
func (s *topic) messages() (out []published) {
	s.mu.Lock()
	out = slices.Clone(s.kept)
	s.mu.Unlock()
	if os.Getenv("PML_TEST_NTFY") == "" {
		return out
	}
	r, err := http.Get(s.url + "/json?poll=1")
	if err != nil {
		return nil
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		var m published
		if json.Unmarshal(line, &m) == nil && m.Event == "message" {
			out = append(out, m)
		}
	}
	return out
}
