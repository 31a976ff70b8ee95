package cli_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/cli"
	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

// shell runs the command line against a fake.
type shell struct {
	devices       fakeDevices
	fake          *fake
	stdin         string
	input         io.Reader // stands for stdin, when set
	tty           bool
	toFile        bool // with tty: stdout is none
	width         int
	env           map[string]string
	secrets       []string // what is typed without echo; nil: there is no terminal for it
	prompts       []string
	dropTyped     func()
	browsed       []string
	ctx           context.Context
	opened        int
	out, err      string
	code          int
	openErr       error
	page          func(ctx context.Context, text string) error
	edit          func(ctx context.Context, name, text string) (string, error)
	seenOpenFlags app.OpenOptions
	server        *fakeServer
	maintenance   app.Maintenance // nil: the build has none
	served        app.ServeOptions
	notified      app.NotifyOptions
	gap           string              // what the backend warns of
	heard         func(stderr string) // called after it
	clock         core.Clock          // nil: one that stands still
}

// buffer is a writer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *shell) run(args ...string) *shell {
	if s.fake == nil {
		s.fake = &fake{}
	}
	if s.ctx == nil {
		s.ctx = context.Background()
	}
	if s.input == nil {
		s.input = strings.NewReader(s.stdin)
	}
	if s.clock == nil {
		s.clock = clock{}
	}
	var out, errs buffer
	s.code = cli.Main(s.ctx, args, app.Deps{
		DropTyped: s.dropTyped, ReadSecret: s.readSecret(), OpenURL: s.openURL, EditText: s.edit, Page: s.page,
		Stdin: s.input, Stdout: &out, Stderr: &errs,
		StdinTTY: s.tty, StdoutTTY: s.tty && !s.toFile, StderrTTY: s.tty,
		Width:   func() int { return s.width },
		Environ: func(n string) (string, bool) { v, ok := s.env[n]; return v, ok },
		Clock:   s.clock, User: "ann",
		Version: app.Version{Version: "1.2.3", Commit: "abc", Go: "go1.26"},
		Serve:   s.serve, Notify: s.notify, LocalServer: s.localServer, Devices: func(app.OpenOptions) (app.Devices, error) { return &s.devices, nil },
		Maintenance: s.openMaintenance(),
		Open: func(_ context.Context, o app.OpenOptions) (app.Backend, error) {
			s.opened++
			s.seenOpenFlags = o
			s.fake.progress = o.Progress
			s.fake.gap = func() {
				if s.gap != "" {
					o.Warn(s.gap)
				}
				if s.heard != nil {
					s.heard(errs.String())
				}
			}
			if s.openErr != nil {
				return nil, s.openErr
			}
			return s.fake, nil
		},
	})
	s.out, s.err = out.b.String(), errs.b.String()
	return s
}

// readSecret types one secret after the other, then the end of the input.
func (s *shell) readSecret() func(context.Context, string) (string, error) {
	if s.secrets == nil {
		return nil
	}
	return func(_ context.Context, prompt string) (string, error) {
		s.prompts = append(s.prompts, prompt)
		if len(s.secrets) == 0 {
			return "", io.EOF
		}
		text := s.secrets[0]
		s.secrets = s.secrets[1:]
		return text, nil
	}
}

func (s *shell) openURL(_ context.Context, url string) error {
	s.browsed = append(s.browsed, url)
	return nil
}

// colourless is what was written, without colours where the terminal has them.
func (s *shell) colourless() string {
	if s.env["TERM"] == "" {
		return s.out + s.err
	}
	return plain(s.out + s.err)
}

func (s *shell) want(t *testing.T, code int) *shell {
	t.Helper()
	if s.code != code {
		t.Fatalf("exit %d, want %d\nstdout: %s\nstderr: %s", s.code, code, s.out, s.err)
	}
	if i := strings.IndexFunc(s.colourless(), func(r rune) bool { return r == 0x1b || r == 0x9b }); i >= 0 {
		t.Fatalf("an escape byte in the output: %q", s.out+s.err)
	}
	return s
}

func (s *shell) has(t *testing.T, where string, parts ...string) *shell {
	t.Helper()
	text := map[string]string{"out": s.out, "err": s.err}[where]
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("std%s lacks %q:\n%s", where, p, text)
		}
	}
	return s
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
