package oauth_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/oauth/oauthtest"
	"github.com/casys-ai/pml/core/upstream"
)

var _ upstream.Authorizer = (*oauth.Authorizer)(nil)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && strings.HasPrefix(os.Args[1], "child-") {
		os.Exit(child(os.Args[1], os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(verify(m))
}

// verify runs the tests and finds goroutines that they left behind. On a busy
// machine some take seconds to end.
func verify(m *testing.M) int {
	code := m.Run()
	for tries := 1; code == 0; tries++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if tries == 60 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// child is another process of pml: it says what it has on stdout, and ends when
// it is told to, or killed.
func child(what, dir, url, now string) int {
	seconds, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return 2
	}
	c := oauth.New(oauth.Options{Dir: dir, Clock: &clock{at: time.Unix(seconds, 0)}, Ticks: fast})
	s := oauth.Server{Name: "child", URL: url}
	in := bufio.NewReader(os.Stdin)
	switch what {
	case "child-refresh":
		fmt.Println("ready")
		_, _ = in.ReadString('\n')
		header, err := c.Authorizer(s).Header(context.Background())
		fmt.Println(header, err)
	case "child-begin":
		f, err := c.Begin(context.Background(), s)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(f.URL)
		_, _ = in.ReadString('\n')
	}
	return 0
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, h *harness, what string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, what, h.dir, h.as.URL, strconv.FormatInt(h.clock.Now().Unix(), 10))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{cmd: cmd, in: in, out: bufio.NewReader(out)}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the child said %q, then %v", line, err)
	}
	return strings.TrimSpace(line)
}

func (p *process) goOn() { _, _ = io.WriteString(p.in, "\n") }

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func fast(time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(2 * time.Millisecond)
	return t.C, t.Stop
}

// harness is a protected server, a folder and a clock. Whatever is logged, said
// in an error or shown on a page is searched for secrets at the end.
type harness struct {
	t     *testing.T
	as    *oauthtest.Server
	clock *clock
	dir   string
	said  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newHarness(t *testing.T, b oauthtest.Behaviour) *harness {
	t.Helper()
	h := &harness{t: t, clock: &clock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}, dir: filepath.Join(t.TempDir(), "credentials"), said: &lockedBuffer{}}
	h.as = oauthtest.New(b, h.clock.Now)
	t.Cleanup(h.as.Close)
	t.Cleanup(func() {
		said := h.said.String()
		for _, secret := range h.as.Secrets() {
			if strings.Contains(said, secret) {
				t.Errorf("a secret was shown: %s in\n%s", secret, said)
			}
		}
	})
	return h
}

func (h *harness) client() *oauth.Client {
	return oauth.New(oauth.Options{Dir: h.dir, Clock: h.clock, Ticks: fast, Logger: slog.New(slog.NewTextHandler(h.said, nil))})
}

func (h *harness) server() oauth.Server {
	return oauth.Server{Name: "demo", URL: h.as.URL}
}

func (h *harness) begin(c *oauth.Client) *oauth.Flow {
	h.t.Helper()
	f, err := c.Begin(context.Background(), h.server())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { f.Close() })
	return f
}

// browse opens a URL and says what was shown.
func (h *harness) browse(url string) (int, string) {
	h.t.Helper()
	status, page, err := oauthtest.Browse(context.Background(), url)
	if err != nil {
		h.t.Fatal(err)
	}
	_, _ = io.WriteString(h.said, page)
	return status, page
}

func (h *harness) wait(f *oauth.Flow) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := f.Wait(ctx)
	h.say(err)
	return err
}

func (h *harness) say(err error) {
	if err != nil {
		fmt.Fprintf(h.said, "%v %+v\n", err, core.AsError(err).Next)
	}
}

// connect takes the person through a whole flow.
func (h *harness) connect(c *oauth.Client) {
	h.t.Helper()
	f := h.begin(c)
	if status, page := h.browse(f.URL); status != 200 || !strings.Contains(page, "pml is connected to demo") {
		h.t.Fatalf("%d %s", status, page)
	}
	if err := h.wait(f); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) header(c *oauth.Client) string {
	h.t.Helper()
	header, err := c.Authorizer(h.server()).Header(context.Background())
	h.say(err)
	if err != nil {
		h.t.Fatal(err)
	}
	return header
}

func (h *harness) wantCode(err error, code core.Code, words ...string) {
	h.t.Helper()
	h.say(err)
	if core.CodeOf(err) != code {
		h.t.Fatalf("error %v (%s), want %s", err, core.CodeOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			h.t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// call calls the protected server with what the client gives for it.
func (h *harness) call(m *upstream.Manager, s oauth.Server, c *oauth.Client) error {
	l := upstream.Launch{Name: s.Name, Workspace: "/w", URL: s.URL, Auth: c.Authorizer(s)}
	resp, err := m.Call(context.Background(), upstream.Request{Launch: l, Tool: "echo", Args: []byte(`{"a":1}`)})
	h.say(err)
	if err == nil && string(resp.Value) != `{"a":1}` {
		h.t.Errorf("answer %s", resp.Value)
	}
	return err
}
