//go:build linux

package approvals_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

const notifySecret = "a-secret-of-many-characters"

// note is what a receiver of messages looks at.
type note struct {
	ID, Kind, Text string
	Count          int
	genuine        bool
}

// receiver takes messages, or answers that it cannot.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	down bool
	got  []note // also those that it did not take
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mac := hmac.New(sha256.New, []byte(notifySecret))
		_, _ = mac.Write([]byte(req.Header.Get("Webhook-Id") + "." + req.Header.Get("Webhook-Timestamp") + "." + string(body)))
		n := note{genuine: req.Header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))}
		_ = json.Unmarshal(body, &n)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, n)
		if r.down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) notes() []note {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]note(nil), r.got...)
}

func (r *receiver) setDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// notified configures a machine with a webhook.
func notified(t *testing.T, r *receiver) *pmltest.Machine {
	t.Helper()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	for name, text := range map[string]string{
		"config.json": `{"approvals": {"notify": {"after": "1s", "burst": "0", "carriers": {"hook": {"type": "webhook", "url": "` + r.URL + `", "secret": "${NOTIFY_SECRET}"}}}}}`,
		".env":        "NOTIFY_SECRET=" + notifySecret + "\n",
	} {
		if err := os.WriteFile(filepath.Join(m.Home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// background are the processes that pml has started for the notifications of a home.
func background(t *testing.T, home string) (pids []int) {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, _ := os.ReadFile(name)
		vars, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		if bytes.Contains(line, []byte("notify\x00run\x00--background")) && bytes.Contains(vars, []byte("PML_HOME="+home+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// killBackground kills the processes of background, and waits until they are gone.
func killBackground(t *testing.T, home string) {
	t.Helper()
	for _, pid := range background(t, home) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		pmltest.WaitGone(t, pid)
	}
}

// TestNotify_Background: what comes to wait is told by a process that pml starts by itself,
// once however many there were, and so is what became of it.
func TestNotify_Background(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	m := notified(t, r)
	t.Cleanup(func() { killBackground(t, m.Home) })
	asks := m.Execute(8, `return await mcp.rec.danger({x: "`+notifySecret+`"})`, "--name", "nightly\nrun "+notifySecret)
	pmltest.WaitFor(t, "the message", func() bool { return len(r.notes()) > 0 })
	ap := m.Approvals()[0]
	n := r.notes()[0]
	if !n.genuine || n.Kind != "asked" || n.Count != 1 || !strings.Contains(n.Text, "decide: pml approve "+ap.ID.Short()) || strings.Contains(n.Text, notifySecret) || strings.Contains(n.Text, "danger") {
		t.Errorf("%+v", n)
	}
	if pids := background(t, m.Home); len(pids) != 1 {
		t.Errorf("%d processes", len(pids))
	}
	m.Exit(1, "notify", "run", "--idle", "1s")
	m.JSON(0, "continue", string(asks.WorkflowID), "--approve")
	pmltest.WaitFor(t, "what became of it", func() bool { return len(r.notes()) > 1 })
	if n := r.notes()[1]; !n.genuine || n.Kind != "decided" || !strings.Contains(n.Text, "approved") {
		t.Errorf("%+v", n)
	}
	log := pmltest.ReadFile(t, filepath.Join(m.Home, "logs", "notify.log"))
	if strings.Contains(log, notifySecret) || !strings.Contains(log, "sent a notification") {
		t.Error(log)
	}
	if out := m.OK("notify", "ls", "--json").Stdout; !strings.Contains(out, `"sent_at"`) {
		t.Error(out)
	}
}

// TestNotify_CommandOneKey: the command that a message tells, typed or copied as it is, shows
// the card, and enter decides it.
func TestNotify_CommandOneKey(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	m := notified(t, r)
	m.Setenv("PML_NO_AUTOSTART", "1")
	m.Configure(pmltest.Config{Permissions: map[string]any{"ask": []string{"rec:write"}}})
	m.Execute(8, `await mcp.rec.write({path: "a"}); return "it was written"`)
	p := m.Start("notify", "run")
	pmltest.WaitFor(t, "the message", func() bool { return len(r.notes()) > 0 })
	p.Kill()
	_, after, _ := strings.Cut(r.notes()[0].Text, "decide: pml ")
	command, _, _ := strings.Cut(after, "\n")
	screen := m.OnScreen(140, 40, m.Command(t.Context(), strings.Fields(command)...))
	pmltest.Wants(t, screen.Shows("[y]es, once (enter)"), "rec:write")
	screen.Does("\r", "it was written") // it is one key once the question has stood there
	if code := screen.End(); code != 0 || m.Count("write") != 1 || m.Audited(core.ApprovalApproved) != 1 {
		t.Errorf("pml %s: exit %d, %d calls\n%s", command, code, m.Count("write"), screen.Written())
	}
}

// TestNotify_Killed: the process is killed while the carrier is down; the next one sends the
// message, under the same id.
func TestNotify_Killed(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	m := notified(t, r)
	m.Setenv("PML_NO_AUTOSTART", "1")
	r.setDown(true)
	m.Execute(8, `return await mcp.rec.danger({x: "a"})`)
	if pids := background(t, m.Home); len(pids) != 0 {
		t.Errorf("%v were started", pids)
	}
	p := m.Start("notify", "run")
	pmltest.WaitFor(t, "a failed try", func() bool { return strings.Contains(m.PML("notify", "ls").Stdout, "answered 503") })
	p.Kill()
	pmltest.Wants(t, m.PML("doctor").Stdout, "hook has not taken messages since")
	pmltest.Wants(t, m.OK("status").Stdout, "not notified (1)", "answered 503")
	before := r.notes()
	r.setDown(false)
	q := m.Start("notify", "run")
	pmltest.WaitFor(t, "the message", func() bool { return !strings.Contains(m.OK("notify", "ls").Stdout, "503") })
	q.Kill()
	for _, n := range r.notes() {
		if n.ID != before[0].ID || n.Kind != "asked" || !n.genuine {
			t.Errorf("%+v, at first %+v", n, before[0])
		}
	}
}

// TestNotify_KilledAll: all of pml is killed before anybody was notified; the server that is
// started then sees to it.
func TestNotify_KilledAll(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits for a process that tells of approvals")
	r := newReceiver(t)
	m := notified(t, r)
	t.Cleanup(func() { killBackground(t, m.Home) }) // the one that serve has started
	r.setDown(true)
	m.Execute(8, `return await mcp.rec.danger({x: "a"})`)
	pmltest.WaitFor(t, "a failed try", func() bool { return len(r.notes()) > 0 })
	killBackground(t, m.Home)
	before := len(r.notes())
	r.setDown(false)
	m.Serving()
	pmltest.WaitFor(t, "the message", func() bool { return len(r.notes()) > before })
}

// TestNotify_Test says what carriers answer.
func TestNotify_Test(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	m := notified(t, r)
	pmltest.Wants(t, m.OK("notify", "test").Stdout, "taken")
	r.setDown(true)
	pmltest.Wants(t, m.Exit(1, "notify", "test", "hook").Stdout, "answered 503")
	m.Exit(3, "notify", "test", "hok")
	m.Write(".pml.json", `{"approvals": {"notify": {"details": true}}}`)
	m.Write("x.ts", "return 1")
	if f := m.PML("run", "x.ts", "--json"); !strings.Contains(f.Stdout+f.Stderr, "not for a workspace to say") {
		t.Errorf("%s%s", f.Stdout, f.Stderr)
	}
}
